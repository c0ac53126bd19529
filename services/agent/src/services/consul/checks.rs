//! Follows the checks that Consul runs: their results decide about the health of allocations and about restarts of tasks,
//! as those of the agent's own checks do. Tells Consul the results of those that the agent runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::Text;
use serde_json::json;
use telemetry::chain;
use tokio::time::{MissedTickBehavior, interval};

use super::Consul;
use super::client::ListedCheck;
use crate::checks::Checks;
use crate::checks::core::{ConsulStatus, finding};

/// How often Consul's agent is asked, while an allocation has checks there.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

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
                checks.found(&key, finding(&check, status, Text::default()));
            }
        }
    }
}

impl Consul {
    /// Tells Consul what the programs of checks have found, until it is dropped. What cannot be told is not repeated: each
    /// run of a check tells it anew, and Consul counts a check as critical of which it hears nothing.
    pub(crate) async fn report_checks(self, checks: Arc<Checks>) {
        loop {
            for report in checks.reports().await {
                let body = json!({ "Status": report.status.as_str(), "Output": &*report.output });
                if let Err(error) = self.client.update_check(&report.check_id, &body).await {
                    // The registration of services warns if Consul is away, and comes before its checks are known there.
                    tracing::debug!(
                        check = &*report.check_id,
                        error = chain(&error),
                        "cannot tell Consul the result of a check"
                    );
                }
            }
        }
    }
}

/// The worst status of checks, by the id of their service and their name.
fn by_name<'a>(listed: impl Iterator<Item = &'a ListedCheck>) -> BTreeMap<(&'a str, &'a str), ConsulStatus> {
    let mut found = BTreeMap::new();
    for check in listed {
        let status = ConsulStatus::of(&check.status);
        let known = found.entry((check.service_id.as_str(), check.name.as_str())).or_insert(status);
        *known = status.max(*known);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(found[&("s", "a")], ConsulStatus::Critical);
        assert_eq!(found[&("s", "b")], ConsulStatus::Warning);
        assert_eq!(found[&("s", "c")], ConsulStatus::Critical);
    }
}
