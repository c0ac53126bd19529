//! The part of the agent's environment that its tasks get.

use std::collections::BTreeMap;

/// The default list of the agent's variables that tasks do not get.
pub(crate) const HOST_DENYLIST: &[&str] = &[
    "CONSUL_TOKEN",
    "CONSUL_HTTP_TOKEN",
    "CONSUL_HTTP_TOKEN_FILE",
    "NOMAD_TOKEN",
    "VAULT_TOKEN",
    "CONSUL_LICENSE",
    "NOMAD_LICENSE",
    "VAULT_LICENSE",
    "CONSUL_LICENSE_PATH",
    "NOMAD_LICENSE_PATH",
    "VAULT_LICENSE_PATH",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_METADATA_URL",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
];
/// Variables that a service manager sets for the agent alone. A task that used them would speak for the agent.
const SERVICE_MANAGER_VARIABLES: [&str; 8] = [
    "CREDENTIALS_DIRECTORY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];
/// The prefix of variables with the agent's own settings. Some of them hold passwords.
const AGENT_PREFIX: &str = "DROVER_";

/// The agent's environment without its own settings, the service manager's variables and the denylist.
pub(crate) fn host_env(denylist: &[String]) -> BTreeMap<String, String> {
    let readable = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    readable.filter(|(name, _)| is_for_tasks(name, denylist)).collect()
}

fn is_for_tasks(name: &str, denylist: &[String]) -> bool {
    let is_denied = denylist.iter().any(|denied| denied == name);
    !is_denied && !SERVICE_MANAGER_VARIABLES.contains(&name) && !name.starts_with(AGENT_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_does_not_reach_tasks() {
        let path = host_env(&[]);
        assert!(path.contains_key("PATH"));
        assert!(!host_env(&["PATH".to_owned()]).contains_key("PATH"));
    }

    #[test]
    fn what_is_meant_for_the_agent_does_not_reach_tasks() {
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "CREDENTIALS_DIRECTORY", "DROVER_NATS_URL"] {
            assert!(!is_for_tasks(name, &[]), "{name}");
        }
        assert!(is_for_tasks("HOME", &["PATH".to_owned()]));
    }
}
