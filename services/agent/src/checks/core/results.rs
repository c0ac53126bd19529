//! The results of an allocation's checks, and what they say of its health. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::checks::check::{Check, Mode};

/// The maximum number of services that are named as unhealthy.
const NAMED_MAX: usize = 10;
/// The output of a check that has not run.
const WAITING: &str = "nomad: waiting to run";

/// The status of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    /// It has not run yet.
    #[default]
    Pending,
    /// Its last run succeeded.
    Success,
    /// Its last run failed.
    Failure,
}

impl Status {
    /// The word of the API (http-api §18).
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

/// The outcome of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Success or failure.
    pub(crate) status: Status,
    /// The status code of an HTTP response; 0 without a response.
    pub(crate) code: u16,
    /// What the check found, for people.
    pub(crate) output: Text,
}

/// What a run of a check found, here or in Consul.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What it means for the health of the allocation.
    pub(crate) outcome: Outcome,
    /// Whether it is good enough not to restart a task.
    pub(crate) is_healthy: bool,
}

impl From<Outcome> for Finding {
    fn from(outcome: Outcome) -> Self {
        Self { is_healthy: outcome.status == Status::Success, outcome }
    }
}

/// The last result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckResult {
    /// The status.
    pub(crate) status: Status,
    /// The status code of an HTTP response; 0 without a response.
    pub(crate) code: u16,
    /// What the check found, for people.
    pub(crate) output: Text,
    /// When it was found, by the wall clock.
    pub(crate) at: Timestamp,
}

impl CheckResult {
    /// The result of a check before its first run.
    pub(crate) fn pending(at: Timestamp) -> Self {
        Self { status: Status::Pending, code: 0, output: WAITING.into(), at }
    }
}

impl From<Outcome> for CheckResult {
    fn from(Outcome { status, code, output }: Outcome) -> Self {
        Self { status, code, output, at: Timestamp::UNSET }
    }
}

/// What the checks of an allocation say of its health.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CheckHealth {
    /// The number of checks.
    pub(crate) registered: usize,
    /// The number of checks that pass.
    pub(crate) passing: usize,
    /// Since when all of them have passed without interruption, by the wall clock; `None` while some do not.
    pub(crate) passing_since: Option<Timestamp>,
    /// Services with checks that do not pass, by name; the first ones, if there are many.
    pub(crate) unhealthy: Arc<[Text]>,
}

impl CheckHealth {
    /// Since when this number of checks, or more, have all passed.
    pub(crate) fn all_passing_since(&self, expected: usize) -> Option<Timestamp> {
        self.passing_since.filter(|_| self.registered >= expected)
    }
}

/// The results of an allocation's checks.
#[derive(Debug, Default)]
pub(crate) struct AllocResults {
    results: BTreeMap<Text, CheckResult>,
    passing: usize,
    /// The number of checks that do not pass, by service.
    not_passing: BTreeMap<Text, usize>,
    passing_since: Option<Timestamp>,
}

impl AllocResults {
    /// Adds a check with its first result.
    pub(super) fn insert(&mut self, check: &Check, result: CheckResult) {
        self.count(check, result.status);
        self.results.insert(Text::clone(&check.id), result);
    }

    /// Removes a check.
    pub(super) fn remove(&mut self, check: &Check) {
        if let Some(result) = self.results.remove(&check.id) {
            self.discount(check, result.status);
        }
    }

    /// Replaces the result of a check. Returns whether its status has changed.
    pub(super) fn record(&mut self, check: &Check, result: CheckResult) -> bool {
        let status = result.status;
        let Some(known) = self.results.get_mut(&check.id) else { return false };
        let before = std::mem::replace(known, result).status;
        if before == status {
            return false;
        }
        self.discount(check, before);
        self.count(check, status);
        true
    }

    fn count(&mut self, check: &Check, status: Status) {
        if passes(check, status) {
            self.passing = self.passing.saturating_add(1);
        } else {
            let count = self.not_passing.entry(Text::clone(&check.service)).or_default();
            *count = count.saturating_add(1);
        }
    }

    fn discount(&mut self, check: &Check, status: Status) {
        if passes(check, status) {
            self.passing = self.passing.saturating_sub(1);
        } else if let Some(count) = self.not_passing.get_mut(&check.service) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.not_passing.remove(&check.service);
            }
        }
    }

    /// Notes since when all checks pass.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        let all = !self.results.is_empty() && self.not_passing.is_empty();
        self.passing_since = all.then(|| self.passing_since.unwrap_or(now));
    }

    /// The status of a check.
    pub(super) fn status(&self, id: &str) -> Status {
        self.results.get(id).map_or(Status::Pending, |result| result.status)
    }

    /// The result of a check.
    pub(super) fn get(&self, id: &str) -> Option<&CheckResult> {
        self.results.get(id)
    }

    /// All results by the id of the check.
    pub(super) fn all(&self) -> &BTreeMap<Text, CheckResult> {
        &self.results
    }

    /// What the results say of the allocation's health.
    pub(super) fn health(&self) -> CheckHealth {
        CheckHealth {
            registered: self.results.len(),
            passing: self.passing,
            passing_since: self.passing_since,
            unhealthy: self.not_passing.keys().take(NAMED_MAX).cloned().collect(),
        }
    }
}

/// Whether a check passes: success does, and a failure of a check of readiness. A check that has not run does not.
fn passes(check: &Check, status: Status) -> bool {
    match status {
        Status::Success => true,
        Status::Failure => check.mode == Mode::Readiness,
        Status::Pending => false,
    }
}
