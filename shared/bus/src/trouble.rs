//! What goes wrong between this process and NATS, in words that say what to do: refused credentials, certificates that
//! cannot be trusted, subjects that are not permitted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use telemetry::clock;
use telemetry::metrics::catalogue::BUS_PERMISSION_VIOLATIONS;

use crate::identity::Identity;

/// All violations are counted, but the same one is logged once in this time.
const VIOLATION_LOGGED_EVERY: Duration = Duration::from_secs(60);

/// So many different violations are logged in that time.
const VIOLATIONS_LOGGED_MAX: usize = 64;

/// Keeps account of what goes wrong, so that it is logged once and with its reason.
#[derive(Debug)]
pub(crate) struct Trouble {
    identity: Identity,
    ca: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The reason that was logged.
    logged: Option<String>,
    /// When each violation was logged.
    violations: HashMap<(&'static str, String), Instant>,
}

impl State {
    /// Whether a violation is to be logged now; then it counts as logged.
    fn is_due(&mut self, action: &'static str, subject: &str, now: Instant) -> bool {
        self.violations.retain(|_, logged| now.duration_since(*logged) < VIOLATION_LOGGED_EVERY);
        if self.violations.len() >= VIOLATIONS_LOGGED_MAX {
            return false;
        }
        let Entry::Vacant(violation) = self.violations.entry((action, subject.to_owned())) else {
            return false;
        };
        violation.insert(now);
        true
    }
}

impl Trouble {
    pub(crate) fn new(identity: Identity, ca: Option<PathBuf>) -> Self {
        Self { identity, ca, state: Mutex::default() }
    }

    /// Takes in why the last attempt failed. The client tells so before the next one, and logs are written then.
    pub(crate) fn remember(&self, error: Option<String>) {
        let Some(error) = error else { return };
        let reason = self.explain(&error);
        let known = self.with(|state| state.logged.replace(reason.clone()));
        if known.as_deref() != Some(&*reason) {
            tracing::warn!(reason, "cannot connect to NATS, trying again");
        }
    }

    /// The connection is there; the next outage is logged again.
    pub(crate) fn connected(&self) {
        self.with(|state| state.logged = None);
    }

    /// Takes in an error that the server sent over the connection.
    pub(crate) fn server_said(&self, error: &str) {
        let Some(violation) = Violation::read(error) else {
            tracing::warn!(error, user = self.identity.to_string(), "NATS complains");
            return;
        };
        let Violation { action, subject } = violation;
        BUS_PERMISSION_VIOLATIONS.add_with(1, &[action]);
        let now = clock::monotonic();
        if self.with(|state| state.is_due(action, subject, now)) {
            let user = self.identity.to_string();
            tracing::warn!(
                action,
                subject,
                user,
                "NATS does not permit this; the credentials are of another role, or older than this program"
            );
        }
    }

    /// What an error of the client means, and what to do.
    fn explain(&self, error: &str) -> String {
        let lower = error.to_lowercase();
        let has = |text: &str| lower.contains(text);
        let advice = if has("authorization violation") || has("authentication expired") {
            format!(
                "NATS refuses {}. They were signed by another operator or account than the server trusts, were revoked, or have expired",
                self.identity
            )
        } else if ["unknownissuer", "unknown issuer", "badsignature", "bad signature"].into_iter().any(has) {
            // The signature is bad where another authority has the same name, such as one that was made anew.
            match &self.ca {
                Some(ca) => format!("the server's certificate was not signed by the authority in {}", ca.display()),
                None => "the server's certificate was signed by an unknown authority; name its certificate with --nats-ca".to_owned(),
            }
        } else if has("not valid for name") || has("notvalidforname") {
            "the server's certificate is for other names than the host in --nats-url; use one of its names, or make a certificate with this one".to_owned()
        } else if has("certificate") && has("expired") {
            "the server's certificate has expired; make a new one and restart the server".to_owned()
        } else if self.ca.is_some() && (has("eof") || has("invalidcontenttype") || has("corrupt message")) {
            "TLS was asked for (--nats-ca) and the server does not speak it; configure its tls block, or leave out --nats-ca".to_owned()
        } else {
            return error.to_owned();
        };
        format!("{advice} ({error})")
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Something that the credentials do not permit.
#[derive(Debug, PartialEq, Eq)]
struct Violation<'a> {
    action: &'static str,
    subject: &'a str,
}

impl<'a> Violation<'a> {
    /// Reads the server's sentence: `Permissions Violation for Publish to "feed.changes"`.
    fn read(error: &'a str) -> Option<Self> {
        let (_, about) = error.split_once("ermissions Violation for ")?;
        let action = if about.starts_with("Publish") { "publish" } else { "subscribe" };
        let subject = about.split('"').nth(1).unwrap_or_default();
        Some(Self { action, subject })
    }
}

#[cfg(test)]
mod tests {
    use model::NodeId;

    use super::*;

    #[test]
    fn a_violation_names_action_and_subject() {
        let read = |text| Violation::read(text);
        assert_eq!(
            read("nats: Permissions Violation for Publish to \"feed.changes\""),
            Some(Violation { action: "publish", subject: "feed.changes" })
        );
        assert_eq!(
            read("nats: Permissions Violation for Subscription to \"feed.>\" using queue \"q\""),
            Some(Violation { action: "subscribe", subject: "feed.>" })
        );
        assert_eq!(read("nats: Maximum Payload Violation"), None);
    }

    #[test]
    fn each_violation_is_logged_and_none_without_end() {
        let mut state = State::default();
        let now = clock::monotonic();
        assert!(state.is_due("publish", "feed.changes", now));
        assert!(state.is_due("subscribe", "feed.changes", now), "another at the same moment");
        assert!(!state.is_due("publish", "feed.changes", now + VIOLATION_LOGGED_EVERY / 2));
        assert!(state.is_due("publish", "feed.changes", now + VIOLATION_LOGGED_EVERY));
        let logged =
            (0..1000).filter(|number| state.is_due("publish", &format!("wake.{number}"), now)).count();
        assert!(logged < VIOLATIONS_LOGGED_MAX, "{logged}");
    }

    #[test]
    fn what_stops_a_connection_is_said_with_what_to_do() {
        let node = NodeId::from_bytes([7; 16]);
        let identity = Identity::NodeKey { path: "/run/node.key".into(), node };
        let trouble = Trouble::new(identity, None);
        let said = trouble.explain("authorization violation: nats: authorization violation");
        assert!(said.contains("node 07070707") && said.contains("/run/node.key"), "{said}");
        let said = trouble.explain("IO error: invalid peer certificate: UnknownIssuer");
        assert!(said.contains("--nats-ca"), "{said}");
        let with_ca = Trouble::new(Identity::Url, Some("/run/ca.pem".into()));
        let said = with_ca.explain("IO error: invalid peer certificate: UnknownIssuer");
        assert!(said.contains("/run/ca.pem"), "{said}");
        assert_eq!(trouble.explain("IO error: connection refused"), "IO error: connection refused");
    }
}
