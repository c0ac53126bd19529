//! Diagnostics of the connection to NATS: turns refused credentials, untrusted certificates and permission violations
//! into log messages that say what to do.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use telemetry::clock;
use telemetry::metrics::catalogue::BUS_PERMISSION_VIOLATIONS;
use telemetry::repeats::{Limiter, Repeats, kind_of};

use crate::identity::Identity;
use crate::refusals::{Action, Refusals};

/// Logs what goes wrong with a connection, with the reason, and remembers what NATS refuses.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    identity: Identity,
    ca: Option<PathBuf>,
    refusals: Arc<Refusals>,
    /// Number of the connection in `refusals`.
    connection: u32,
    /// Whether the process ends.
    is_ending: Arc<AtomicBool>,
    state: Mutex<State>,
}

/// Limits the log lines: one a minute for each kind.
#[derive(Debug)]
struct State {
    attempts: Limiter<String>,
    violations: Limiter<(Action, String)>,
    errors: Limiter<String>,
}

impl Default for State {
    fn default() -> Self {
        Self { attempts: Limiter::new(1), violations: Limiter::new(1), errors: Limiter::new(1) }
    }
}

impl Diagnostics {
    pub(crate) fn new(
        identity: Identity,
        ca: Option<PathBuf>,
        refusals: Arc<Refusals>,
        is_ending: Arc<AtomicBool>,
    ) -> Self {
        let connection = refusals.new_connection();
        Self { identity, ca, refusals, connection, is_ending, state: Mutex::default() }
    }

    /// Records that the connection is lost.
    pub(crate) fn disconnected(&self) {
        if self.is_ending.load(Ordering::Relaxed) {
            tracing::info!("the connection to NATS has ended");
        } else {
            tracing::warn!("lost the connection to NATS, reconnecting");
        }
    }

    /// Records why the last attempt to connect failed. The client reports that before the next attempt, and it is logged
    /// then.
    pub(crate) fn attempt_failed(&self, error: Option<String>) {
        let Some(error) = error.filter(|_| !self.is_ending.load(Ordering::Relaxed)) else { return };
        if let Some((reason, repeats)) = self.failed_attempt(&error, clock::monotonic()) {
            let Repeats { attempts, lasting_secs, .. } = repeats;
            tracing::warn!(reason, attempts, lasting_secs, "cannot connect to NATS, trying again");
        }
    }

    /// The log line about a failed attempt to connect, unless one was logged recently.
    fn failed_attempt(&self, error: &str, now: Instant) -> Option<(String, Repeats)> {
        let reason = self.explain(error);
        let repeats = self.with(|state| state.attempts.failed(kind_of(&reason), now))?;
        Some((reason, repeats))
    }

    /// Records that the connection is made.
    pub(crate) fn connected(&self) {
        self.refusals.forget(self.connection);
        let after = self.with(|state| state.attempts.succeeded(clock::monotonic()));
        let Repeats { attempts, lasting_secs, .. } = after.unwrap_or_default();
        tracing::info!(attempts, lasting_secs, "connected to NATS");
    }

    /// Records an error that the server sent over the connection.
    pub(crate) fn server_error(&self, error: &str) {
        let now = clock::monotonic();
        let Some(Violation { action, subject }) = Violation::read(error) else {
            if let Some(repeats) = self.with(|state| state.errors.failed(kind_of(error), now)) {
                let (user, suppressed) = (self.identity.to_string(), repeats.suppressed);
                tracing::warn!(error, user, suppressed, "the NATS server reports an error");
            }
            return;
        };
        BUS_PERMISSION_VIOLATIONS.add_with(1, &[action.as_str()]);
        self.refusals.record(self.connection, action, subject);
        if let Some(repeats) = self.with(|state| state.violations.failed((action, subject.to_owned()), now)) {
            let (action, user, suppressed) = (action.as_str(), self.identity.to_string(), repeats.suppressed);
            tracing::warn!(
                action,
                subject,
                user,
                suppressed,
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

impl Drop for Diagnostics {
    fn drop(&mut self) {
        self.refusals.forget(self.connection);
    }
}

/// An action that the credentials do not permit.
#[derive(Debug, PartialEq, Eq)]
struct Violation<'a> {
    action: Action,
    subject: &'a str,
}

impl<'a> Violation<'a> {
    /// Parses the server's message: `Permissions Violation for Publish to "feed.changes"`.
    fn read(error: &'a str) -> Option<Self> {
        let (_, details) = error.split_once("ermissions Violation for ")?;
        let action = if details.starts_with("Publish") { Action::Publish } else { Action::Subscribe };
        let subject = details.split('"').nth(1).unwrap_or_default();
        Some(Self { action, subject })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::NodeId;

    use super::*;

    #[test]
    fn a_violation_names_action_and_subject() {
        let read = |text| Violation::read(text);
        assert_eq!(
            read("nats: Permissions Violation for Publish to \"feed.changes\""),
            Some(Violation { action: Action::Publish, subject: "feed.changes" })
        );
        assert_eq!(
            read("nats: Permissions Violation for Subscription to \"feed.>\" using queue \"q\""),
            Some(Violation { action: Action::Subscribe, subject: "feed.>" })
        );
        assert_eq!(read("nats: Maximum Payload Violation"), None);
    }

    fn diagnostics(identity: Identity, ca: Option<PathBuf>) -> Diagnostics {
        Diagnostics::new(identity, ca, Arc::default(), Arc::default())
    }

    #[test]
    fn a_reason_is_logged_once_a_minute_although_its_text_contains_the_time() {
        let (diagnostics, start) = (diagnostics(Identity::Url, None), clock::monotonic());
        let expired = |secs: u64| {
            let error = format!(
                "IO error: invalid peer certificate: certificate expired: verification time {} (UNIX), but certificate \
                 is not valid after 1764000000 ({secs} seconds ago)",
                1_764_000_000 + secs
            );
            diagnostics.failed_attempt(&error, start + Duration::from_secs(secs))
        };
        let lines: Vec<_> = (0..120).filter_map(expired).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].0.starts_with("the server's certificate has expired"), "{}", lines[0].0);
        assert_eq!((lines[1].1.attempts, lines[1].1.lasting_secs), (Some(61), Some(60)));
        let at = start + Duration::from_secs(120);
        let refused = || diagnostics.failed_attempt("IO error: connection refused", at);
        assert!(refused().is_some(), "another reason is logged at once");
        assert!(refused().is_none());
    }

    #[test]
    fn a_violation_is_remembered_until_the_connection_is_made_anew() {
        let refusals = Arc::new(Refusals::default());
        let new = || Diagnostics::new(Identity::Url, None, Arc::clone(&refusals), Arc::default());
        let (diagnostics, another) = (new(), new());
        let refused = "nats: Permissions Violation for Subscription to \"feed.changes\"";
        diagnostics.server_error(refused);
        another.server_error(refused);
        diagnostics.connected();
        assert!(
            refusals.describe().is_some_and(|text| text.contains("feed.changes")),
            "of the other connection"
        );
        drop(another);
        assert_eq!(refusals.describe(), None);
    }

    #[test]
    fn connection_errors_say_what_is_wrong_and_what_to_do() {
        let node = NodeId::from_bytes([7; 16]);
        let identity = Identity::NodeKey { path: "/run/node.key".into(), node };
        let with_key = diagnostics(identity, None);
        let text = with_key.explain("authorization violation: nats: authorization violation");
        assert!(text.contains("node 07070707") && text.contains("/run/node.key"), "{text}");
        let text = with_key.explain("IO error: invalid peer certificate: UnknownIssuer");
        assert!(text.contains("--nats-ca"), "{text}");
        let with_ca = diagnostics(Identity::Url, Some("/run/ca.pem".into()));
        let text = with_ca.explain("IO error: invalid peer certificate: UnknownIssuer");
        assert!(text.contains("/run/ca.pem"), "{text}");
        let text = with_key.explain("IO error: invalid peer certificate: certificate expired");
        assert!(text.contains("tls renew") && text.contains("--signal reload"), "{text}");
        assert_eq!(with_key.explain("IO error: connection refused"), "IO error: connection refused");
    }
}
