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
    /// Whether nothing is wrong.
    pub(crate) fn is_ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}
