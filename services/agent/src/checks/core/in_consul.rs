//! The statuses that checks have in Consul, and what they mean for health and restarts. Pure.

use model::Text;
use model::job::OnUpdate;

use super::results::{Finding, Outcome, Status};
use crate::checks::check::InConsul;

/// A status in Consul, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsulStatus {
    Passing,
    Warning,
    Critical,
}

/// What Consul is told about a check that the agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsulReport {
    /// The id of the check in Consul.
    pub(crate) check_id: Text,
    /// The status.
    pub(crate) status: ConsulStatus,
    /// What the check found, for people.
    pub(crate) output: Text,
}

impl ConsulStatus {
    /// The word of Consul's API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// Reads a word of Consul's API. What is not known is bad.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "passing" => Self::Passing,
            "warning" => Self::Warning,
            _ => Self::Critical,
        }
    }

    /// What the exit code of a program means: 0 passes, 1 warns, and any other is critical.
    pub(crate) const fn of_exit_code(code: i64) -> Self {
        match code {
            0 => Self::Passing,
            1 => Self::Warning,
            _ => Self::Critical,
        }
    }
}

/// What a status means: a warning passes if the check tolerates warnings. A check that Consul does not have yet is pending,
/// and restarts nothing.
pub(crate) fn finding(check: &InConsul, status: Option<ConsulStatus>, output: Text) -> Finding {
    let tolerates = matches!(check.on_update, Some(OnUpdate::IgnoreWarnings | OnUpdate::Ignore));
    let (status, restarts) = match status {
        None => (Status::Pending, false),
        Some(ConsulStatus::Passing) => (Status::Success, false),
        Some(ConsulStatus::Warning) => {
            let status = if tolerates { Status::Success } else { Status::Failure };
            (status, !check.ignores_warnings)
        }
        Some(ConsulStatus::Critical) => (Status::Failure, true),
    };
    Finding { outcome: Outcome { status, code: 0, output }, is_healthy: !restarts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(on_update: Option<OnUpdate>, ignores_warnings: bool) -> InConsul {
        InConsul { service_id: "s".into(), name: "alive".into(), on_update, ignores_warnings }
    }

    //
    #[test]
    fn warnings_count_as_the_job_says() {
        use ConsulStatus::{Critical, Passing, Warning};
        use Status::{Failure, Pending, Success};
        let (strict, lenient) = (check(None, false), check(Some(OnUpdate::IgnoreWarnings), true));
        for (check, status, expected, is_healthy) in [
            (&strict, None, Pending, true),
            (&strict, Some(Passing), Success, true),
            (&strict, Some(Warning), Failure, false),
            (&strict, Some(Critical), Failure, false),
            (&lenient, Some(Warning), Success, true),
            (&lenient, Some(Critical), Failure, false),
        ] {
            let found = finding(check, status, "".into());
            assert_eq!((found.outcome.status, found.is_healthy), (expected, is_healthy), "{status:?}");
        }
    }

    //
    #[test]
    fn exit_codes_have_the_meaning_that_consul_gives_them() {
        let statuses = [0, 1, 2, 127, -1].map(ConsulStatus::of_exit_code).map(ConsulStatus::as_str);
        assert_eq!(statuses, ["passing", "warning", "critical", "critical", "critical"]);
        for word in ["passing", "warning", "critical"] {
            assert_eq!(ConsulStatus::of(word).as_str(), word);
        }
        assert_eq!(ConsulStatus::of("odd"), ConsulStatus::Critical);
    }
}
