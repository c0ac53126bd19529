//! `raw_exec`: runs a command as a plain process, without isolation. Its limits are enforced by control groups, if
//! the agent can make them and the settings do not turn them off for this driver.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::text::quoted;
use nix::fcntl::OFlag;
use serde::Deserialize;

use super::process::{self, ExecutorCommand};
use super::start::Start;
use super::{
    Capabilities, DEFAULT_PATH, Driver, Fingerprint, Handle, Isolation, NetworkMode, NotRecovered, Running,
    StartError, matches_pattern, read_config,
};
use crate::account::Account;
use crate::cgroups::{Overrides, TaskCgroup};
use crate::disk::dirs::TaskDirs;
use crate::disk::tree::{Links, explained};
use crate::executor::Launch;

/// The driver's name.
pub(crate) const NAME: &str = "raw_exec";

/// The executor's own log, in the task's directory.
const EXECUTOR_LOG: &str = "executor.out";
/// Permissions of that file.
const EXECUTOR_LOG_MODE: u32 = 0o600;

/// The operator's settings of the driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Users that no task may run as.
    pub(crate) denied_uids: IdRanges,
    /// Groups that no task may run in.
    pub(crate) denied_gids: IdRanges,
    /// Environment variables that no task gets; a trailing `*` matches any suffix.
    pub(crate) denied_env: Vec<String>,
    /// Whether tasks run without control groups, and so without limits.
    pub(crate) no_cgroups: bool,
}

/// A set of ids, as ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IdRanges(Vec<(u32, u32)>);

impl IdRanges {
    /// Parses a list such as `1000,1003-1005`.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let ids = first.trim().parse().ok().zip(last.trim().parse().ok());
            ids.filter(|(first, last)| first <= last).ok_or_else(|| format!("invalid range {}", quoted(part)))
        };
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(Self(parts.map(range).collect::<Result<_, _>>()?))
    }

    /// Whether an id is in the set.
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&id))
    }
}

/// The driver.
#[derive(Debug)]
pub(crate) struct RawExec {
    settings: Settings,
    executor: ExecutorCommand,
}

/// The configuration of a task.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    work_dir: Option<PathBuf>,
    #[serde(default)]
    oom_score_adj: Option<u32>,
    #[serde(default)]
    denied_envvars: Vec<String>,
    #[serde(default)]
    cgroup_v1_override: BTreeMap<String, String>,
    #[serde(default)]
    cgroup_v2_override: Option<String>,
}

impl Config {
    /// The groups that the task enters instead of those that the agent has made.
    fn overrides(&self) -> Overrides {
        let v1 = self.cgroup_v1_override.clone();
        Overrides { v1, v2: self.cgroup_v2_override.clone() }
    }

    /// The groups that the task enters.
    fn cgroup(&self, made: Option<&TaskCgroup>) -> Result<Option<TaskCgroup>, StartError> {
        let overrides = self.overrides();
        match made {
            None if overrides.is_empty() => Ok(None),
            None => Err(StartError::unrecoverable(
                "unable to configure cgroups: the task names some, and this agent runs tasks of raw_exec without",
            )),
            Some(made) => {
                let entered = made.clone().with_overrides(&overrides);
                let cannot =
                    |error| StartError::unrecoverable(format!("unable to configure cgroups: {error}"));
                entered.map(Some).map_err(cannot)
            }
        }
    }
}

impl RawExec {
    /// Creates the driver.
    pub(crate) fn new(settings: Settings, executor: ExecutorCommand) -> Self {
        Self { settings, executor }
    }
}

impl Settings {
    /// Refuses a user that no task may run as, or who is in a group that no task may run in. A task that names no user runs
    /// as the agent's.
    fn check(&self, account: &Account, is_named: bool) -> Result<(), StartError> {
        let refused = |what: String| {
            let why = if is_named { "" } else { "; the task names no user, and so would run as the agent's" };
            Err(StartError::unrecoverable(format!("running as {what} is disallowed{why}")))
        };
        if self.denied_uids.contains(account.uid) {
            return refused(format!("uid {}", account.uid));
        }
        match account.groups.iter().find(|group| self.denied_gids.contains(**group)) {
            Some(group) => refused(format!("gid {group}")),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Driver for RawExec {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            signals: true,
            exec: true,
            isolation: Isolation::None,
            networks: &[NetworkMode::Host],
            mounts: false,
            devices: false,
        }
    }

    fn uses_cgroups(&self) -> bool {
        !self.settings.no_cgroups
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            detected: true,
            healthy: true,
            description: "Healthy".into(),
            attributes: BTreeMap::from([("driver.raw_exec".into(), "true".into())]),
        }
    }

    async fn start(&self, start: Start) -> Result<Arc<dyn Running>, StartError> {
        let config: Config = read_config(NAME, &start.config)?;
        let cgroup = config.cgroup(start.cgroup.as_ref())?;
        if cgroup.is_none() && !start.resources.cores.is_empty() {
            return Err(StartError::unrecoverable(
                "reserved cores cannot be enforced: this agent runs tasks of raw_exec without cgroups",
            ));
        }
        let work_dir = match config.work_dir {
            Some(dir) if dir.is_absolute() => dir,
            Some(dir) => {
                let dir = dir.display().to_string();
                let message =
                    format!("failed driver config validation: work_dir {} is not absolute", quoted(&dir));
                return Err(StartError::unrecoverable(message));
            }
            None => start.dirs.task.clone(),
        };
        let account = Account::find(&start.user).map_err(StartError::unrecoverable)?;
        let is_named = !start.user.is_empty();
        self.settings.check(&account, is_named)?;
        let path = start.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let command = find_command(&config.command, &start.dirs, path)?;
        let denied = |name: &str| {
            let mut patterns = config.denied_envvars.iter().chain(&self.settings.denied_env);
            patterns.any(|pattern| matches_pattern(pattern, name))
        };
        let launch = Launch {
            command,
            args: config.args,
            env: start.env.into_iter().filter(|(name, _)| !denied(name)).collect(),
            work_dir,
            user: is_named.then_some((account.uid, account.gid)),
            oom_score_adj: config.oom_score_adj,
            logs: start.logs,
            cgroup,
            isolation: None,
        };
        // The directory belongs to the task, too: a link in it must not redirect what is written.
        let log = start.dirs.open().and_then(|dir| dir.append(EXECUTOR_LOG, EXECUTOR_LOG_MODE));
        let unopened = |error| StartError::unrecoverable(format!("cannot open {EXECUTOR_LOG}: {error}"));
        let log = log.map_err(unopened)?;
        process::launch(&self.executor, start.state_dir, &launch, log).await
    }

    async fn recover(&self, handle: &Handle) -> Result<Arc<dyn Running>, NotRecovered> {
        process::recover(handle)
    }

    async fn discard(&self, handle: &Handle) {
        process::discard(handle).await;
    }
}

/// Finds a command: in the task's `local` directory, in its root directory, as an absolute path, then in the task's `PATH`
/// . A file of the job is made executable.
fn find_command(command: &str, dirs: &TaskDirs, path: &str) -> Result<PathBuf, StartError> {
    if command.is_empty() {
        return Err(StartError::unrecoverable("failed driver config validation: command is empty"));
    }
    let from_job = [dirs.local.join(command), dirs.task.join(command)];
    let from_path = path.split(':').filter(|dir| !dir.is_empty() && !command.contains('/'));
    let from_path = from_path.map(|dir| Path::new(dir).join(command)).filter(|file| is_executable(file));
    let found = from_job.into_iter().find(|file| file.is_file()).or_else(|| from_path.into_iter().next());
    let Some(found) = found else {
        return Err(StartError::unrecoverable(format!("executable {} was not found", quoted(command))));
    };
    if !is_executable(&found) {
        make_executable(dirs, &found).map_err(|error| {
            StartError::unrecoverable(format!("cannot make {} executable: {error}", found.display()))
        })?;
    }
    Ok(found)
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Makes a file of the job executable. A link that leads out of the allocation is not followed.
fn make_executable(dirs: &TaskDirs, file: &Path) -> io::Result<()> {
    let own = file.strip_prefix(&dirs.alloc).map_err(|_| io::Error::other("it is not a file of the job"))?;
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = dirs.open_alloc()?.open_beneath(own, flags, Links::Inside);
    let file = opened.map_err(|errno| explained(own, errno))?;
    let mut permissions = file.metadata()?.permissions();
    permissions.set_mode(permissions.mode() | 0o111);
    file.set_permissions(permissions)
}

#[cfg(test)]
mod tests;
