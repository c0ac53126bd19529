//! Lists of processor numbers as the kernel writes them, such as `0-2,5`. Pure.

use std::collections::BTreeSet;

use model::text::quoted;

/// Parses a list. An empty text is an empty list.
///
/// # Errors
/// If a part is neither a number nor a range of numbers.
pub(crate) fn parse(text: &str) -> Result<BTreeSet<u16>, String> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let ends = first.trim().parse::<u16>().ok().zip(last.trim().parse::<u16>().ok());
        let ends = ends.filter(|(first, last)| first <= last);
        ends.map(|(first, last)| first..=last).ok_or_else(|| format!("invalid range {}", quoted(part)))
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let ranges = parts.map(range).collect::<Result<Vec<_>, _>>()?;
    Ok(ranges.into_iter().flatten().collect())
}

/// Formats numbers as a list with ranges.
pub(crate) fn format(numbers: impl IntoIterator<Item = u16>) -> String {
    let sorted: Vec<u16> = numbers.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    let runs = sorted.chunk_by(|earlier, later| earlier.checked_add(1) == Some(*later));
    let text = runs.map(|run| match run {
        [only] => only.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    text.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_with_ranges() {
        assert_eq!(parse("0-2, 5,\n").unwrap(), [0, 1, 2, 5].into());
        assert!(parse("").unwrap().is_empty() && parse("\n").unwrap().is_empty());
        assert_eq!(format([5, 1, 0, 2, 2]), "0-2,5");
        assert_eq!(format([]), "");
        for text in ["a", "3-1", "1-", "-1", "70000"] {
            assert_eq!(parse(text).unwrap_err(), format!("invalid range \"{text}\""));
        }
    }
}
