//! The settings of the drivers `exec` and `java`, and the configuration of their tasks (A-22.4, A-22.5). Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::text::quoted;
use serde::Deserialize;

use crate::driver::raw_exec::IdRanges;
use crate::isolation::capabilities::CapabilitySet;

/// The paths of the node that a task sees if the operator does not say otherwise (A-13.3).
const DEFAULT_PATHS: [&str; 9] =
    ["/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr"];

/// Where the kernel shows the node. A task has views of its own.
const KERNEL_PATHS: [&str; 2] = ["/proc", "/sys"];

/// Whether a task shares something with the node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The task has its own.
    #[default]
    Private,
    /// The task has the node's.
    Host,
}

impl Mode {
    /// Reads a mode. An empty one is the default.
    pub(crate) fn read(key: &str, text: &str, default: Self) -> Result<Self, String> {
        match text {
            "" => Ok(default),
            "private" => Ok(Self::Private),
            "host" => Ok(Self::Host),
            other => Err(format!("{key} must be \"private\" or \"host\", got {}", quoted(other))),
        }
    }
}

/// The operator's settings of a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Whether the node's root is only covered, because it cannot be unmounted.
    pub(crate) no_pivot_root: bool,
    /// Whether tasks see the processes of the node, unless they say.
    pub(crate) default_pid_mode: Mode,
    /// Whether tasks share memory with processes of the node, unless they say.
    pub(crate) default_ipc_mode: Mode,
    /// The capabilities that tasks may have.
    pub(crate) allow_caps: CapabilitySet,
    /// Users that no task may run as.
    pub(crate) denied_uids: IdRanges,
    /// Groups that no task may run in.
    pub(crate) denied_gids: IdRanges,
    /// The paths of the node that tasks see, each with its path in the task.
    pub(crate) paths: BTreeMap<PathBuf, PathBuf>,
    /// The directory of the agent's data, which tasks do not see.
    pub(crate) data_dir: PathBuf,
}

impl Settings {
    /// The settings of an operator who sets nothing.
    pub(crate) fn new(data_dir: PathBuf) -> Self {
        Self {
            no_pivot_root: false,
            default_pid_mode: Mode::Private,
            default_ipc_mode: Mode::Private,
            allow_caps: CapabilitySet::DEFAULT,
            denied_uids: IdRanges::default(),
            denied_gids: IdRanges::default(),
            paths: DEFAULT_PATHS.iter().map(|path| (path.into(), path.into())).collect(),
            data_dir,
        }
    }
}

/// Checks the paths that tasks see (`chroot_env`).
pub(crate) fn check_paths(paths: &BTreeMap<PathBuf, PathBuf>) -> Result<(), String> {
    let is_plain = |path: &Path| {
        path.is_absolute() && path.components().all(|part| !matches!(part, std::path::Component::ParentDir))
    };
    for (source, target) in paths {
        if let Some(path) = [source, target].into_iter().find(|path| !is_plain(path)) {
            return Err(format!("{} must be absolute and without ..", quoted(&path.display().to_string())));
        }
        if target == Path::new("/") {
            return Err("the root of a task is its own directory, and cannot be another one".into());
        }
        if source == Path::new("/") || KERNEL_PATHS.iter().any(|path| source.starts_with(path)) {
            let source = quoted(&source.display().to_string());
            return Err(format!(
                "{source} shows all processes of the node; name the directories that tasks need"
            ));
        }
    }
    Ok(())
}

/// The configuration of a task of `exec`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::driver) struct ExecConfig {
    pub(super) command: String,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pid_mode: String,
    #[serde(default)]
    ipc_mode: String,
    #[serde(default)]
    cap_add: Vec<String>,
    #[serde(default)]
    cap_drop: Vec<String>,
    #[serde(default)]
    work_dir: Option<PathBuf>,
}

/// The configuration of a task of `java`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::driver) struct JavaConfig {
    #[serde(default)]
    class: String,
    #[serde(default)]
    class_path: String,
    #[serde(default)]
    jar_path: String,
    #[serde(default)]
    jvm_options: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    pid_mode: String,
    #[serde(default)]
    ipc_mode: String,
    #[serde(default)]
    cap_add: Vec<String>,
    #[serde(default)]
    cap_drop: Vec<String>,
    #[serde(default)]
    work_dir: Option<PathBuf>,
}

/// What a task of either driver says about its isolation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) pid_mode: Mode,
    pub(super) ipc_mode: Mode,
    pub(super) cap_add: Vec<String>,
    pub(super) cap_drop: Vec<String>,
    pub(super) work_dir: PathBuf,
}

/// A program to run in a task's root, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

impl ExecConfig {
    pub(super) fn read(self, settings: &Settings) -> Result<(Program, Wanted), String> {
        if self.command.is_empty() {
            return Err("command is empty".into());
        }
        let wanted =
            wanted(settings, &self.pid_mode, &self.ipc_mode, self.cap_add, self.cap_drop, self.work_dir)?;
        Ok((Program { command: self.command, args: self.args }, wanted))
    }
}

impl JavaConfig {
    /// The command line is `java [jvm_options] [-cp class_path] [-jar jar_path] [class] [args]`.
    pub(super) fn read(self, settings: &Settings) -> Result<(Program, Wanted), String> {
        if self.class.is_empty() && self.jar_path.is_empty() {
            return Err("jar_path or class must be specified".into());
        }
        let wanted =
            wanted(settings, &self.pid_mode, &self.ipc_mode, self.cap_add, self.cap_drop, self.work_dir)?;
        let mut args = self.jvm_options;
        for (flag, value) in [("-cp", self.class_path), ("-jar", self.jar_path)] {
            if !value.is_empty() {
                args.extend([flag.to_owned(), value]);
            }
        }
        args.extend(Some(self.class).filter(|class| !class.is_empty()));
        args.extend(self.args);
        Ok((Program { command: "java".into(), args }, wanted))
    }
}

fn wanted(
    settings: &Settings,
    pid_mode: &str,
    ipc_mode: &str,
    cap_add: Vec<String>,
    cap_drop: Vec<String>,
    work_dir: Option<PathBuf>,
) -> Result<Wanted, String> {
    let work_dir = work_dir.unwrap_or_else(|| "/".into());
    if !work_dir.is_absolute() {
        return Err(format!("work_dir {} is not absolute", quoted(&work_dir.display().to_string())));
    }
    Ok(Wanted {
        pid_mode: Mode::read("pid_mode", pid_mode, settings.default_pid_mode)?,
        ipc_mode: Mode::read("ipc_mode", ipc_mode, settings.default_ipc_mode)?,
        cap_add,
        cap_drop,
        work_dir,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings() -> Settings {
        Settings::new("/var/lib/drover".into())
    }

    fn exec(config: Value) -> Result<(Program, Wanted), String> {
        serde_json::from_value::<ExecConfig>(config).map_err(|error| error.to_string())?.read(&settings())
    }

    fn java(config: Value) -> Result<(Program, Wanted), String> {
        serde_json::from_value::<JavaConfig>(config).map_err(|error| error.to_string())?.read(&settings())
    }

    fn plain() -> Wanted {
        Wanted {
            pid_mode: Mode::Private,
            ipc_mode: Mode::Private,
            cap_add: Vec::new(),
            cap_drop: Vec::new(),
            work_dir: "/".into(),
        }
    }

    /// Every key of A-22.4 and A-22.5, with what it changes.
    #[test]
    fn every_key_of_a_task_has_an_effect() {
        let names = |name: &str| vec![name.to_owned()];
        let table = [
            (json!({}), plain()),
            (json!({ "pid_mode": "host" }), Wanted { pid_mode: Mode::Host, ..plain() }),
            (json!({ "ipc_mode": "host" }), Wanted { ipc_mode: Mode::Host, ..plain() }),
            (json!({ "pid_mode": "private", "ipc_mode": "private" }), plain()),
            (json!({ "cap_add": ["kill"] }), Wanted { cap_add: names("kill"), ..plain() }),
            (json!({ "cap_drop": ["all"] }), Wanted { cap_drop: names("all"), ..plain() }),
            (json!({ "work_dir": "/local" }), Wanted { work_dir: "/local".into(), ..plain() }),
        ];
        for (config, expected) in table {
            let with = |key: &str, value: &str| {
                let mut config = config.clone();
                config[key] = value.into();
                config
            };
            assert_eq!(exec(with("command", "sh")).unwrap().1, expected, "{config}");
            assert_eq!(java(with("class", "Main")).unwrap().1, expected, "{config}");
        }
        let program = exec(json!({ "command": "sh", "args": ["-c", "true"] })).unwrap().0;
        assert_eq!(program, Program { command: "sh".into(), args: vec!["-c".into(), "true".into()] });
    }

    #[test]
    fn the_command_line_of_java_has_the_order_of_the_rules() {
        let args = |config: Value| java(config).unwrap().0.args.join(" ");
        assert_eq!(
            args(
                json!({ "class": "Main", "class_path": "/local", "jvm_options": ["-Xmx1g"], "args": ["a"] })
            ),
            "-Xmx1g -cp /local Main a"
        );
        assert_eq!(args(json!({ "jar_path": "local/x.jar", "args": ["a", "b"] })), "-jar local/x.jar a b");
        assert_eq!(java(json!({ "args": ["a"] })).unwrap_err(), "jar_path or class must be specified");
    }

    #[test]
    fn what_has_no_effect_or_no_sense_is_refused() {
        for (config, reason) in [
            (json!({}), "missing field `command`"),
            (json!({ "command": "" }), "command is empty"),
            (json!({ "command": "sh", "image": "x" }), "unknown field `image`"),
            (json!({ "command": "sh", "pid_mode": "x" }), r#"pid_mode must be "private" or "host", got "x""#),
            (json!({ "command": "sh", "ipc_mode": "x" }), r#"ipc_mode must be "private" or "host", got "x""#),
            (json!({ "command": "sh", "work_dir": "here" }), r#"work_dir "here" is not absolute"#),
        ] {
            let refused = exec(config.clone()).unwrap_err();
            assert!(refused.starts_with(reason), "{config}: {refused}");
        }
    }

    #[test]
    fn the_defaults_of_the_operator_hold_for_tasks_that_say_nothing() {
        let shared = Settings { default_pid_mode: Mode::Host, default_ipc_mode: Mode::Host, ..settings() };
        let config: ExecConfig =
            serde_json::from_value(json!({ "command": "sh", "ipc_mode": "private" })).unwrap();
        let wanted = config.read(&shared).unwrap().1;
        assert_eq!((wanted.pid_mode, wanted.ipc_mode), (Mode::Host, Mode::Private));
    }

    #[test]
    fn the_paths_that_tasks_see_are_checked() {
        let check = |source: &str, target: &str| {
            check_paths(&[(PathBuf::from(source), PathBuf::from(target))].into())
        };
        assert_eq!(check("/opt/tools", "/tools"), Ok(()));
        assert!(check("opt", "/opt").is_err() && check("/opt", "opt").is_err());
        assert!(check("/opt/../etc", "/opt").is_err() && check("/opt", "/..").is_err());
        assert!(check("/opt", "/").is_err());
        assert!(check("/", "/node").is_err() && check("/proc/1", "/node").is_err());
        assert_eq!(check_paths(&settings().paths), Ok(()));
    }
}
