//! Compares the plans for recorded cluster states with the recorded plans.

use tests::conformance::{Verdict, check};
use tests::recorded::cases;

#[test]
fn recorded_cases_get_their_plans() {
    let mut seen = 0;
    let cases = cases().filter(|case| case.eval().is_some()).inspect(|_| seen += 1);
    let failed: Vec<String> = cases
        .filter_map(|case| match check(&case) {
            Verdict::Passed => None,
            failed @ Verdict::Failed(_) => Some(format!("{}, {}: {failed}", case.name, case.json["about"])),
        })
        .collect();
    assert!(failed.is_empty(), "{} of {seen} failed\n{}", failed.len(), failed.join("\n"));
    assert!(seen > 1_000, "only {seen} cases were found");
}
