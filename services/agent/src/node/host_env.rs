//! The part of the machine's environment that tasks get: a search path, the home directory and name of the
//! user that they run as, the agent's locale and time zone, and variables of the agent that its operator allows by
//! name. Everything else is meant for the agent, and much of it is secret.

use std::collections::BTreeMap;

use model::text::quoted;

use crate::account::Account;
use crate::driver::{DEFAULT_PATH, matches_pattern};

/// Variables of the agent that tasks get without being listed.
const ALLOWED: [&str; 2] = ["LANG", "TZ"];
/// Credentials, by the list of. No task gets them from the agent.
const CREDENTIALS: [&str; 17] = [
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
/// Variables that a service manager sets for the agent alone. A task that used them would act as the agent.
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
/// The prefixes of variables with the settings of the agent and of its telemetry. Some of them hold passwords.
const AGENT_PREFIXES: [&str; 2] = ["DROVER_", "OTEL_"];

/// The variables that tasks get from the machine's environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostEnv {
    /// The agent's variables that tasks get.
    passed_on: BTreeMap<String, String>,
    /// Names of variables that tasks do not get, whatever else holds.
    denylist: Vec<String>,
}

impl HostEnv {
    /// Selects from the agent's own environment. A name of the `allowlist` may end in `*`, which matches any suffix.
    pub(crate) fn read(allowlist: &[String], denylist: &[String]) -> Self {
        Self::select(own_environment(), allowlist, denylist)
    }

    fn select(
        environment: impl Iterator<Item = (String, String)>,
        allowlist: &[String],
        denylist: &[String],
    ) -> Self {
        let is_allowed = |name: &str| {
            ALLOWED.contains(&name) || allowlist.iter().any(|pattern| matches_pattern(pattern, name))
        };
        let passed_on = environment.filter(|(name, _)| is_allowed(name) && !is_for_agent(name)).collect();
        Self { passed_on, denylist: denylist.to_vec() }
    }

    /// The variables of a task that runs as this user.
    pub(crate) fn of(&self, account: Option<&Account>) -> BTreeMap<String, String> {
        let mut env = BTreeMap::from([("PATH".to_owned(), DEFAULT_PATH.to_owned())]);
        if let Some(account) = account {
            env.insert("HOME".to_owned(), account.home.display().to_string());
            env.extend(account.name.clone().map(|name| ("USER".to_owned(), name)));
        }
        env.extend(self.passed_on.clone());
        env.retain(|name, _| !self.denylist.contains(name));
        env
    }
}

/// Refuses a list of variables to pass on to tasks that names one which is never passed on.
///
/// # Errors
/// If a name or pattern is that of credentials or settings of the agent.
pub fn check_env_allowlist(allowlist: &[String]) -> Result<(), String> {
    match allowlist.iter().find(|name| is_for_agent(name.trim_end_matches('*'))) {
        Some(name) => Err(format!(
            "{} cannot be allowed: tasks do not get credentials and settings of the agent; set the variable in the \
             job's env",
            quoted(name)
        )),
        None => Ok(()),
    }
}

/// The agent's environment without credentials and its own settings.
pub(crate) fn harmless_environment() -> BTreeMap<String, String> {
    own_environment().filter(|(name, _)| !is_for_agent(name)).collect()
}

fn own_environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Whether a variable is meant for the agent alone.
fn is_for_agent(name: &str) -> bool {
    CREDENTIALS.contains(&name)
        || SERVICE_MANAGER_VARIABLES.contains(&name)
        || AGENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [(&str, &str); 9] = [
        ("AWS_ACCESS_KEY_ID", "key"),
        ("DROVER_DATABASE_URL", "postgres://u:p@h/d"),
        ("HTTPS_PROXY", "http://proxy"),
        ("LANG", "C.UTF-8"),
        ("NOTIFY_SOCKET", "/run/notify"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret"),
        ("PATH", "/root/bin"),
        ("SSH_AUTH_SOCK", "/tmp/agent"),
        ("TZ", "UTC"),
    ];

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn selected(allowlist: &[&str], denylist: &[&str]) -> Vec<(String, String)> {
        let own = OWN.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let account = Account::for_tests("ada", 1_000, 1_000, &[]);
        let env = HostEnv::select(own, &names(allowlist), &names(denylist)).of(Some(&account));
        env.into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_task_gets_what_is_listed_and_nothing_else() {
        let expected = [
            ("HOME", "/home/ada"),
            ("LANG", "C.UTF-8"),
            ("PATH", DEFAULT_PATH),
            ("TZ", "UTC"),
            ("USER", "ada"),
        ];
        assert_eq!(selected(&[], &[]), pairs(&expected));
    }

    #[test]
    fn operators_add_names_and_take_names_away() {
        let expected =
            [("HTTPS_PROXY", "http://proxy"), ("LANG", "C.UTF-8"), ("PATH", "/root/bin"), ("USER", "ada")];
        assert_eq!(selected(&["HTTPS_*", "PATH"], &["TZ", "HOME"]), pairs(&expected));
    }

    #[test]
    fn the_agents_own_variables_never_reach_tasks() {
        let all = selected(&["*"], &[]);
        let expected = ["HOME", "HTTPS_PROXY", "LANG", "PATH", "SSH_AUTH_SOCK", "TZ", "USER"];
        assert!(all.iter().map(|(name, _)| name.as_str()).eq(expected), "{all:?}");
    }

    #[test]
    fn a_list_that_names_credentials_is_refused() {
        assert_eq!(check_env_allowlist(&names(&["HTTPS_*", "PATH", "*"])), Ok(()));
        for name in ["DROVER_NATS_URL", "DROVER_*", "OTEL_*", "VAULT_TOKEN", "NOTIFY_SOCKET"] {
            let refusal = check_env_allowlist(&names(&["PATH", name])).unwrap_err();
            assert!(refusal.starts_with(&format!("\"{name}\" cannot be allowed")), "{refusal}");
        }
    }

    #[test]
    fn a_task_without_a_known_user_gets_no_home() {
        let env = HostEnv::default().of(None);
        assert_eq!(env.into_iter().collect::<Vec<_>>(), pairs(&[("PATH", DEFAULT_PATH)]));
    }
}
