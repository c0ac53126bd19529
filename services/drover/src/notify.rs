//! Notifications to the service manager that started the process (`sd_notify`): that it is ready, which checks fail, that
//! its event loop runs, and that it is stopping. Does nothing if the service manager does not ask for notifications.

use std::time::Duration;

use sd_notify::NotifyState;
use telemetry::clock;
use tokio::time::sleep;

use crate::health::Board;
use crate::health::report::Report;

/// How often the state of the process is compared with the last notification.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Watchdog pings within the time after which the manager considers the process stuck.
const PINGS_PER_TIMEOUT: u32 = 4;

/// Notifies the manager of each change of state, for as long as the event loop runs.
pub(crate) async fn run(board: Board) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let watchdog = sd_notify::watchdog_enabled();
    let every = watchdog.map_or(CHECK_INTERVAL, |within| (within / PINGS_PER_TIMEOUT).min(CHECK_INTERVAL));
    let mut notified = Notified::default();
    loop {
        let now = clock::monotonic();
        let report = board.ready(now);
        let mut pending = notified.pending(&report, board.is_started(&report), board.is_ending());
        if watchdog.is_some() && board.live(now).is_ok() {
            pending.push(Notification::Alive);
        }
        send(&pending);
        tokio::select! {
            () = sleep(every) => {}
            () = board.ending(), if !notified.is_ending => {}
        }
    }
}

/// One notification to the manager.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Notification {
    Started,
    Alive,
    Ending,
    Status(String),
}

fn send(pending: &[Notification]) {
    if pending.is_empty() {
        return;
    }
    let states: Vec<NotifyState<'_>> = pending
        .iter()
        .map(|one| match one {
            Notification::Started => NotifyState::Ready,
            Notification::Alive => NotifyState::Watchdog,
            Notification::Ending => NotifyState::Stopping,
            Notification::Status(text) => NotifyState::Status(text),
        })
        .collect();
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!(error = telemetry::chain(&error), "cannot notify the service manager");
    }
}

/// The facts of which the manager has been notified.
#[derive(Debug, Default)]
struct Notified {
    is_started: bool,
    is_ending: bool,
    status: String,
}

impl Notified {
    /// The notifications that the manager has not received yet.
    fn pending(&mut self, report: &Report, is_started: bool, is_ending: bool) -> Vec<Notification> {
        let mut pending = Vec::new();
        if is_started && !std::mem::replace(&mut self.is_started, true) {
            pending.push(Notification::Started);
        }
        if is_ending && !std::mem::replace(&mut self.is_ending, true) {
            pending.push(Notification::Ending);
        }
        let status = report.summary();
        if status != self.status {
            pending.push(Notification::Status(status.clone()));
            self.status = status;
        }
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::report::Check;

    fn report(why_not: &str) -> Report {
        let ok = why_not.is_empty();
        Report {
            status: if ok { "ready" } else { "not ready" }.to_owned(),
            service: "it".to_owned(),
            role: "standby".to_owned(),
            checks: vec![Check { name: "nats".to_owned(), ok, message: why_not.to_owned() }],
        }
    }

    #[test]
    fn each_notification_is_sent_once() {
        let mut notified = Notified::default();
        let status = |text: &str| Notification::Status(text.to_owned());
        assert_eq!(notified.pending(&report("lost"), false, false), [status("not ready: nats: lost")]);
        assert_eq!(notified.pending(&report("lost"), false, false), []);
        assert_eq!(
            notified.pending(&report(""), true, false),
            [Notification::Started, status("ready (standby)")]
        );
        assert_eq!(notified.pending(&report("lost"), false, false), [status("not ready: nats: lost")]);
        assert_eq!(notified.pending(&report(""), true, false), [status("ready (standby)")]);
        assert_eq!(notified.pending(&report(""), true, true), [Notification::Ending]);
        assert_eq!(notified.pending(&report(""), true, true), []);
    }
}
