//! What a process tells the service manager that started it (`sd_notify`): that it is ready, what it waits for, that its
//! event loop runs, and that it ends. Nothing where nobody asked for it.

use std::time::Duration;

use sd_notify::NotifyState;
use telemetry::clock;
use tokio::time::sleep;

use crate::health::Board;
use crate::health::report::Report;

/// How often the manager is told how the process fares.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Pings within the time after which the manager considers the process stuck.
const PINGS: u32 = 4;

/// Tells the manager how the process fares, for as long as its event loop runs.
pub(crate) async fn tell(board: Board) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let watchdog = sd_notify::watchdog_enabled();
    let every = watchdog.map_or(TELL_EVERY, |within| (within / PINGS).min(TELL_EVERY));
    let mut told = Told::default();
    loop {
        let now = clock::monotonic();
        let report = board.ready(now);
        let mut news = told.news(&report, board.is_started(&report), board.is_ending());
        if watchdog.is_some() && board.live(now).is_ok() {
            news.push(News::Alive);
        }
        send(&news);
        tokio::select! {
            () = sleep(every) => {}
            () = board.ending(), if !told.is_ending => {}
        }
    }
}

/// One thing that the manager is told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum News {
    Started,
    Alive,
    Ending,
    Status(String),
}

fn send(news: &[News]) {
    if news.is_empty() {
        return;
    }
    let states: Vec<NotifyState<'_>> = news
        .iter()
        .map(|one| match one {
            News::Started => NotifyState::Ready,
            News::Alive => NotifyState::Watchdog,
            News::Ending => NotifyState::Stopping,
            News::Status(text) => NotifyState::Status(text),
        })
        .collect();
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!(error = telemetry::chain(&error), "cannot notify the service manager");
    }
}

/// What the manager was told before.
#[derive(Debug, Default)]
struct Told {
    is_started: bool,
    is_ending: bool,
    status: String,
}

impl Told {
    /// What the manager has not been told yet.
    fn news(&mut self, report: &Report, is_started: bool, is_ending: bool) -> Vec<News> {
        let mut news = Vec::new();
        if is_started && !std::mem::replace(&mut self.is_started, true) {
            news.push(News::Started);
        }
        if is_ending && !std::mem::replace(&mut self.is_ending, true) {
            news.push(News::Ending);
        }
        let status = report.summary();
        if status != self.status {
            news.push(News::Status(status.clone()));
            self.status = status;
        }
        news
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
    fn each_thing_is_told_once() {
        let mut told = Told::default();
        let status = |text: &str| News::Status(text.to_owned());
        assert_eq!(told.news(&report("lost"), false, false), [status("not ready: nats: lost")]);
        assert_eq!(told.news(&report("lost"), false, false), []);
        assert_eq!(told.news(&report(""), true, false), [News::Started, status("ready (standby)")]);
        assert_eq!(told.news(&report("lost"), false, false), [status("not ready: nats: lost")]);
        assert_eq!(told.news(&report(""), true, false), [status("ready (standby)")]);
        assert_eq!(told.news(&report(""), true, true), [News::Ending]);
        assert_eq!(told.news(&report(""), true, true), []);
    }
}
