//! Typed values: device attributes, and the literals of constraints on them (`docs/rules/scheduling.md` ).

use std::cmp::Ordering;

use model::node::Attribute;

/// The quantity that a unit measures. Numbers of different bases cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Plain,
    Bytes,
    BytesPerSecond,
    Hertz,
    Watts,
}

const KIBI: f64 = 1024.0;

/// All units, each with its base and factor.
const UNITS: [(&str, Base, f64); 33] = [
    ("KiB", Base::Bytes, KIBI),
    ("MiB", Base::Bytes, KIBI * KIBI),
    ("GiB", Base::Bytes, KIBI * KIBI * KIBI),
    ("TiB", Base::Bytes, KIBI * KIBI * KIBI * KIBI),
    ("PiB", Base::Bytes, KIBI * KIBI * KIBI * KIBI * KIBI),
    ("EiB", Base::Bytes, KIBI * KIBI * KIBI * KIBI * KIBI * KIBI),
    ("kB", Base::Bytes, 1e3),
    ("KB", Base::Bytes, 1e3),
    ("MB", Base::Bytes, 1e6),
    ("GB", Base::Bytes, 1e9),
    ("TB", Base::Bytes, 1e12),
    ("PB", Base::Bytes, 1e15),
    ("EB", Base::Bytes, 1e18),
    ("KiB/s", Base::BytesPerSecond, KIBI),
    ("MiB/s", Base::BytesPerSecond, KIBI * KIBI),
    ("GiB/s", Base::BytesPerSecond, KIBI * KIBI * KIBI),
    ("TiB/s", Base::BytesPerSecond, KIBI * KIBI * KIBI * KIBI),
    ("PiB/s", Base::BytesPerSecond, KIBI * KIBI * KIBI * KIBI * KIBI),
    ("EiB/s", Base::BytesPerSecond, KIBI * KIBI * KIBI * KIBI * KIBI * KIBI),
    ("kB/s", Base::BytesPerSecond, 1e3),
    ("KB/s", Base::BytesPerSecond, 1e3),
    ("MB/s", Base::BytesPerSecond, 1e6),
    ("GB/s", Base::BytesPerSecond, 1e9),
    ("TB/s", Base::BytesPerSecond, 1e12),
    ("PB/s", Base::BytesPerSecond, 1e15),
    ("EB/s", Base::BytesPerSecond, 1e18),
    ("MHz", Base::Hertz, 1e6),
    ("GHz", Base::Hertz, 1e9),
    ("mW", Base::Watts, 1e-3),
    ("W", Base::Watts, 1.0),
    ("kW", Base::Watts, 1e3),
    ("MW", Base::Watts, 1e6),
    ("GW", Base::Watts, 1e9),
];

/// A typed value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(Number),
    Bool(bool),
    Text(String),
}

/// A number in the base of its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    value: f64,
    /// The exact number, if it is an integer without a unit, because a float cannot represent all integers.
    whole: Option<i64>,
    base: Base,
}

impl Value {
    /// The value of a device attribute; `None` if the attribute is empty.
    pub(super) fn of(attribute: &Attribute) -> Option<Self> {
        let unit = attribute.unit.as_deref().unwrap_or_default();
        if let Some(value) = attribute.int {
            return Number::new(value as f64, Some(value), unit).map(Self::Number);
        }
        if let Some(value) = attribute.float {
            return Number::new(value, None, unit).map(Self::Number);
        }
        attribute.bool.map(Self::Bool).or_else(|| attribute.string.clone().map(Self::Text))
    }

    /// Parses the literal of a constraint: a number with an optional unit, a bool, or otherwise a text.
    pub(super) fn parse(text: &str) -> Self {
        if let Some(number) = Number::parse(text, "") {
            return Self::Number(number);
        }
        match text {
            "t" | "T" | "true" | "TRUE" | "True" => return Self::Bool(true),
            "f" | "F" | "false" | "FALSE" | "False" => return Self::Bool(false),
            _ => {}
        }
        // The longest unit that the text ends with, because some units end with another: `MB/s` and `kW` with `W`.
        let of_text = UNITS.iter().filter(|(unit, _, _)| text.ends_with(unit));
        let longest = of_text.max_by_key(|(unit, _, _)| unit.len());
        let number =
            longest.and_then(|(unit, _, _)| Number::parse(text[..text.len() - unit.len()].trim_end(), unit));
        number.map_or_else(|| Self::Text(text.to_owned()), Self::Number)
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Bool(_) => None,
        }
    }

    /// The value as the text of a version.
    pub(super) fn as_version(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => number.whole.map(|whole| whole.to_string()),
            Self::Bool(_) => None,
        }
    }

    /// Compares two values; `None` if they cannot be compared. Two different bools compare as *greater* in either
    /// order.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => left.compare(right),
            (Self::Bool(left), Self::Bool(right)) => {
                Some(if left == right { Ordering::Equal } else { Ordering::Greater })
            }
            (Self::Text(left), Self::Text(right)) => Some(left.cmp(right)),
            (Self::Number(_) | Self::Bool(_) | Self::Text(_), _) => None,
        }
    }
}

impl Number {
    fn new(value: f64, whole: Option<i64>, unit: &str) -> Option<Self> {
        if unit.is_empty() {
            return Some(Self { value, whole, base: Base::Plain });
        }
        let (_, base, factor) = *UNITS.iter().find(|(known, _, _)| *known == unit)?;
        Some(Self { value: value * factor, whole: None, base })
    }

    fn parse(text: &str, unit: &str) -> Option<Self> {
        match text.parse::<i64>() {
            Ok(whole) => Self::new(whole as f64, Some(whole), unit),
            Err(_) => Self::new(text.parse().ok()?, None, unit),
        }
    }

    fn compare(&self, other: &Self) -> Option<Ordering> {
        if self.base != other.base {
            return None;
        }
        match (self.whole, other.whole) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => self.value.partial_cmp(&other.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(left: &str, right: &str) -> Option<Ordering> {
        Value::parse(left).compare(&Value::parse(right))
    }

    #[test]
    fn numbers_are_compared_within_their_base() {
        assert_eq!(compare("2 GiB", "2048 MiB"), Some(Ordering::Equal));
        assert_eq!(compare("1.5GHz", "1400 MHz"), Some(Ordering::Greater));
        assert_eq!(compare("1 kW", "2 W"), Some(Ordering::Greater));
        assert_eq!(compare("1 MB", "1 MB/s"), None);
        assert_eq!(compare("1", "1 MB"), None);
        assert_eq!(compare("9007199254740993", "9007199254740992"), Some(Ordering::Greater));
        assert_eq!(compare("2", "1.5"), Some(Ordering::Greater));
    }

    #[test]
    fn truth_values_and_texts() {
        assert_eq!(compare("true", "T"), Some(Ordering::Equal));
        assert_eq!(compare("false", "true"), Some(Ordering::Greater));
        assert_eq!(compare("abc", "abd"), Some(Ordering::Less));
        assert_eq!(compare("abc", "1"), None);
        assert_eq!(Value::parse("fast GHz"), Value::Text("fast GHz".to_owned()));
    }

    #[test]
    fn attributes_that_nodes_report_are_compared_with_their_units() {
        let attribute = Attribute { int: Some(11_264), unit: Some("MiB".to_owned()), ..Attribute::default() };
        let reported = Value::of(&attribute).unwrap();
        assert_eq!(reported.compare(&Value::parse("11 GiB")), Some(Ordering::Equal));
        assert_eq!(Value::of(&Attribute::default()), None);
    }
}
