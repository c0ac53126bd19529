//! Diagnostics of the connection to NATS: turns refused credentials, untrusted certificates and permission violations
//! into log messages that say what to do.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use telemetry::clock;
use telemetry::metrics::catalogue::BUS_PERMISSION_VIOLATIONS;

use crate::identity::Identity;

/// Every violation is counted, but the same one is logged at most once in this interval.
const VIOLATION_LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Maximum number of different violations that are logged in that interval.
const VIOLATIONS_LOGGED_MAX: usize = 64;

/// Logs connection errors once each, with their reason.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    identity: Identity,
    ca: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last reason that was logged.
    logged: Option<String>,
    /// When each violation was logged, by action and subject.
    violations: HashMap<(&'static str, String), Instant>,
}

impl State {
    /// Returns whether to log a violation now, and records that it was logged.
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

impl Diagnostics {
    pub(crate) fn new(identity: Identity, ca: Option<PathBuf>) -> Self {
        Self { identity, ca, state: Mutex::default() }
    }

    /// Records why the last attempt to connect failed. The client reports that before the next attempt, and it is logged
    /// then.
    pub(crate) fn attempt_failed(&self, error: Option<String>) {
        let Some(error) = error else { return };
        let reason = self.explain(&error);
        let known = self.with(|state| state.logged.replace(reason.clone()));
        if known.as_deref() != Some(&*reason) {
            tracing::warn!(reason, "cannot connect to NATS, trying again");
        }
    }

    /// Records that the connection is made, so that the next outage is logged again.
    pub(crate) fn connected(&self) {
        self.with(|state| state.logged = None);
    }

    /// Records an error that the server sent over the connection.
    pub(crate) fn server_error(&self, error: &str) {
        let Some(violation) = Violation::read(error) else {
            tracing::warn!(error, user = self.identity.to_string(), "the NATS server reports an error");
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

    /// Explains an error of the client, with advice.
    fn explain(&self, error: &str) -> String {
        let lower = error.to_lowercase();
        let has = |text: &str| lower.contains(text);
        let advice = if has("authorization violation") || has("authentication expired") {
            format!(
                "NATS refuses {}. They were signed by another operator or account than the server trusts, were revoked, or have expired",
                self.identity
            )
        } else if ["unknownissuer", "unknown issuer", "badsignature", "bad signature"].into_iter().any(has) {
            // The signature does not match either if another authority with the same name signed it, such as one that
            // was created anew.
            match &self.ca {
                Some(ca) => format!("the server's certificate was not signed by the authority in {}", ca.display()),
                None => "the server's certificate was signed by an unknown authority; pass its certificate with --nats-ca".to_owned(),
            }
        } else if has("not valid for name") || has("notvalidforname") {
            "the server's certificate is for other names than the host in --nats-url; use one of its names, or make a certificate with this one".to_owned()
        } else if has("certificate") && has("expired") {
            "the server's certificate has expired; renew it with `drover operator tls renew`, copy it to the server, and let \
             the server read it with `nats-server --signal reload`"
                .to_owned()
        } else if self.ca.is_some() && (has("eof") || has("invalidcontenttype") || has("corrupt message")) {
            "TLS is required (--nats-ca), but the server does not support it; configure its tls block, or omit --nats-ca".to_owned()
        } else {
            return error.to_owned();
        };
        format!("{advice} ({error})")
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An action that the credentials do not permit.
#[derive(Debug, PartialEq, Eq)]
struct Violation<'a> {
    action: &'static str,
    subject: &'a str,
}

impl<'a> Violation<'a> {
    /// Parses the server's message: `Permissions Violation for Publish to "feed.changes"`.
    fn read(error: &'a str) -> Option<Self> {
        let (_, details) = error.split_once("ermissions Violation for ")?;
        let action = if details.starts_with("Publish") { "publish" } else { "subscribe" };
        let subject = details.split('"').nth(1).unwrap_or_default();
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
        let diagnostics = Diagnostics::new(identity, None);
        let text = diagnostics.explain("authorization violation: nats: authorization violation");
        assert!(text.contains("node 07070707") && text.contains("/run/node.key"), "{text}");
        let text = diagnostics.explain("IO error: invalid peer certificate: UnknownIssuer");
        assert!(text.contains("--nats-ca"), "{text}");
        let with_ca = Diagnostics::new(Identity::Url, Some("/run/ca.pem".into()));
        let text = with_ca.explain("IO error: invalid peer certificate: UnknownIssuer");
        assert!(text.contains("/run/ca.pem"), "{text}");
        let text = diagnostics.explain("IO error: invalid peer certificate: certificate expired");
        assert!(text.contains("tls renew") && text.contains("--signal reload"), "{text}");
        assert_eq!(diagnostics.explain("IO error: connection refused"), "IO error: connection refused");
    }
}
