//! Failpoints of the binary under test: at named steps it stops, dies or waits.
//!
//! The steps are `fail_point!`s in `store` and `bus`. They exist only if `fail` is built with its feature `failpoints`,
//! which only this crate enables. A test sets the actions in the environment ([`VARIABLE`]).

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, raise};

/// The environment variable. It holds [`Failpoint`]s separated by `;`.
pub const VARIABLE: &str = "DROVER_FAILPOINTS";

/// The action at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The process stops (SIGSTOP) until it is resumed.
    Stop,
    /// The process dies (SIGKILL).
    Kill,
    /// The thread that reached the step sleeps.
    Delay(Duration),
}

/// An action that happens once, written as `step=action@nth`. The action is `stop`, `kill` or `delay:<milliseconds>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failpoint {
    /// The step's name.
    pub step: String,
    /// The action.
    pub action: Action,
    /// The visit of the step at which the action happens, counted from 1.
    pub nth: u64,
}

impl Failpoint {
    /// Stops the process when it reaches a step for the `nth` time.
    pub fn stop(step: &str, nth: u64) -> Self {
        Self { step: step.to_owned(), action: Action::Stop, nth }
    }

    fn arm(self) {
        let Self { step, action, nth } = self;
        let reached = AtomicU64::new(0);
        let on_reached = move || {
            if reached.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                action.perform();
            }
        };
        fail::cfg_callback(step, on_reached).expect("a callback can always be configured");
    }
}

impl Action {
    fn perform(self) {
        // A signal that a thread sends to itself is delivered before the thread continues, and affects all threads.
        let signal = |signal| raise(signal).expect("a process may signal itself");
        match self {
            Self::Stop => signal(Signal::SIGSTOP),
            Self::Kill => signal(Signal::SIGKILL),
            Self::Delay(time) => std::thread::sleep(time),
        }
    }
}

/// Arms the failpoints of the environment. Called at the start of a process.
///
/// # Panics
/// If the variable cannot be parsed.
pub fn arm() {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    for point in text.split(';').filter(|point| !point.is_empty()) {
        let point: Failpoint =
            point.parse().unwrap_or_else(|()| panic!("{VARIABLE}: not a failpoint: {point}"));
        point.arm();
    }
}

impl fmt::Display for Failpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, action, nth } = self;
        match action {
            Action::Stop => write!(f, "{step}=stop@{nth}"),
            Action::Kill => write!(f, "{step}=kill@{nth}"),
            Action::Delay(time) => write!(f, "{step}=delay:{}@{nth}", time.as_millis()),
        }
    }
}

impl FromStr for Failpoint {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (step, rest) = text.split_once('=').ok_or(())?;
        let (action, nth) = rest.split_once('@').ok_or(())?;
        let action = match action.split_once(':') {
            None if action == "stop" => Action::Stop,
            None if action == "kill" => Action::Kill,
            Some(("delay", millis)) => Action::Delay(Duration::from_millis(millis.parse().map_err(drop)?)),
            None | Some(_) => return Err(()),
        };
        Ok(Self { step: step.to_owned(), action, nth: nth.parse().map_err(drop)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_understood_as_it_was_said() {
        for action in [Action::Stop, Action::Kill, Action::Delay(Duration::from_millis(20))] {
            let point = Failpoint { step: "commit.done".to_owned(), action, nth: 3 };
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        for wrong in ["", "commit.done", "commit.done=stop", "commit.done=jump@1", "commit.done=delay@1"] {
            assert_eq!(wrong.parse::<Failpoint>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn it_happens_at_the_nth_time_only() {
        let delay = Duration::from_millis(50);
        Failpoint { step: "test.step".to_owned(), action: Action::Delay(delay), nth: 2 }.arm();
        let times: Vec<bool> = (0..3)
            .map(|_| {
                let begun = telemetry::clock::monotonic();
                fail::fail_point!("test.step");
                begun.elapsed() >= delay
            })
            .collect();
        assert_eq!(times, [false, true, false]);
    }
}
