//! `exec` and `java`: run a program in isolation, with a root of its own that shows parts of the node.
//! Both need an agent that is root.
//!
//! The isolation of a task is described here (`description`) and carried out by its executor (`crate::isolation`).

pub(crate) mod config;
mod description;
mod java;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use model::{Map, Text};
use nix::unistd::geteuid;
use serde_json::Value;

use self::config::{ExecConfig, JavaConfig, Program, Settings, Wanted};
use super::process::{self, ExecutorCommand};
use super::start::Start;
use super::{
    Capabilities, Driver, Fingerprint, Handle, Isolation, NetworkMode, NotRecovered, Running, StartError,
    read_config,
};
use crate::account::Account;
use crate::executor::Launch;
use crate::isolation::support;

/// The name of the driver for any program.
pub(crate) const EXEC: &str = "exec";
/// The name of the driver for programs of Java.
pub(crate) const JAVA: &str = "java";

/// The user of tasks that name none.
const DEFAULT_USER: &str = "nobody";
/// The executor's own log, in the task's directory.
const EXECUTOR_LOG: &str = "executor.out";
/// Permissions of that file.
const EXECUTOR_LOG_MODE: u32 = 0o600;

/// What a driver runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any program.
    Exec,
    /// A class or an archive of Java.
    Java,
}

/// A driver that isolates.
#[derive(Debug)]
pub(crate) struct Exec {
    kind: Kind,
    settings: Settings,
    executor: ExecutorCommand,
    has_cgroups: bool,
}

impl Exec {
    /// Creates the driver of an agent that can make control groups, or cannot.
    pub(crate) fn new(kind: Kind, settings: Settings, executor: ExecutorCommand, has_cgroups: bool) -> Self {
        Self { kind, settings, executor, has_cgroups }
    }

    fn read(&self, config: &Map<String, Value>) -> Result<(Program, Wanted), StartError> {
        let read = match self.kind {
            Kind::Exec => read_config::<ExecConfig>(EXEC, config)?.read(&self.settings),
            Kind::Java => read_config::<JavaConfig>(JAVA, config)?.read(&self.settings),
        };
        read.map_err(invalid)
    }
}

fn invalid(reason: String) -> StartError {
    StartError::unrecoverable(format!("failed driver config validation: {reason}"))
}

#[async_trait]
impl Driver for Exec {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            signals: true,
            exec: true,
            isolation: Isolation::Chroot,
            networks: &[NetworkMode::Host, NetworkMode::Group],
            mounts: true,
            devices: true,
        }
    }

    fn default_user(&self) -> &'static str {
        DEFAULT_USER
    }

    fn fingerprint(&self) -> Fingerprint {
        let attributes = match self.kind {
            Kind::Exec => BTreeMap::from([("driver.exec".into(), "true".into())]),
            Kind::Java => match java::attributes() {
                Some(attributes) => attributes,
                None => return Fingerprint { description: java::ABSENT.into(), ..Fingerprint::default() },
            },
        };
        let checked = support::check().and_then(|()| {
            if self.has_cgroups { Ok(()) } else { Err(String::from("the agent cannot make cgroups")) }
        });
        match checked {
            Ok(()) => {
                Fingerprint { detected: true, healthy: true, description: "Healthy".into(), attributes }
            }
            Err(description) => {
                let detected = geteuid().is_root();
                Fingerprint { detected, healthy: false, description, attributes: BTreeMap::new() }
            }
        }
    }

    async fn start(&self, start: Start) -> Result<Arc<dyn Running>, StartError> {
        let (program, wanted) = self.read(&start.config)?;
        let user = if start.user.is_empty() { DEFAULT_USER } else { &*start.user };
        let account = Account::find(user).map_err(StartError::unrecoverable)?;
        self.settings.check_user(&account).map_err(StartError::unrecoverable)?;
        let isolation = description::describe(&self.settings, &wanted, &start, &account).map_err(invalid)?;
        let launch = Launch {
            command: program.command.into(),
            args: program.args,
            env: start.env.into_iter().collect(),
            work_dir: wanted.work_dir,
            user: None,
            oom_score_adj: None,
            logs: start.logs,
            cgroup: start.cgroup,
            isolation: Some(isolation),
        };
        // The directory belongs to the task, too: a link in it must not redirect what is written.
        let log = start.dirs.open().and_then(|dir| dir.append(EXECUTOR_LOG, EXECUTOR_LOG_MODE));
        let unopened = |error| StartError::unrecoverable(format!("cannot open {EXECUTOR_LOG}: {error}"));
        process::launch(&self.executor, start.state_dir, &launch, log.map_err(unopened)?).await
    }

    async fn recover(&self, handle: &Handle) -> Result<Arc<dyn Running>, NotRecovered> {
        process::recover(handle)
    }

    async fn discard(&self, handle: &Handle) {
        process::discard(handle).await;
    }
}

impl Settings {
    /// Refuses a user that no task may run as, or who is in a group that no task may run in.
    fn check_user(&self, account: &Account) -> Result<(), String> {
        if self.denied_uids.contains(account.uid) {
            return Err(format!("running as uid {} is disallowed", account.uid));
        }
        match account.groups.iter().find(|group| self.denied_gids.contains(**group)) {
            Some(group) => Err(format!("running as gid {group} is disallowed")),
            None => Ok(()),
        }
    }
}

/// The attributes of a driver, by full names.
type Attributes = BTreeMap<Text, Text>;

#[cfg(test)]
mod tests;
