//! Follows the checks that Consul runs: their results decide about the health of allocations and about restarts of tasks,
//! as those of the agent's own checks do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::job::OnUpdate;
use serde::Deserialize;
use telemetry::chain;
use tokio::time::{MissedTickBehavior, interval};

use super::Consul;
use crate::checks::Checks;
use crate::checks::check::InConsul;
use crate::checks::core::{Finding, Outcome, Status};

/// How often Consul's agent is asked, while an allocation has checks there.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A check, as Consul's agent lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct ListedCheck {
    name: String,
    #[serde(rename = "ServiceID")]
    service_id: String,
    status: String,
}

impl Consul {
    /// Passes the results of checks on, until it is dropped. While Consul does not answer, they stay as they were.
    pub(crate) async fn follow_checks(self, checks: Arc<Checks>) {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let wanted = checks.in_consul();
            if wanted.is_empty() {
                continue;
            }
            let listed = match self.client.checks().await {
                Ok(listed) => listed,
                Err(error) => {
                    // The registration of services warns of it.
                    tracing::debug!(error = chain(&error), "cannot read the checks of Consul");
                    continue;
                }
            };
            let listed = by_name(listed.values());
            for (key, check) in wanted {
                let status = listed.get(&(&*check.service_id, &*check.name)).copied();
                checks.found(&key, finding(&check, status));
            }
        }
    }
}

/// The worst status of checks, by the id of their service and their name.
fn by_name<'a>(listed: impl Iterator<Item = &'a ListedCheck>) -> BTreeMap<(&'a str, &'a str), InStatus> {
    let mut found = BTreeMap::new();
    for check in listed {
        let status = InStatus::of(&check.status);
        let known = found.entry((check.service_id.as_str(), check.name.as_str())).or_insert(status);
        *known = status.max(*known);
    }
    found
}

/// A status in Consul, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum InStatus {
    Passing,
    Warning,
    Critical,
}

impl InStatus {
    fn of(word: &str) -> Self {
        match word {
            "passing" => Self::Passing,
            "warning" => Self::Warning,
            _ => Self::Critical,
        }
    }
}

/// What a status means: a warning passes if the check tolerates warnings. A check that Consul does not have yet is pending,
/// and restarts nothing.
fn finding(check: &InConsul, status: Option<InStatus>) -> Finding {
    let tolerates = matches!(check.on_update, Some(OnUpdate::IgnoreWarnings | OnUpdate::Ignore));
    let (status, restarts) = match status {
        None => (Status::Pending, false),
        Some(InStatus::Passing) => (Status::Success, false),
        Some(InStatus::Warning) => {
            let status = if tolerates { Status::Success } else { Status::Failure };
            (status, !check.ignores_warnings)
        }
        Some(InStatus::Critical) => (Status::Failure, true),
    };
    Finding { outcome: Outcome { status, code: 0, output: "".into() }, is_healthy: !restarts }
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
        use InStatus::{Critical, Passing, Warning};
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
            let found = finding(check, status);
            assert_eq!((found.outcome.status, found.is_healthy), (expected, is_healthy), "{status:?}");
        }
    }

    #[test]
    fn of_checks_with_the_same_name_the_worst_counts() {
        let listed = |name: &str, status: &str| ListedCheck {
            name: name.to_owned(),
            service_id: "s".to_owned(),
            status: status.to_owned(),
        };
        let all =
            [listed("a", "passing"), listed("a", "critical"), listed("b", "warning"), listed("c", "odd")];
        let found = by_name(all.iter());
        assert_eq!(found[&("s", "a")], InStatus::Critical);
        assert_eq!(found[&("s", "b")], InStatus::Warning);
        assert_eq!(found[&("s", "c")], InStatus::Critical);
    }
}
