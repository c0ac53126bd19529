//! The operator's settings of the driver: the block `config` of `plugin "docker"`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use model::text::quoted;

/// The engine's usual socket.
pub(crate) const DEFAULT_ENDPOINT: &str = "unix:///var/run/docker.sock";
/// The number of images that a node pulls at once.
pub(crate) const PULLS_MAX: usize = 3;
/// Capabilities that tasks may have.
pub(super) const DEFAULT_CAPS: [&str; 13] = [
    "audit_write",
    "chown",
    "dac_override",
    "fowner",
    "fsetid",
    "kill",
    "mknod",
    "net_bind_service",
    "setfcap",
    "setgid",
    "setpcap",
    "setuid",
    "sys_chroot",
];
/// The image of containers that only hold a network, for every architecture.
const INFRA_IMAGE: &str = "registry.k8s.io/pause:3.3";
/// How often a container's name may be found taken.
const EXISTS_ATTEMPTS: u32 = 5;
/// The shortest time between two looks for dangling containers.
const SWEEP_PERIOD_MIN: Duration = Duration::from_secs(60);

const MINUTE: Duration = Duration::from_secs(60);

/// The operator's settings of the driver `docker`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The engine's socket, as `unix://` and a path. Empty: there is no engine.
    pub endpoint: String,
    /// A file with credentials for registries, as Docker's command line writes it.
    pub auth_config: String,
    /// The name of a program `docker-credential-<name>` that knows credentials for registries.
    pub auth_helper: String,
    /// Further labels of containers, by patterns of their names.
    pub extra_labels: Vec<String>,
    /// The log driver of containers whose task names none.
    pub logging_type: String,
    /// Its options.
    pub logging_config: BTreeMap<String, String>,
    /// Whether images are removed that no task needs.
    pub gc_image: bool,
    /// How long an image must not have been needed before it is removed.
    pub gc_image_delay: Duration,
    /// Whether containers are removed that have ended.
    pub gc_container: bool,
    /// The containers of this node that no task has.
    pub dangling: Dangling,
    /// Whether tasks may mount paths of the node and volumes of the engine.
    pub volumes_enabled: bool,
    /// The SELinux label of mounted directories, such as `z`.
    pub volumes_selinux_label: String,
    /// Whether tasks may be privileged.
    pub allow_privileged: bool,
    /// The capabilities that tasks may have; `all` is any.
    pub allow_caps: Vec<String>,
    /// The runtime of tasks that have reserved NVIDIA GPUs.
    pub nvidia_runtime: String,
    /// The runtimes that tasks may name.
    pub allow_runtimes: Vec<String>,
    /// The namespaces of others that tasks may use.
    pub allowed_modes: AllowedModes,
    /// The image of containers that only hold the network of an allocation.
    pub infra_image: String,
    /// How long pulling that image may take.
    pub infra_image_pull_timeout: Duration,
    /// How long pulling an image may take if the task does not say so.
    pub image_pull_timeout: Duration,
    /// How long a pull may make no progress.
    pub pull_activity_timeout: Duration,
    /// The number of images that are pulled at once; 0 is no limit.
    pub pulls_max: usize,
    /// How often the name of a container may be found taken.
    pub container_exists_attempts: u32,
    /// The adjustment of the kernel's out-of-memory score of tasks that set none.
    pub oom_score_adj: i64,
    /// The number of processes that a task may have; 0 is no limit.
    pub pids_limit: i64,
    /// Whether the engine keeps the output of tasks for itself.
    pub disable_log_collection: bool,
}

/// The namespaces of others that tasks may use, such as `host`. A task may always have its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedModes {
    /// Values of `pid_mode`.
    pub pid: Vec<String>,
    /// Values of `ipc_mode`.
    pub ipc: Vec<String>,
    /// Values of `userns_mode`.
    pub userns: Vec<String>,
    /// Values of `uts_mode`.
    pub uts: Vec<String>,
}

/// What happens to containers of this node that no task has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dangling {
    /// Whether they are removed.
    pub enabled: bool,
    /// Only log them.
    pub dry_run: bool,
    /// How often they are looked for.
    pub period: Duration,
    /// How old they must be.
    pub creation_grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            endpoint: DEFAULT_ENDPOINT.to_owned(),
            auth_config: String::new(),
            auth_helper: String::new(),
            extra_labels: Vec::new(),
            logging_type: "json-file".to_owned(),
            logging_config: [("max-file", "2"), ("max-size", "2m")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            gc_image: true,
            gc_image_delay: 3 * MINUTE,
            gc_container: true,
            dangling: Dangling {
                enabled: true,
                dry_run: false,
                period: 5 * MINUTE,
                creation_grace: 5 * MINUTE,
            },
            volumes_enabled: false,
            volumes_selinux_label: String::new(),
            allow_privileged: false,
            allow_caps: owned(&DEFAULT_CAPS),
            nvidia_runtime: "nvidia".to_owned(),
            allow_runtimes: owned(&["runc", "nvidia"]),
            allowed_modes: AllowedModes::default(),
            infra_image: INFRA_IMAGE.to_owned(),
            infra_image_pull_timeout: 5 * MINUTE,
            image_pull_timeout: 5 * MINUTE,
            pull_activity_timeout: 2 * MINUTE,
            pulls_max: PULLS_MAX,
            container_exists_attempts: EXISTS_ATTEMPTS,
            oom_score_adj: 0,
            pids_limit: 0,
            disable_log_collection: false,
        }
    }
}

impl Settings {
    /// Checks the settings, and returns the path of the engine's socket; `None` if there is no engine.
    ///
    /// # Errors
    /// If one of them is invalid.
    pub(crate) fn check(&self) -> Result<Option<PathBuf>, String> {
        let socket = self.socket()?;
        if self.dangling.period < SWEEP_PERIOD_MIN {
            return Err("gc.dangling_containers.period must be at least 1m".to_owned());
        }
        if self.pids_limit < 0 {
            return Err(format!("pids_limit must not be negative, but is {}", self.pids_limit));
        }
        Ok(socket)
    }

    fn socket(&self) -> Result<Option<PathBuf>, String> {
        if self.endpoint.is_empty() {
            return Ok(None);
        }
        match self.endpoint.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') => Ok(Some(PathBuf::from(path))),
            Some(_) | None => Err(format!(
                "endpoint must be unix:// and an absolute path, not {}: the engine must be on the same machine, because \
                 it mounts the directories of allocations",
                quoted(&self.endpoint)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_mistakes_are_named() {
        let defaults = Settings::default();
        assert_eq!(defaults.check(), Ok(Some(PathBuf::from("/var/run/docker.sock"))));
        let off = Settings { endpoint: String::new(), ..Settings::default() };
        assert_eq!(off.check(), Ok(None));
        for (settings, mistake) in [
            (
                Settings { endpoint: "tcp://1.2.3.4:2375".into(), ..Settings::default() },
                "endpoint must be unix://",
            ),
            (Settings { pids_limit: -1, ..Settings::default() }, "pids_limit must not be negative"),
            (
                Settings {
                    dangling: Dangling { period: Duration::from_secs(1), ..defaults.dangling.clone() },
                    ..Settings::default()
                },
                "gc.dangling_containers.period",
            ),
        ] {
            let error = settings.check().unwrap_err();
            assert!(error.starts_with(mistake), "{error}");
        }
    }
}
