//! Properties of parsing that hold for every text: it does not panic, positions lie in the text, time is proportional to
//! size, and written trees are parsed back.

use hcl1::{Body, Kind, Position, Syntax};
use proptest::prelude::*;

/// Valid and invalid fragments of texts in this grammar.
const PIECES: &[&str] = &[
    "a",
    "b.c",
    "=",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "\"x\"",
    "\\",
    "${",
    "$",
    "\n",
    "\r\n",
    " ",
    "\t",
    "#",
    "//",
    "/*",
    "*/",
    "<<EOF\n",
    "<<-EOF\n",
    "EOF\n",
    "  EOF\n",
    "<<",
    "0x",
    "1",
    "-",
    "1.5",
    "e",
    "true",
    "null",
    ":",
    "{\"",
    "\":",
    "\\u00e9",
    "\\ud83d",
    "\\101",
    "\\x",
    "\u{e9}",
    "\u{1f600}",
    "'",
    ";",
    "\u{0}",
    "\u{feff}",
];

fn check(text: &str) {
    for syntax in [Syntax::Hcl, Syntax::Json] {
        match hcl1::parse(text.as_bytes(), syntax) {
            Ok(body) => check_body(text, &body),
            Err(error) => {
                assert!(is_in(text, error.at), "{text:?}: {error}");
                assert!(!error.text.is_empty());
            }
        }
    }
}

fn check_body(text: &str, body: &Body) {
    for item in &body.items {
        assert!(is_in(text, item.at) && is_in(text, item.value.at), "{text:?}: {item:?}");
        if let Kind::Body(body) = &item.value.kind {
            check_body(text, body);
        }
    }
}

/// Whether a position is that of a character, or just after the text.
fn is_in(text: &str, at: Position) -> bool {
    let line = text.split('\n').nth(at.line as usize - 1);
    line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&(at.column as usize)))
}

#[test]
fn any_mixture_of_pieces_is_parsed_or_refused_in_its_place() {
    arbtest::arbtest(|source| {
        let mut text = String::new();
        while !source.is_empty() {
            text.push_str(source.choose(PIECES)?);
        }
        check(&text);
        Ok(())
    });
}

#[test]
fn any_bytes_are_parsed_or_refused() {
    arbtest::arbtest(|source| {
        let bytes = source.bytes(source.len())?;
        let _ = hcl1::parse(bytes, Syntax::Hcl);
        let _ = hcl1::parse(bytes, Syntax::Json);
        Ok(())
    });
}

/// Texts that would take hours in total if any step scanned all of the text backwards or forwards.
#[test]
fn large_texts_take_no_longer_than_their_size() {
    let size = 1 << 17;
    for piece in [
        "{",
        "[",
        "\"",
        "\\",
        "#",
        "/*",
        "/",
        "<<",
        "<<E\n",
        "-",
        "1",
        "e",
        ".",
        "${",
        "a ",
        "a\n",
        "a = \"\" ",
        "\n",
        ",",
        "a=<<E\nE\n",
        "{\"a\":",
        "[\"\",",
        "\"\\u",
    ] {
        for before in
            ["", "a = ", "a = \"", "a = \"${", "a = <<EOF\n", "a = [", "{\"a\": \"", "{\"a\": [", "/*"]
        {
            let text = format!("{before}{}", piece.repeat((size - before.len()) / piece.len()));
            let _ = hcl1::parse(text.as_bytes(), Syntax::Hcl);
            let _ = hcl1::parse(text.as_bytes(), Syntax::Json);
        }
    }
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        ".*".prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::btree_map(".*", inner, 0..6)
                .prop_map(|map| { serde_json::Value::Object(map.into_iter().collect()) }),
        ]
    })
}

/// A string in the notation of HCL.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '\n' => "\\n".to_owned(),
        '"' | '\\' => format!("\\{c}"),
        // Keeps `$` from starting an interpolation.
        '$' => "\\u0024".to_owned(),
        other => other.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn hcl_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => quoted(text),
        serde_json::Value::Array(values) => {
            format!("[{}]", values.iter().map(hcl_of).collect::<Vec<_>>().join(","))
        }
        serde_json::Value::Object(members) => format!("{{{}}}", items_of(members)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
            value.to_string()
        }
    }
}

fn items_of(members: &serde_json::Map<String, serde_json::Value>) -> String {
    members.iter().map(|(key, value)| format!("{} = {} ", quoted(key), hcl_of(value))).collect()
}

fn json_of(body: &Body) -> serde_json::Value {
    serde_json::Value::Object(
        body.items.iter().map(|item| (item.key.clone(), value_of(&item.value))).collect(),
    )
}

fn value_of(value: &hcl1::Value) -> serde_json::Value {
    match &value.kind {
        Kind::Text(text) => text.clone().into(),
        Kind::Number(number) => match number.kind {
            hcl1::NumberKind::Integer(number) => number.into(),
            hcl1::NumberKind::Float(number) => number.into(),
        },
        Kind::Bool(value) => (*value).into(),
        Kind::List(values) => values.iter().map(value_of).collect(),
        Kind::Body(body) => json_of(body),
        Kind::Null => serde_json::Value::Null,
    }
}

proptest! {
    #[test]
    fn written_values_are_parsed_back(members in proptest::collection::btree_map(".*", value(), 0..6)) {
        let members: serde_json::Map<_, _> = members.into_iter().collect();
        let text = items_of(&members);
        let expected = serde_json::Value::Object(members);
        let read = hcl1::parse(text.as_bytes(), Syntax::Hcl).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(json_of(&read), expected.clone());
        let read = hcl1::parse(format!("{expected:#}").as_bytes(), Syntax::Json)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(json_of(&read), expected);
    }
}
