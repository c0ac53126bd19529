//! Sizes in human notation: a number and a unit, such as `500K`, `1.5 MB` or `2MiB`.

/// Parses a size in bytes; `None` if it is invalid or too large. Units without `i` are powers of 1,000.
pub(super) fn read(text: &str) -> Option<usize> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "ki" | "kib" => 1 << 10,
        "m" | "mb" => 1_000_000,
        "mi" | "mib" => 1 << 20,
        "g" | "gb" => 1_000_000_000,
        "gi" | "gib" => 1 << 30,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * f64::from(factor);
    // Below this limit, the float represents whole numbers exactly.
    let is_one = (0.0..=BYTES_MAX).contains(&bytes);
    is_one.then_some(bytes as usize)
}

/// The largest size.
const BYTES_MAX: f64 = (1_u64 << 53) as f64;

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_number_and_a_unit_are_a_size() {
        let sizes = ["0", "17", "17b", "1K", "1 kb", "1KiB", "1.5M", "2MiB", "1g", " 3Gi "].map(read);
        let expected: [usize; 10] =
            [0, 17, 17, 1_000, 1_000, 1_024, 1_500_000, 2 << 20, 1_000_000_000, 3 << 30];
        assert_eq!(sizes, expected.map(Some));
    }

    #[test]
    fn all_else_is_none() {
        for text in ["", "M", "-1K", "1X", "1.2.3M", "1e3", "99999999999999999999G", "1 K B"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
