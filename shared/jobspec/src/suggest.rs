//! Suggestions for misspelt names.

/// Maximum number of edits between a misspelt name and its suggestion.
const EDITS_MAX: usize = 2;

/// The most similar name, if any is similar enough.
pub(crate) fn nearest<'n>(given: &str, names: &[&'n str]) -> Option<&'n str> {
    let within = |name: &&str| name.len().abs_diff(given.len()) <= EDITS_MAX;
    let distances = names.iter().filter(|name| within(name)).map(|name| (edits(given, name), *name));
    let (distance, name) = distances.min()?;
    (distance <= EDITS_MAX && distance < name.len()).then_some(name)
}

/// The number of insertions, deletions and replacements of bytes that turn `from` into `to`.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let names = ["cpu", "memory", "memory_max", "cores"];
        assert_eq!(nearest("cpus", &names), Some("cpu"));
        assert_eq!(nearest("memroy", &names), Some("memory"));
        assert_eq!(nearest("disk", &names), None);
        assert_eq!(nearest("a", &["to"]), None);
    }
}
