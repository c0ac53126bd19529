//! The settings of the drivers that isolate tasks, and of the users that tasks may run as.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::pair::Pair;
use super::users::{CHECKED_DRIVERS, DENYLIST, DeniedUsers};
use crate::driver::exec::config::{Mode, Settings, check_paths};
use crate::driver::raw_exec::IdRanges;
use crate::isolation::capabilities::CapabilitySet;

/// The capabilities that tasks may have by default (A-22.4), as a setting.
const DEFAULT_CAPABILITIES: &str = "audit_write,chown,dac_override,fowner,fsetid,kill,mknod,net_bind_service,setfcap,\
                                    setgid,setpcap,setuid,sys_chroot";

/// Settings of the drivers `exec` and `java`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct IsolationArgs {
    /// Paths of the node that tasks of `exec` and `java` see, as `path=path in the task`; they replace the default ones.
    #[arg(long = "chroot-env", env = "DROVER_CHROOT_ENV", value_name = "PATH=PATH", value_delimiter = ',')]
    pub chroot_env: Vec<Pair>,
    /// Cover the node's root in `exec` tasks instead of unmounting it, for nodes whose root is in memory (initramfs).
    #[arg(long = "exec-no-pivot-root", env = "DROVER_EXEC_NO_PIVOT_ROOT")]
    pub exec_no_pivot_root: bool,
    /// Whether `exec` tasks that do not say see the processes of the node: `private` or `host`.
    #[arg(long = "exec-default-pid-mode", env = "DROVER_EXEC_DEFAULT_PID_MODE", default_value = "private")]
    pub exec_default_pid_mode: String,
    /// Whether `exec` tasks that do not say share memory with processes of the node: `private` or `host`.
    #[arg(long = "exec-default-ipc-mode", env = "DROVER_EXEC_DEFAULT_IPC_MODE", default_value = "private")]
    pub exec_default_ipc_mode: String,
    /// Capabilities that `exec` tasks may have, or `all`.
    #[arg(
        long = "exec-allow-caps",
        env = "DROVER_EXEC_ALLOW_CAPS",
        value_delimiter = ',',
        default_value = DEFAULT_CAPABILITIES
    )]
    pub exec_allow_caps: Vec<String>,
    /// Users that `exec` tasks may not run as, such as `0,1000-1005`.
    #[arg(long = "exec-denied-uids", env = "DROVER_EXEC_DENIED_UIDS", default_value = "")]
    pub exec_denied_uids: String,
    /// Groups that `exec` tasks may not run in.
    #[arg(long = "exec-denied-gids", env = "DROVER_EXEC_DENIED_GIDS", default_value = "")]
    pub exec_denied_gids: String,
    /// Whether `java` tasks that do not say see the processes of the node: `private` or `host`.
    #[arg(long = "java-default-pid-mode", env = "DROVER_JAVA_DEFAULT_PID_MODE", default_value = "private")]
    pub java_default_pid_mode: String,
    /// Whether `java` tasks that do not say share memory with processes of the node: `private` or `host`.
    #[arg(long = "java-default-ipc-mode", env = "DROVER_JAVA_DEFAULT_IPC_MODE", default_value = "private")]
    pub java_default_ipc_mode: String,
    /// Capabilities that `java` tasks may have, or `all`.
    #[arg(
        long = "java-allow-caps",
        env = "DROVER_JAVA_ALLOW_CAPS",
        value_delimiter = ',',
        default_value = DEFAULT_CAPABILITIES
    )]
    pub java_allow_caps: Vec<String>,
    /// Users that tasks may not run as, by name.
    #[arg(
        long = "user-denylist",
        env = "DROVER_USER_DENYLIST",
        value_delimiter = ',',
        default_value = DENYLIST
    )]
    pub user_denylist: Vec<String>,
    /// Drivers whose tasks may not run as the users of `--user-denylist`.
    #[arg(
        long = "user-checked-drivers",
        env = "DROVER_USER_CHECKED_DRIVERS",
        value_delimiter = ',',
        default_value = CHECKED_DRIVERS
    )]
    pub user_checked_drivers: Vec<String>,
}

impl IsolationArgs {
    /// Checks the settings of `exec`.
    pub(super) fn exec(&self, data_dir: &Path) -> anyhow::Result<Settings> {
        let ids = |kind: &str, text: &str| {
            IdRanges::read(text).map_err(|error| anyhow!("--exec-denied-{kind}: {error}"))
        };
        Ok(Settings {
            no_pivot_root: self.exec_no_pivot_root,
            default_pid_mode: mode("exec-default-pid-mode", &self.exec_default_pid_mode)?,
            default_ipc_mode: mode("exec-default-ipc-mode", &self.exec_default_ipc_mode)?,
            allow_caps: capabilities("exec-allow-caps", &self.exec_allow_caps)?,
            denied_uids: ids("uids", &self.exec_denied_uids)?,
            denied_gids: ids("gids", &self.exec_denied_gids)?,
            ..self.common(data_dir)?
        })
    }

    /// Checks the settings of `java`. The node's root and the denied users are as for `exec`.
    pub(super) fn java(&self, data_dir: &Path) -> anyhow::Result<Settings> {
        Ok(Settings {
            default_pid_mode: mode("java-default-pid-mode", &self.java_default_pid_mode)?,
            default_ipc_mode: mode("java-default-ipc-mode", &self.java_default_ipc_mode)?,
            allow_caps: capabilities("java-allow-caps", &self.java_allow_caps)?,
            ..self.exec(data_dir)?
        })
    }

    /// The users that tasks may not run as.
    pub(super) fn users(&self) -> DeniedUsers {
        let named = |list: &[String]| list.iter().filter(|name| !name.is_empty()).cloned().collect();
        DeniedUsers { names: named(&self.user_denylist), checked_drivers: named(&self.user_checked_drivers) }
    }

    fn common(&self, data_dir: &Path) -> anyhow::Result<Settings> {
        let mut settings = Settings::new(data_dir.to_owned());
        if !self.chroot_env.is_empty() {
            let path = |Pair { key, value }: &Pair| (PathBuf::from(key), PathBuf::from(value));
            settings.paths = self.chroot_env.iter().map(path).collect();
        }
        check_paths(&settings.paths).map_err(|error| anyhow!("--chroot-env: {error}"))?;
        Ok(settings)
    }
}

fn mode(flag: &str, text: &str) -> anyhow::Result<Mode> {
    Mode::read(&format!("--{flag}"), text, Mode::Private).map_err(anyhow::Error::msg)
}

fn capabilities(flag: &str, names: &[String]) -> anyhow::Result<CapabilitySet> {
    let named: Vec<String> = names.iter().filter(|name| !name.is_empty()).cloned().collect();
    CapabilitySet::read(&named).map_err(|error| anyhow!("--{flag}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::config::Args;

    fn args() -> IsolationArgs {
        Args::default().isolation
    }

    fn pair(text: &str) -> Pair {
        text.parse().unwrap()
    }

    #[test]
    fn an_operator_who_sets_nothing_gets_the_defaults_of_the_rules() {
        let data_dir = Path::new("/data");
        let expected = Settings::new(data_dir.to_owned());
        assert_eq!(args().exec(data_dir).unwrap(), expected);
        assert_eq!(args().java(data_dir).unwrap(), expected);
        assert_eq!(args().users().names, ["root", "Administrator"]);
        assert_eq!(args().users().checked_drivers, ["exec", "qemu", "java"]);
    }

    /// Every setting of A-22.4 and A-22.5, with what it changes.
    #[test]
    fn every_setting_has_an_effect() {
        let text = |text: &str| text.to_owned();
        let data_dir = Path::new("/data");
        let default = || Settings::new(data_dir.to_owned());
        let ids = |text: &str| IdRanges::read(text).unwrap();
        let chown = vec![text("chown")];
        let only_chown = CapabilitySet::read(&chown).unwrap();
        let opt = [(PathBuf::from("/opt"), PathBuf::from("/tools"))];
        let table = [
            (
                IsolationArgs { exec_no_pivot_root: true, ..args() },
                Settings { no_pivot_root: true, ..default() },
            ),
            (
                IsolationArgs { exec_default_pid_mode: text("host"), ..args() },
                Settings { default_pid_mode: Mode::Host, ..default() },
            ),
            (
                IsolationArgs { exec_default_ipc_mode: text("host"), ..args() },
                Settings { default_ipc_mode: Mode::Host, ..default() },
            ),
            (
                IsolationArgs { exec_allow_caps: chown.clone(), ..args() },
                Settings { allow_caps: only_chown, ..default() },
            ),
            (
                IsolationArgs { exec_denied_uids: text("5-7"), ..args() },
                Settings { denied_uids: ids("5-7"), ..default() },
            ),
            (
                IsolationArgs { exec_denied_gids: text("8"), ..args() },
                Settings { denied_gids: ids("8"), ..default() },
            ),
            (
                IsolationArgs { chroot_env: vec![pair("/opt=/tools")], ..args() },
                Settings { paths: opt.into(), ..default() },
            ),
        ];
        for (args, expected) in table {
            assert_eq!(args.exec(data_dir).unwrap(), expected, "{args:?}");
        }
        let java = IsolationArgs {
            java_default_pid_mode: text("host"),
            java_default_ipc_mode: text("host"),
            java_allow_caps: chown,
            ..args()
        };
        let expected = Settings {
            default_pid_mode: Mode::Host,
            default_ipc_mode: Mode::Host,
            allow_caps: only_chown,
            ..default()
        };
        assert_eq!(java.java(data_dir).unwrap(), expected);
        assert_eq!(java.exec(data_dir).unwrap(), default());
    }

    #[test]
    fn settings_without_sense_are_refused_by_name() {
        let text = |text: &str| text.to_owned();
        let refusal = |args: IsolationArgs| args.java(Path::new("/data")).unwrap_err().to_string();
        for (args, reason) in [
            (
                IsolationArgs { exec_default_pid_mode: text("x"), ..args() },
                r#"--exec-default-pid-mode must be "private" or "host", got "x""#,
            ),
            (
                IsolationArgs { java_allow_caps: vec![text("x")], ..args() },
                r#"--java-allow-caps: unknown capability "x""#,
            ),
            (IsolationArgs { exec_denied_gids: text("9-1"), ..args() }, "--exec-denied-gids: invalid range"),
            (
                IsolationArgs { chroot_env: vec![pair("opt=/opt")], ..args() },
                r#"--chroot-env: "opt" must be absolute"#,
            ),
        ] {
            let found = refusal(args);
            assert!(found.starts_with(reason), "{found}");
        }
    }
}
