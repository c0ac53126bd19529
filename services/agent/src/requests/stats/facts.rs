//! The configuration of the machine, for diagnosis.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;

use model::Text;
use sysinfo::{Networks, System};
use wire::stats::{HostFacts, SHOWN_BYTES_MAX};

use super::disks;
use crate::node::host_env::harmless_environment;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// The maximum number of environment variables that are shown.
const VARIABLES_MAX: usize = 1_000;
/// Environment variables whose values are shown. For all others only the name is shown, because even an address may contain
/// a password.
const SHOWN_VARIABLES: [&str; 14] = [
    "HOME",
    "HOSTNAME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "PWD",
    "RUST_BACKTRACE",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_RUNTIME_DIR",
];
/// Replaces the hidden values.
const REDACTED: &str = "<redacted>";

/// Collects the facts about the machine.
pub(super) fn collect_facts() -> HostFacts {
    HostFacts {
        os: os(),
        networks: networks(),
        resolv_conf: beginning_of(RESOLV_CONF),
        hosts: beginning_of(HOSTS),
        environment: redacted(harmless_environment()),
        disks: disks::mounted(),
    }
}

fn os() -> Text {
    let name = System::long_os_version().unwrap_or_else(|_| System::distribution_id());
    match System::kernel_version() {
        Ok(kernel) => format!("{name}, kernel {kernel}").into(),
        Err(_) => name.into(),
    }
}

fn networks() -> Vec<(Text, Vec<Text>)> {
    let Ok(networks) = Networks::new_with_refreshed_list() else { return Vec::new() };
    let mut found: Vec<(Text, Vec<Text>)> = networks
        .iter()
        .map(|(name, network)| {
            let addresses = network.ip_networks().iter();
            let addresses = addresses.map(|net| format!("{}/{}", net.addr, net.prefix).into());
            (name.to_string_lossy().into_owned().into(), addresses.collect())
        })
        .collect();
    found.sort();
    found
}

/// The beginning of a file, as far as it is shown; empty if the file is unreadable.
fn beginning_of(path: &str) -> Text {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SHOWN_BYTES_MAX as u64).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned().into(),
        Err(error) => {
            tracing::debug!(
                path,
                error = telemetry::chain(&error),
                "cannot read a configuration file of the machine"
            );
            Text::default()
        }
    }
}

fn redacted(environment: BTreeMap<String, String>) -> Vec<(Text, Text)> {
    let shown = environment.into_iter().take(VARIABLES_MAX).map(|(name, value)| {
        let value = if SHOWN_VARIABLES.contains(&name.as_str()) { value } else { REDACTED.to_owned() };
        (name.into(), value.into())
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_in_the_facts() {
        let environment = [("PATH", "/bin"), ("DATABASE_URL", "postgres://u:p@h/d")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let shown = redacted(environment.into());
        assert_eq!(
            shown,
            [("DATABASE_URL".into(), "<redacted>".into()), ("PATH".into(), "/bin".into())]
                as [(Text, Text); 2]
        );
    }

    #[test]
    fn a_machine_says_how_it_is_set_up() {
        let facts = collect_facts();
        assert!(!facts.os.is_empty());
        assert!(facts.environment.iter().any(|(name, _)| &**name == "PATH"));
        assert_eq!(beginning_of("/nowhere"), Text::default());
    }
}
