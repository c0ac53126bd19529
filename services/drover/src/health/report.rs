//! What the health endpoint answers, and `drover health` reads.

use serde::{Deserialize, Serialize};

/// The answer to `/live` and `/ready`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// `live`, `not live`, `ready` or `not ready`.
    pub(crate) status: String,
    /// What the process calls itself.
    pub(crate) service: String,
    /// `active` or `standby` where one process of several works at a time, and otherwise nothing.
    pub(crate) role: String,
    /// What was looked at.
    pub(crate) checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) ok: bool,
    /// How it stands, for people.
    pub(crate) message: String,
}

impl Report {
    /// All that is wrong, or that nothing is, in one line.
    pub(crate) fn summary(&self) -> String {
        let Self { status, role, .. } = self;
        let bad: Vec<String> = self
            .checks
            .iter()
            .filter(|check| !check.ok)
            .map(|check| format!("{}: {}", check.name, check.message))
            .collect();
        match (bad.is_empty(), role.is_empty()) {
            (true, true) => status.clone(),
            (true, false) => format!("{status} ({role})"),
            (false, _) => format!("{status}: {}", bad.join("; ")),
        }
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}
