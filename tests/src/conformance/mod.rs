//! The conformance runner: recorded cluster states (`recorded`), what our scheduler makes of them (`run`), both brought
//! into one form (`form`) and compared as strictly as the records allow (`compare`, `metrics`; `quirks` for what we do
//! otherwise on purpose), and whether the plan is right in itself (`checker`).

pub mod checker;
mod compare;
mod form;
pub mod json;
mod metrics;
mod quirks;
mod resources;
mod run;

use std::fmt;

pub use quirks::{FREED, Freed};
pub use run::{Ran, run, taken};

use crate::recorded::Case;

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The plan is the recorded one, as far as that is fixed.
    Passed,
    /// It is not, a line for each difference.
    Failed(Vec<String>),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(differences) => write!(f, "failed\n    {}", differences.join("\n    ")),
        }
    }
}

/// Runs one case.
pub fn check(case: &Case) -> Verdict {
    let Some(eval) = case.eval() else {
        return Verdict::Failed(vec!["the case has no evaluation".to_owned()]);
    };
    let differences = match quirks::freed(case) {
        Err(unknown) => vec![format!("quirk {unknown} is not in the table of quirks")],
        Ok(freed) => match run(case, eval) {
            Ok(ran) => compare::differences(case, &ran, &freed),
            Err(error) => vec![format!("no plan: {error}")],
        },
    };
    if differences.is_empty() { Verdict::Passed } else { Verdict::Failed(differences) }
}
