//! Specification files of namespaces, node pools and volumes: HCL in its first version (`docs/rules/agent.md` A-33), or the JSON of
//! the API. Reads them from a path or standard input.

use std::io::Read as _;

use anyhow::{Context as _, anyhow, bail};
use hcl1::{Body, Kind, Syntax, Value as Parsed};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The name of standard input.
const STDIN: &str = "-";

/// A key of a specification: its name in HCL, its name in the API, and the form of its value.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) api: &'static str,
    pub(super) form: Form,
}

/// The form of a value.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// A text; a number or bool counts as its text.
    Text,
    Bool,
    Texts,
    /// A block of texts by name.
    Map,
    /// A size in bytes, as a number or with a unit.
    Bytes,
    /// A block with these keys.
    Block(&'static [Key]),
    /// A list of blocks with these keys.
    Blocks(&'static [Key]),
}

/// Reads a file; `-` is standard input.
///
/// # Errors
/// If it cannot be read, or is larger than a specification may be.
pub(super) fn read(file: &str) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let limit = u64::try_from(hcl1::BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let result = match file {
        STDIN => std::io::stdin().lock().take(limit).read_to_end(&mut text),
        path => std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text)),
    };
    result.with_context(|| format!("Failed to read file \"{file}\""))?;
    if text.len() > hcl1::BYTES_MAX {
        bail!("Failed to read file \"{file}\": it has more than {} bytes", hcl1::BYTES_MAX);
    }
    Ok(text)
}

/// An object of the API from JSON in its form.
///
/// # Errors
/// If the text is not such JSON.
pub(super) fn from_json<T: DeserializeOwned>(text: &[u8]) -> anyhow::Result<T> {
    Ok(api_types::decode::from_slice(text)?)
}

/// Parses HCL, or the same structure in JSON.
///
/// # Errors
/// The first error, with its position.
pub(super) fn parse(file: &str, text: &[u8]) -> anyhow::Result<Body> {
    Ok(hcl1::parse(text, Syntax::of(file, text))?)
}

/// An object of the API from the body of a specification.
///
/// # Errors
/// If there are unknown keys, or values of another form.
pub(super) fn object<T: DeserializeOwned>(body: &Body, keys: &[Key]) -> anyhow::Result<T> {
    Ok(serde_json::from_value(Value::Object(members(body, keys)?))?)
}

fn members(body: &Body, keys: &[Key]) -> anyhow::Result<Map<String, Value>> {
    let mut unknown: Vec<&str> = Vec::new();
    let mut members = Map::new();
    for item in &body.items {
        let Some(key) = keys.iter().find(|key| key.name == item.key) else {
            unknown.push(&item.key);
            continue;
        };
        let value = value(&item.value, key.form)
            .ok_or_else(|| anyhow!("At {}: {} cannot be {}", item.at, key.name, item.value.kind.name()))?;
        match (members.get_mut(key.api), value?) {
            // A block that is given twice is merged (A-33.6).
            (Some(Value::Object(earlier)), Value::Object(later)) => earlier.extend(later),
            (Some(Value::Array(earlier)), Value::Array(later)) if matches!(key.form, Form::Blocks(_)) => {
                earlier.extend(later);
            }
            (Some(_), _) => bail!("At {}: {} is given twice", item.at, key.name),
            (None, value) => {
                members.insert(key.api.to_owned(), value);
            }
        }
    }
    if unknown.is_empty() {
        return Ok(members);
    }
    unknown.sort_unstable();
    unknown.dedup();
    bail!("unexpected keys {}", unknown.join(", "))
}

/// A value in the form of the API. `None` if it has another form.
fn value(value: &Parsed, form: Form) -> Option<anyhow::Result<Value>> {
    Some(match (form, &value.kind) {
        (Form::Text, kind) => Ok(Value::String(text(kind)?)),
        (Form::Bool, Kind::Bool(value)) => Ok(Value::Bool(*value)),
        (Form::Bool, Kind::Text(text)) => Ok(Value::Bool(text.parse().ok()?)),
        (Form::Texts, Kind::List(items)) => {
            let texts = items.iter().map(|item| text(&item.kind).map(Value::String));
            Ok(Value::Array(texts.collect::<Option<_>>()?))
        }
        (Form::Map, Kind::Body(body)) => {
            let texts = body.items.iter();
            let texts = texts.map(|item| Some((item.key.clone(), Value::String(text(&item.value.kind)?))));
            Ok(Value::Object(texts.collect::<Option<_>>()?))
        }
        (Form::Bytes, kind) => Ok(Value::from(bytes(&text(kind)?)?)),
        (Form::Block(keys), Kind::Body(body)) => members(body, keys).map(Value::Object),
        (Form::Blocks(keys), Kind::Body(body)) => {
            members(body, keys).map(|members| Value::Array(vec![Value::Object(members)]))
        }
        (Form::Bool | Form::Texts | Form::Map | Form::Block(_) | Form::Blocks(_), _) => return None,
    })
}

/// A size in bytes: a whole number, with a unit of powers of 1000 (`kB`, `MB`, …) or 1024 (`KiB`, `MiB`, …).
fn bytes(text: &str) -> Option<i64> {
    const PREFIXES: [char; 6] = ['k', 'm', 'g', 't', 'p', 'e'];
    let digits = text.trim().trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let number: i64 = digits.parse().ok()?;
    let unit = text.trim().strip_prefix(digits)?.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, 1_024_i64),
        None => (unit, 1_000),
    };
    let mut letters = prefix.chars();
    let power = match (letters.next(), letters.next()) {
        (None, None) if base == 1_000 => 0,
        (Some(letter), None) => PREFIXES.iter().position(|known| *known == letter)?.checked_add(1)?,
        (_, _) => return None,
    };
    let factor = base.checked_pow(u32::try_from(power).ok()?)?;
    number.checked_mul(factor).filter(|bytes| *bytes >= 0)
}

/// The text of a scalar (A-33.5).
fn text(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Text(text) => Some(text.clone()),
        Kind::Number(number) => Some(number.text.clone()),
        Kind::Bool(value) => Some(value.to_string()),
        Kind::List(_) | Kind::Body(_) | Kind::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use api_types::Namespace;

    use super::*;

    const KEYS: &[Key] = &[
        Key { name: "name", api: "Name", form: Form::Text },
        Key { name: "meta", api: "Meta", form: Form::Map },
        Key { name: "capabilities", api: "Capabilities", form: Form::Block(DRIVERS) },
    ];
    const DRIVERS: &[Key] =
        &[Key { name: "enabled_task_drivers", api: "EnabledTaskDrivers", form: Form::Texts }];

    fn read(text: &str) -> Result<Namespace, String> {
        let body = parse("team.hcl", text.as_bytes()).map_err(|error| error.to_string())?;
        object(&body, KEYS).map_err(|error| error.to_string())
    }

    #[test]
    fn a_specification_becomes_an_object_of_the_api() {
        // A-33.2, A-33.5, A-33.6.
        let found = read(
            r#"name = "team" meta { a = 5 } meta { b = true }
               capabilities { enabled_task_drivers = ["docker", "exec"] }"#,
        )
        .unwrap();
        assert_eq!(found.name.as_deref(), Some("team"));
        let meta = found.meta.unwrap();
        assert_eq!((meta["a"].as_str(), meta["b"].as_str()), ("5", "true"));
        let drivers = found.capabilities.unwrap().enabled_task_drivers.unwrap();
        assert_eq!(drivers, ["docker", "exec"]);
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("10", Some(10)),
            ("10B", Some(10)),
            ("2kB", Some(2_000)),
            ("2 KiB", Some(2_048)),
            ("10GiB", Some(10 << 30)),
            ("20G", Some(20_000_000_000)),
            ("", None),
            ("GiB", None),
            ("1.5G", None),
            ("1iB", None),
            ("1XB", None),
            ("-1", None),
            ("9E", Some(9_000_000_000_000_000_000)),
            ("10E", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn what_does_not_belong_into_a_specification_is_named() {
        // A-33.7.
        assert_eq!(read("b = 1\na = 2").unwrap_err(), "unexpected keys a, b");
        assert_eq!(read("capabilities { x = 1 }").unwrap_err(), "unexpected keys x");
        assert!(read("name = []").unwrap_err().ends_with("name cannot be a list"));
        assert!(read("name = \"a\"\nname = \"b\"").unwrap_err().ends_with("name is given twice"));
    }
}
