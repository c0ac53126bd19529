//! Suggestions for misspelt names.

/// Maximum number of edits between a misspelt name and its suggestion.
const EDITS_MAX: usize = 2;
/// Maximum length of a name for which suggestions are sought, in bytes. A comparison takes the square of it.
const NAME_BYTES_MAX: usize = 64;
/// Maximum number of names that are compared.
pub(crate) const NAMES_MAX: usize = 200;

/// The most similar of the first [`NAMES_MAX`] names, if any is similar enough.
pub(crate) fn nearest<'n>(given: &str, names: &[&'n str]) -> Option<&'n str> {
    let distances = similar_in_length(given, names).map(|name| (edits(given, name), name));
    let (distance, name) = distances.min()?;
    (distance <= EDITS_MAX && distance < name.len()).then_some(name)
}

/// The cost of [`nearest`], in steps of an evaluation.
pub(crate) fn steps(given: &str, names: &[&str]) -> usize {
    /// Number of compared characters that take as long as one step.
    const CHARACTERS_PER_STEP: usize = 64;
    let compared: usize = similar_in_length(given, names).map(|name| name.len() * given.len()).sum();
    names.len().min(NAMES_MAX) / CHARACTERS_PER_STEP + compared / CHARACTERS_PER_STEP
}

fn similar_in_length<'n>(given: &str, names: &[&'n str]) -> impl Iterator<Item = &'n str> {
    let length = given.len();
    let names = if length > NAME_BYTES_MAX { &[][..] } else { &names[..names.len().min(NAMES_MAX)] };
    names.iter().copied().filter(move |name| name.len().abs_diff(length) <= EDITS_MAX)
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

    #[test]
    fn long_and_many_names_are_not_compared() {
        let (long, longer) = ("a".repeat(1 << 20), "a".repeat((1 << 20) + 1));
        assert_eq!(nearest(&long, &[longer.as_str()]), None);
        assert_eq!(steps(&long, &[longer.as_str()]), 0);
        let many = vec!["abcdef"; 1_000_000];
        assert_eq!(nearest("abcdeg", &many), Some("abcdef"));
        assert!(steps("abcdeg", &many) < 200);
    }
}
