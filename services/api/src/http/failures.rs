//! Log lines about failed and slow requests.
//!
//! They name the route instead of the path, and no parameters, because both may hold what is confidential. The clients
//! of a cluster that is down repeat their requests, so lines about the same failure are limited.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::{Method, StatusCode};
use telemetry::repeats::{Limiter, Repeats, kind_of};
use tracing::field::display;

use super::error::{Cause, Error};

/// A request that took longer than this is slow, unless it may have waited for a change or for an agent.
const SLOW_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of lines in a minute about the same failure of the same route.
const LINES_MAX: u32 = 3;
/// Maximum length of an error in a line, in bytes.
const ERROR_BYTES_MAX: usize = 512;
/// Prefix of the routes that an agent answers. The time that they take is that of the agent and its tasks.
const AGENT_ROUTES: &str = "/v1/client/";

/// An answered request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered<'a> {
    pub(crate) method: &'a Method,
    pub(crate) route: &'static str,
    pub(crate) status: StatusCode,
    /// The error; `None` if a handler made the response, whatever its status.
    pub(crate) error: Option<&'a Error>,
    pub(crate) took: Duration,
    /// Whether the request may have waited for a change.
    pub(crate) may_have_blocked: bool,
    /// The other end of the connection: the client, or a proxy.
    pub(crate) peer: Option<SocketAddr>,
}

/// Why a request is worth a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Concern {
    /// The cluster could not serve it.
    Unserved,
    /// It was answered with 5xx, although the request itself is the cause: the reference answers many mistakes so.
    Failed,
    /// The client may not do this, or not so often.
    Denied,
    /// It was served, but took long.
    Slow,
}

impl Answered<'_> {
    fn concern(&self) -> Option<Concern> {
        let may_wait = self.may_have_blocked || self.route.starts_with(AGENT_ROUTES);
        let is_slow = self.took >= SLOW_AFTER && !may_wait;
        match self.status {
            status if status.is_server_error() => match self.error.map(|error| error.cause) {
                Some(Cause::Cluster) => Some(Concern::Unserved),
                Some(Cause::Request) | None => Some(Concern::Failed),
            },
            StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => Some(Concern::Denied),
            _ => is_slow.then_some(Concern::Slow),
        }
    }

    /// The text of the error, with what only the log says. Where the request is the cause, only the first line of the text:
    /// further lines may quote the request.
    fn error_text(&self) -> Option<String> {
        let error = self.error?;
        let text = match error.cause {
            Cause::Cluster => error.text.as_str(),
            Cause::Request => error.text.lines().next().unwrap_or_default(),
        };
        let mut text = match &*error.detail {
            "" => text.to_owned(),
            detail => format!("{text}: {detail}"),
        };
        text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
        Some(text)
    }
}

/// Limits lines by what is wrong, route, status and kind of error.
type Lines = Mutex<Limiter<(Concern, &'static str, StatusCode, String)>>;

/// Logs failed and slow requests. All worker threads share it.
///
/// A limiter knows some kinds of failures only. Clients can make any number of them, which must not displace those of
/// the cluster.
#[derive(Debug)]
pub(crate) struct FailureLog {
    of_cluster: Lines,
    of_requests: Lines,
}

impl Default for FailureLog {
    fn default() -> Self {
        let lines = || Mutex::new(Limiter::new(LINES_MAX));
        Self { of_cluster: lines(), of_requests: lines() }
    }
}

impl FailureLog {
    /// Logs an answered request, in the current trace: at debug level if nothing is wrong with it.
    pub(crate) fn record(&self, answered: &Answered<'_>, now: Instant) {
        let Answered { method, route, status, took, peer, .. } = answered;
        let (status, took_ms) = (status.as_u16(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let (error, peer) = (answered.error_text(), peer.as_ref().map(display));
        let error = error.as_deref();
        let Some((concern, Repeats { suppressed, .. })) = self.due(answered, now) else {
            tracing::debug!(%method, route, status, error, took_ms, peer, "answered");
            return;
        };
        match concern {
            Concern::Unserved => {
                tracing::error!(%method, route, status, error, took_ms, peer, suppressed, "cannot serve a request");
            }
            Concern::Failed => {
                tracing::warn!(%method, route, status, error, took_ms, peer, suppressed, "a request failed");
            }
            Concern::Denied => {
                tracing::info!(%method, route, status, error, took_ms, peer, suppressed, "denied a request");
            }
            Concern::Slow => {
                tracing::warn!(%method, route, status, error, took_ms, peer, suppressed, "a request took long");
            }
        }
    }

    /// What to log about a request beyond the debug level.
    fn due(&self, answered: &Answered<'_>, now: Instant) -> Option<(Concern, Repeats)> {
        let concern = answered.concern()?;
        let kind = kind_of(&answered.error_text().unwrap_or_default());
        let key = (concern, answered.route, answered.status, kind);
        let lines = match concern {
            Concern::Unserved | Concern::Slow => &self.of_cluster,
            Concern::Failed | Concern::Denied => &self.of_requests,
        };
        let repeats = lines.lock().unwrap_or_else(PoisonError::into_inner).failed(key, now)?;
        Some((concern, repeats))
    }
}

#[cfg(test)]
mod tests {
    use telemetry::clock;

    use super::super::NO_LEADER;
    use super::*;

    /// A request that failed with an error, after some milliseconds.
    fn failed(error: &Error) -> Answered<'_> {
        Answered { status: error.status, error: Some(error), ..served(5) }
    }

    fn served(millis: u64) -> Answered<'static> {
        Answered {
            method: &Method::GET,
            route: "/v1/jobs",
            status: StatusCode::OK,
            error: None,
            took: Duration::from_millis(millis),
            may_have_blocked: false,
            peer: None,
        }
    }

    #[test]
    fn the_log_level_depends_on_who_has_to_act() {
        assert_eq!(failed(&Error::unavailable(NO_LEADER)).concern(), Some(Concern::Unserved));
        assert_eq!(failed(&Error::failed("missing job ID")).concern(), Some(Concern::Failed));
        assert_eq!(failed(&Error::not_built("…")).concern(), Some(Concern::Failed));
        assert_eq!(failed(&Error::new(StatusCode::FORBIDDEN, "…")).concern(), Some(Concern::Denied));
        assert_eq!(failed(&Error::not_found("…")).concern(), None);
        let unhealthy = Answered { status: StatusCode::INTERNAL_SERVER_ERROR, ..served(5) };
        assert_eq!(unhealthy.concern(), Some(Concern::Failed), "a report with this status");
    }

    #[test]
    fn a_request_is_slow_if_it_had_nothing_to_wait_for() {
        assert_eq!(served(1_999).concern(), None);
        assert_eq!(served(2_000).concern(), Some(Concern::Slow));
        assert_eq!(Answered { may_have_blocked: true, ..served(300_000) }.concern(), None);
        let of_agent = Answered { route: "/v1/client/allocation/:id/restart", ..served(9_000) };
        assert_eq!(of_agent.concern(), None);
        let error = Error::unavailable(NO_LEADER);
        let waited = Answered { took: Duration::from_secs(5), ..failed(&error) };
        assert_eq!(waited.concern(), Some(Concern::Unserved), "one line says both");
    }

    #[test]
    fn the_same_failure_is_logged_some_times_a_minute() {
        let (log, start) = (FailureLog::default(), clock::monotonic());
        let behind = |index: u64| Error::unavailable(format!("it has reached index {index}"));
        let at = |secs: u64| start + Duration::from_secs(secs);
        let lines =
            (0..40).filter(|number| log.due(&failed(&behind(*number)), at(*number)).is_some()).count();
        assert_eq!(lines, LINES_MAX as usize);
        let error = behind(7);
        let elsewhere = Answered { route: "/v1/nodes", ..failed(&error) };
        assert!(log.due(&elsewhere, at(40)).is_some(), "another route");
        let (_, repeats) = log.due(&failed(&behind(41)), at(60)).unwrap();
        assert_eq!(repeats.suppressed, Some(37));
    }

    #[test]
    fn mistakes_of_clients_do_not_hide_failures_of_the_cluster() {
        let (log, now) = (FailureLog::default(), clock::monotonic());
        let mistakes: Vec<Error> = (1..200).map(|length| Error::failed("x".repeat(length))).collect();
        let logged = mistakes.iter().filter(|mistake| log.due(&failed(mistake), now).is_some()).count();
        assert!(logged < mistakes.len(), "{logged}");
        assert!(log.due(&failed(&Error::unavailable(NO_LEADER)), now).is_some());
    }

    #[test]
    fn lines_quote_no_request_and_are_short() {
        let quoting = Error::failed("2 errors occurred:\n\t* env SECRET=…");
        assert_eq!(failed(&quoting).error_text().as_deref(), Some("2 errors occurred:"));
        let long = Error::unavailable("ä".repeat(ERROR_BYTES_MAX));
        assert_eq!(failed(&long).error_text().map(|text| text.len()), Some(ERROR_BYTES_MAX));
        let detailed =
            Error { detail: "nats: the connection was lost".to_owned(), ..Error::unavailable(NO_LEADER) };
        let expected = "No cluster leader: nats: the connection was lost";
        assert_eq!(failed(&detailed).error_text().as_deref(), Some(expected));
    }
}
