//! The conformance runner. It reads recorded cluster states (`recorded`), runs our scheduler on them (`run`), brings
//! both results into one form (`normalize`), and compares them as strictly as the records allow (`compare`, `metrics`;
//! `quirks` lists intended differences). It also checks that the plan is valid in itself (`checker`).

pub mod checker;
mod compare;
pub mod json;
mod metrics;
mod normalize;
mod quirks;
mod resources;
mod run;

use std::fmt;

pub use quirks::{EXEMPTIONS, Exemption};
pub use run::{RunResult, apply_plan_at, run};

use crate::recorded::Case;

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The plan is the recorded one, as far as the case fixes it.
    Passed,
    /// The plan differs, a line for each difference.
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
    let differences = match quirks::exemptions(case) {
        Err(unknown) => vec![format!("quirk {unknown} is not in the table of quirks")],
        Ok(exempt) => match run(case, eval) {
            Ok(result) => compare::differences(case, &result, &exempt),
            Err(error) => vec![format!("no plan: {error}")],
        },
    };
    if differences.is_empty() { Verdict::Passed } else { Verdict::Failed(differences) }
}
