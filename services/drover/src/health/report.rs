//! The report that the health endpoint answers and `drover health` reads.

use serde::{Deserialize, Serialize};

/// The answer to `/live` and `/ready`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// `live`, `not live`, `ready` or `not ready`.
    pub(crate) status: String,
    /// The name of the process.
    pub(crate) service: String,
    /// `active` or `standby` for services that run as one active instance with standbys, otherwise empty.
    pub(crate) role: String,
    /// The results of all checks.
    pub(crate) checks: Vec<Check>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) ok: bool,
    /// The result as text.
    pub(crate) message: String,
}

impl Report {
    /// The status and all failed checks, in one line.
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

    /// Whether all checks passed.
    pub(crate) fn is_ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}
