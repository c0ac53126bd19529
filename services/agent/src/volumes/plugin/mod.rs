//! Plugins of dynamic host volumes: the built-in `mkdir`, and programs in the plugin directory. A program gets the
//! operation as its only argument and in its environment, and answers with JSON on its standard output.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::text::quoted;
use model::{HostVolumeId, Text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// Name of the built-in plugin, which creates a directory.
pub(crate) const MKDIR: &str = "mkdir";
/// Version of the built-in plugin.
const MKDIR_VERSION: &str = "0.0.1";
/// Permissions of the directories that the built-in plugin creates.
const MODE: u32 = 0o700;
/// How long a program may take to say its version.
const FINGERPRINT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a program may take to create or delete a volume.
const WORK_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of what a program writes, in bytes. The rest is discarded.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// How many bytes of a program's error output are shown.
const SHOWN_CHARS_MAX: usize = 500;
/// Maximum number of programs in the plugin directory that are asked for their version.
const PLUGINS_MAX: usize = 64;
/// The environment of programs besides their own variables.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a plugin failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PluginError {
    /// There is no such plugin.
    #[error("no such host volume plugin {0}")]
    Unknown(String),
    /// The built-in plugin does not accept a parameter.
    #[error("plugin mkdir: {0}")]
    Parameter(String),
    /// The built-in plugin cannot write to the disk.
    #[error("plugin mkdir: cannot {action} {path}", path = .path.display())]
    Disk {
        /// What it did.
        action: &'static str,
        /// Where.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A program could not be run, or did not end well.
    #[error("plugin {plugin}: {text}")]
    Program {
        /// Its name.
        plugin: String,
        /// What went wrong.
        text: String,
    },
}

/// A volume, as plugins see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// Its id.
    pub(crate) id: HostVolumeId,
    /// Its namespace.
    pub(crate) namespace: Text,
    /// Its name.
    pub(crate) name: Text,
    /// The plugin that creates it; empty for a directory that was registered.
    pub(crate) plugin: Text,
    /// Smallest capacity in bytes.
    pub(crate) bytes_min: i64,
    /// Largest capacity in bytes.
    pub(crate) bytes_max: i64,
    /// Parameters of the plugin.
    pub(crate) parameters: BTreeMap<Text, Text>,
}

/// What a plugin has created.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Created {
    /// Path of the volume.
    pub(crate) path: PathBuf,
    /// Its capacity in bytes; 0 if it is not known.
    #[serde(default)]
    pub(crate) bytes: i64,
}

/// What a program says about itself.
#[derive(Debug, Deserialize)]
struct Version {
    version: String,
}

/// Where plugins work, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directory in which they create volumes.
    pub(crate) volumes_dir: PathBuf,
    /// The directory with programs.
    pub(crate) plugin_dir: PathBuf,
    /// The node.
    pub(crate) node: String,
    /// Its pool.
    pub(crate) node_pool: Text,
}

impl Place {
    /// The plugins that work, with their versions.
    pub(crate) async fn detect(&self) -> BTreeMap<Text, Text> {
        let mut found = BTreeMap::from([(MKDIR.into(), MKDIR_VERSION.into())]);
        for name in self.programs() {
            match self.run::<Version>(&name, "fingerprint", &[], FINGERPRINT_TIMEOUT).await {
                Ok(Version { version }) => {
                    found.insert(name.into(), version.into());
                }
                Err(error) => {
                    tracing::warn!(
                        plugin = name,
                        error = telemetry::chain(&error),
                        "a host volume plugin does not work"
                    );
                }
            }
        }
        found
    }

    /// The names of the programs in the plugin directory, in their order.
    fn programs(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.plugin_dir) else { return Vec::new() };
        let is_program = |path: &Path| {
            let metadata = std::fs::metadata(path);
            metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        let names = entries.filter_map(|entry| {
            let entry = entry.ok().filter(|entry| is_program(&entry.path()))?;
            entry.file_name().into_string().ok().filter(|name| name != MKDIR && is_name(name))
        });
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names.truncate(PLUGINS_MAX);
        names
    }

    /// Creates a volume, or finds it.
    pub(crate) async fn create(&self, wanted: &Wanted) -> Result<Created, PluginError> {
        if &*wanted.plugin == MKDIR {
            return self.make_dir(wanted);
        }
        let created: Created = self.run(&wanted.plugin, "create", &variables(wanted), WORK_TIMEOUT).await?;
        if created.path.is_absolute() {
            return Ok(created);
        }
        let text =
            format!("its volume has no absolute path: {}", quoted(&created.path.display().to_string()));
        Err(PluginError::Program { plugin: wanted.plugin.to_string(), text })
    }

    /// Deletes what [`Self::create`] has created. What is gone counts as deleted.
    pub(crate) async fn delete(&self, wanted: &Wanted, path: &Path) -> Result<(), PluginError> {
        if &*wanted.plugin == MKDIR {
            let path = self.volumes_dir.join(wanted.id.to_string());
            return match tokio::fs::remove_dir_all(&path).await {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(PluginError::Disk { action: "remove", path, source })
                }
                Ok(()) | Err(_) => Ok(()),
            };
        }
        let mut variables = variables(wanted);
        variables.push(("DHV_CREATED_PATH", path.display().to_string()));
        self.output(&wanted.plugin, "delete", &variables, WORK_TIMEOUT).await.map(drop)
    }

    /// The directory of a volume of the built-in plugin. It is named after the id, which no job chooses.
    fn make_dir(&self, wanted: &Wanted) -> Result<Created, PluginError> {
        let parameters = Parameters::read(&wanted.parameters).map_err(PluginError::Parameter)?;
        let path = self.volumes_dir.join(wanted.id.to_string());
        let failed = |action: &'static str| {
            let path = path.clone();
            move |source| PluginError::Disk { action, path, source }
        };
        let mut parent = std::fs::DirBuilder::new();
        parent
            .recursive(true)
            .mode(0o711)
            .create(&self.volumes_dir)
            .map_err(failed("create the parent of"))?;
        match std::fs::DirBuilder::new().mode(MODE).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(Created { path, bytes: 0 });
            }
            created => created.map_err(failed("create"))?,
        }
        let mode = std::fs::Permissions::from_mode(parameters.mode);
        let finished =
            std::fs::set_permissions(&path, mode).map_err(failed("set the mode of")).and_then(|()| {
                std::os::unix::fs::chown(&path, parameters.uid, parameters.gid)
                    .map_err(failed("set the owner of"))
            });
        if let Err(error) = finished {
            // The next attempt would take it for a complete one.
            let _ = std::fs::remove_dir(&path);
            return Err(error);
        }
        Ok(Created { path, bytes: 0 })
    }

    /// Runs a program and reads its answer.
    async fn run<T: DeserializeOwned>(
        &self,
        plugin: &str,
        operation: &str,
        variables: &[(&str, String)],
        limit: Duration,
    ) -> Result<T, PluginError> {
        let output = self.output(plugin, operation, variables, limit).await?;
        serde_json::from_slice(&output).map_err(|error| PluginError::Program {
            plugin: plugin.to_owned(),
            text: format!("its answer to {operation} cannot be read: {error}"),
        })
    }

    /// Runs a program, and returns what it writes.
    async fn output(
        &self,
        plugin: &str,
        operation: &str,
        variables: &[(&str, String)],
        limit: Duration,
    ) -> Result<Vec<u8>, PluginError> {
        let program = self.plugin_dir.join(plugin);
        if !is_name(plugin) || !program.is_file() {
            return Err(PluginError::Unknown(quoted(plugin)));
        }
        let failed = |text: String| PluginError::Program { plugin: plugin.to_owned(), text };
        let mut command = Command::new(program);
        command.arg(operation).env_clear().env("PATH", PATH).env("DHV_OPERATION", operation);
        command.env("DHV_VOLUMES_DIR", &self.volumes_dir).env("DHV_PLUGIN_DIR", &self.plugin_dir);
        command.env("DHV_NODE_ID", &self.node).env("DHV_NODE_POOL", &*self.node_pool);
        for (name, value) in variables {
            command.env(name, value);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let work = async { tokio::join!(limited(stdout), limited(stderr), child.wait()) };
        let Ok((stdout, stderr, status)) = timeout(limit, work).await else {
            return Err(failed(format!("{operation} took longer than {} seconds", limit.as_secs())));
        };
        let status = status.map_err(|error| failed(error.to_string()))?;
        if status.success() {
            return Ok(stdout);
        }
        let stderr = String::from_utf8_lossy(&stderr);
        let shown: String = stderr.trim().chars().take(SHOWN_CHARS_MAX).collect();
        Err(failed(format!("{operation} failed: {status}: {shown}")))
    }
}

/// Whether a plugin's name names a file in the plugin directory.
fn is_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none() && !name.contains('\0')
}

/// Reads output up to the limit, and discards the rest, so that the program does not wait.
async fn limited(output: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut output) = output {
        // What was read before an error counts.
        let _ = (&mut output).take(OUTPUT_BYTES_MAX).read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
    }
    kept
}

/// The variables by which a program knows a volume.
fn variables(wanted: &Wanted) -> Vec<(&'static str, String)> {
    let parameters = serde_json::to_string(&wanted.parameters).unwrap_or_else(|_| "{}".to_owned());
    vec![
        ("DHV_NAMESPACE", wanted.namespace.to_string()),
        ("DHV_VOLUME_ID", wanted.id.to_string()),
        ("DHV_VOLUME_NAME", wanted.name.to_string()),
        ("DHV_CAPACITY_MIN_BYTES", wanted.bytes_min.to_string()),
        ("DHV_CAPACITY_MAX_BYTES", wanted.bytes_max.to_string()),
        ("DHV_PARAMETERS", parameters),
    ]
}

/// The parameters of the built-in plugin.
#[derive(Debug, PartialEq, Eq)]
struct Parameters {
    mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
}

impl Parameters {
    fn read(given: &BTreeMap<Text, Text>) -> Result<Self, String> {
        let mut parameters = Self { mode: MODE, uid: None, gid: None };
        for (name, value) in given {
            let wrong = || format!("parameter {name} cannot be {}", quoted(value));
            let number = || value.parse::<u32>().map_err(|_| wrong());
            match &**name {
                "mode" => {
                    let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o1777);
                    parameters.mode = mode.ok_or_else(wrong)?;
                }
                "uid" => parameters.uid = Some(number()?),
                "gid" => parameters.gid = Some(number()?),
                _ => return Err(format!("unknown parameter {}", quoted(name))),
            }
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests;
