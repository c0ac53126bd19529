//! Runs CNI plugins, each as a process with a time limit and bounded output.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::networks::conflist::BRIDGE_PLUGINS;
use crate::networks::outcome::failure;

/// How long a plugin may take.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The same for a question that needs no work. The agent asks it before it starts.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of what a plugin may write to each of its outputs, in bytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Where plugins find programs, such as `iptables`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Bits of a file's mode that permit to execute it.
const EXECUTABLE: u32 = 0o111;

/// What a plugin is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Attach an allocation to the network.
    Add,
    /// Check that an allocation is attached.
    Check,
    /// Detach an allocation, and remove all that `Add` made.
    Del,
    /// List the versions of the specification that the plugin understands.
    Version,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Check => "CHECK",
            Self::Del => "DEL",
            Self::Version => "VERSION",
        }
    }

    const fn time_limit(self) -> Duration {
        match self {
            Self::Add | Self::Check | Self::Del => PLUGIN_TIMEOUT,
            Self::Version => VERSION_TIMEOUT,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the environment of a plugin says about the allocation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    /// The id by which plugins know the allocation.
    pub(crate) container: String,
    /// The network namespace; `None` if it no longer exists.
    pub(crate) namespace: Option<PathBuf>,
    /// The interface in it.
    pub(crate) interface: &'static str,
    /// Further arguments.
    pub(crate) args: String,
}

/// Why a plugin did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PluginError {
    /// No directory has it.
    #[error("the CNI plugin {name:?} was not found in {}{}", searched(.dirs), package_of(.name))]
    NotFound {
        /// Its name.
        name: String,
        /// Where it was looked for.
        dirs: Vec<PathBuf>,
    },
    /// It cannot be run.
    #[error("cannot run the CNI plugin {}", .path.display())]
    Io {
        /// The program.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It did not end in time and was killed.
    #[error("the CNI plugin {} did not finish {action} within {} seconds", .path.display(), .action.time_limit().as_secs())]
    Timeout {
        /// The program.
        path: PathBuf,
        /// What it was asked to do.
        action: Action,
    },
    /// It wrote too much.
    #[error("the CNI plugin {} wrote more than {} bytes at {action}", .path.display(), OUTPUT_BYTES_MAX)]
    TooLong {
        /// The program.
        path: PathBuf,
        /// What it was asked to do.
        action: Action,
    },
    /// It reports an error.
    #[error("the CNI plugin {} failed at {action}: {message}", .path.display())]
    Failed {
        /// The program.
        path: PathBuf,
        /// What it was asked to do.
        action: Action,
        /// What it says.
        message: String,
    },
}

fn searched(dirs: &[PathBuf]) -> String {
    if dirs.is_empty() {
        return "any directory: --cni-path is empty".to_owned();
    }
    dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(":")
}

/// Which package has a plugin, for the plugins of the reference implementation.
fn package_of(name: &str) -> &'static str {
    if BRIDGE_PLUGINS.contains(&name) {
        "; the package containernetworking-plugins has it, and --cni-path (cni_path) says where plugins are"
    } else {
        "; --cni-path (cni_path) says where plugins are"
    }
}

/// The plugins on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Plugins {
    dirs: Vec<PathBuf>,
}

impl Plugins {
    /// The plugins in these directories. The first that has a plugin counts.
    pub(crate) fn new(dirs: Vec<PathBuf>) -> Self {
        Self { dirs }
    }

    /// Finds a plugin.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, PluginError> {
        let is_name = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        let found = self.dirs.iter().map(|dir| dir.join(name)).find(|path| is_name && is_program(path));
        found.ok_or_else(|| PluginError::NotFound { name: name.to_owned(), dirs: self.dirs.clone() })
    }

    /// All plugins by name, with their programs.
    pub(crate) fn all(&self) -> Vec<(String, PathBuf)> {
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for dir in &self.dirs {
            // A directory that does not exist has no plugins.
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let (Ok(name), path) = (entry.file_name().into_string(), entry.path()) else { continue };
                if is_program(&path) && found.iter().all(|(known, _)| *known != name) {
                    found.push((name, path));
                }
            }
        }
        found.sort();
        found
    }

    /// Runs a plugin. Returns its result; `None` if it wrote none.
    pub(crate) async fn run(
        &self,
        name: &str,
        action: Action,
        target: &Target,
        input: &Value,
    ) -> Result<Option<Value>, PluginError> {
        let path = self.find(name)?;
        let mut command = self.command(&path);
        command
            .env("CNI_COMMAND", action.as_str())
            .env("CNI_CONTAINERID", &target.container)
            .env("CNI_IFNAME", target.interface)
            .env("CNI_ARGS", &target.args)
            .env("CNI_NETNS", target.namespace.as_deref().unwrap_or(Path::new("")));
        let Output { is_success, stdout, stderr } =
            run(command, &path, action, input.to_string().into_bytes()).await?;
        let failed = |message| PluginError::Failed { path: path.clone(), action, message };
        if !is_success {
            return Err(failed(failure(&stdout, &stderr)));
        }
        if stdout.trim_ascii().is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&stdout)
            .map(Some)
            .map_err(|error| failed(format!("its result is not JSON: {error}")))
    }

    /// The version of a plugin: its own, or if it does not know it, the newest version of the specification that it
    /// understands. `None` if the program is not a plugin.
    pub(crate) async fn version(&self, path: &Path) -> Option<String> {
        // A plugin that is asked nothing says who it is.
        let about = run(self.command(path), path, Action::Version, Vec::new()).await.ok()?;
        let about = [about.stderr, about.stdout].concat();
        if let Some(version) = own_version(&String::from_utf8_lossy(&about)) {
            return Some(version);
        }
        let mut command = self.command(path);
        command.env("CNI_COMMAND", Action::Version.as_str());
        let asked = br#"{"cniVersion":"1.0.0"}"#.to_vec();
        let answer =
            run(command, path, Action::Version, asked).await.ok().filter(|answer| answer.is_success)?;
        newest_supported(&answer.stdout)
    }

    fn command(&self, path: &Path) -> Command {
        let mut command = Command::new(path);
        let dirs: Vec<_> = self.dirs.iter().map(|dir| dir.display().to_string()).collect();
        // The agent's environment holds secrets.
        command.env_clear().env("PATH", PATH).env("CNI_PATH", dirs.join(":")).current_dir("/");
        command
    }
}

fn is_program(path: &Path) -> bool {
    let executable =
        |found: std::fs::Metadata| found.is_file() && found.permissions().mode() & EXECUTABLE != 0;
    std::fs::metadata(path).is_ok_and(executable)
}

/// The version in what a plugin says about itself, such as `CNI bridge plugin v1.5.1`.
fn own_version(about: &str) -> Option<String> {
    let (_, rest) = about.lines().next()?.split_once(" plugin ")?;
    let version = rest.split_whitespace().next()?.trim_start_matches('v');
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}

/// The newest version in a plugin's answer to `VERSION`. They are listed from the oldest on.
fn newest_supported(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    answer.get("supportedVersions")?.as_array()?.last()?.as_str().map(str::to_owned)
}

/// What a process wrote before it ended.
#[derive(Debug)]
struct Output {
    is_success: bool,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Runs a process to its end, or kills it together with what it has started.
async fn run(
    mut command: Command,
    path: &Path,
    action: Action,
    input: Vec<u8>,
) -> Result<Output, PluginError> {
    let failed = |source| PluginError::Io { path: path.to_owned(), source };
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let error = match timeout(action.time_limit(), finish(&mut child, input)).await {
        Ok(Ok(output)) => return Ok(output),
        Ok(Err(error)) if error.kind() == io::ErrorKind::FileTooLarge => {
            PluginError::TooLong { path: path.to_owned(), action }
        }
        Ok(Err(error)) => failed(error),
        Err(_) => PluginError::Timeout { path: path.to_owned(), action },
    };
    if let Some(group) = group {
        // Fails if all of its processes have ended.
        let _ = killpg(group, Signal::SIGKILL);
    }
    // Reaps the process.
    let _ = child.kill().await;
    Err(error)
}

/// Gives a process its input, and waits for its output and its end.
async fn finish(child: &mut Child, input: Vec<u8>) -> io::Result<Output> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        let Some(mut stdin) = stdin else { return Ok(()) };
        match stdin.write_all(&input).await {
            // A process need not read its input.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    };
    let ((), stdout, stderr) = tokio::try_join!(write, bounded(stdout), bounded(stderr))?;
    Ok(Output { is_success: child.wait().await?.success(), stdout, stderr })
}

/// Reads an output to its end.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] if there is more than [`OUTPUT_BYTES_MAX`].
async fn bounded(output: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(output) = output {
        output.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
