//! The source of a job, which is stored for display up to a maximum size (N-27, http-api §11.1).

use std::sync::Arc;

use api_types::JobSubmission;
use model::job::JobSource;

use super::{Rules, Warnings};

/// The source of a registration, if there is one. If it is too large, it is dropped with a warning.
pub(crate) fn source(
    submission: Option<JobSubmission>,
    rules: &Rules,
    warnings: &mut Warnings,
) -> Option<Arc<JobSource>> {
    let source = JobSource::from_api(submission?)?;
    let (size, max) = (source.size(), rules.source_bytes_max);
    if size <= max {
        return Some(Arc::new(source));
    }
    let (size, max) = (human_size(size), human_size(max));
    warnings.add(format!("job source size of {size} exceeds maximum of {max} and will be discarded"));
    None
}

/// Formats a size: `17 B`, `1.5 kB`, `23 MB`.
fn human_size(bytes: usize) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    const STEP: u128 = 1_000;
    let bytes = bytes as u128;
    let mut unit = 0;
    let mut size: u128 = 1;
    while bytes >= size * STEP && unit + 1 < UNITS.len() {
        (unit, size) = (unit + 1, size * STEP);
    }
    let tenths = (bytes * 10 + size / 2) / size;
    match (unit, tenths) {
        (0, _) => format!("{bytes} B"),
        (_, ..100) => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
        (..) => format!("{} {}", (tenths + 5) / 10, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str, variables: &str, max: usize) -> (bool, String) {
        let submission = JobSubmission {
            source: Some(text.to_owned()),
            variables: Some(variables.to_owned()),
            ..JobSubmission::default()
        };
        let rules = Rules { source_bytes_max: max, ..crate::admission::tests::RULES };
        let mut warnings = Warnings::default();
        let stored = source(Some(submission), &rules, &mut warnings);
        (stored.is_some(), warnings.to_string())
    }

    #[test]
    fn a_source_that_is_too_large_is_a_warning() {
        assert_eq!(stored("12345", "67890", 10), (true, String::new()));
        let warning = "1 warning:\n\n* job source size of 11 B exceeds maximum of 10 B and will be discarded";
        assert_eq!(stored("12345", "678901", 10), (false, warning.to_owned()));
        let (is_stored, warning) = stored(&"x".repeat(1_500), "", 1_000);
        assert!(!is_stored && warning.contains("size of 1.5 kB exceeds maximum of 1.0 kB"), "{warning}");
        assert_eq!(stored("", "a = 1", 1), (false, String::new()), "there is no source");
    }

    #[test]
    fn sizes_are_for_people() {
        let shown =
            [0, 999, 1_000, 1_049, 1_050, 9_949, 9_951, 10_000, 82_854_982, usize::MAX].map(human_size);
        let expected =
            ["0 B", "999 B", "1.0 kB", "1.0 kB", "1.1 kB", "9.9 kB", "10 kB", "10 kB", "83 MB", "18 EB"];
        assert_eq!(shown, expected);
    }
}
