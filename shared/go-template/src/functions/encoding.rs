//! Encodings and digests: Base64, JSON, YAML, TOML, SHA-256, MD5.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use gotmpl::Value;
use md5::Md5;
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::Named;
use super::texts::changed;
use crate::arguments::Arguments;
use crate::limits::JSON_BYTES_MAX;
use crate::value::{from_json, string, to_json};

/// The functions of this module.
pub(super) const FUNCTIONS: &[Named] = &[
    ("base64Decode", |_, arguments| decoded(arguments, |text| BASE64_STANDARD.decode(text))),
    ("base64Encode", |_, arguments| changed(arguments, |text| BASE64_STANDARD.encode(text))),
    ("base64URLDecode", |_, arguments| decoded(arguments, |text| BASE64_URL_SAFE.decode(text))),
    ("base64URLEncode", |_, arguments| changed(arguments, |text| BASE64_URL_SAFE.encode(text))),
    ("hmacSHA256Hex", |_, arguments| {
        arguments.count(2, 2)?;
        Ok(string(hmac_sha256_hex(arguments.text(0)?.as_bytes(), arguments.text(1)?.as_bytes())))
    }),
    ("md5sum", |_, arguments| changed(arguments, |text| hex(&Md5::digest(text)))),
    ("parseJSON", |_, arguments| parse_json(arguments)),
    ("sha256Hex", |_, arguments| changed(arguments, |text| hex(&Sha256::digest(text)))),
    ("toJSON", |_, arguments| encoded(arguments, |json| Ok(escaped(&json.to_string())))),
    ("toJSONPretty", |_, arguments| encoded(arguments, |json| Ok(escaped(&format!("{json:#}"))))),
    ("toTOML", |_, arguments| encoded(arguments, toml)),
    ("toUnescapedJSON", |_, arguments| encoded(arguments, |json| Ok(json.to_string()))),
    ("toUnescapedJSONPretty", |_, arguments| encoded(arguments, |json| Ok(format!("{json:#}")))),
    ("toYAML", |_, arguments| encoded(arguments, |json| Ok(yaml(json)))),
];

/// The block size of SHA-256, in bytes.
const BLOCK_BYTES: usize = 64;

pub(super) fn decoded(
    arguments: Arguments<'_>,
    decode: fn(&str) -> Result<Vec<u8>, base64::DecodeError>,
) -> Result<Value, String> {
    arguments.count(1, 1)?;
    let bytes = decode(&arguments.text(0)?).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "the decoded bytes are not a text".to_owned())?;
    Ok(string(text))
}

fn encoded(arguments: Arguments<'_>, encode: fn(&Json) -> Result<String, String>) -> Result<Value, String> {
    arguments.count(1, 1)?;
    encode(&to_json(arguments.value(0))).map(string)
}

fn parse_json(arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(1, 1)?;
    let text = arguments.text(0)?;
    if text.is_empty() {
        return Ok(from_json(&Json::Object(serde_json::Map::new())));
    }
    if text.len() > JSON_BYTES_MAX {
        return Err(format!("the text is longer than {JSON_BYTES_MAX} bytes"));
    }
    let json: Json = serde_json::from_str(&text).map_err(|error| format!("the text is not JSON: {error}"))?;
    Ok(from_json(&json))
}

/// Escapes the characters in JSON that Go's encoder escapes for HTML.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The keyed digest of RFC 2104.
fn hmac_sha256_hex(message: &[u8], key: &[u8]) -> String {
    let mut block = [0; BLOCK_BYTES];
    let hashed = Sha256::digest(key).to_vec();
    let key = if key.len() > BLOCK_BYTES { hashed.as_slice() } else { key };
    for (place, byte) in block.iter_mut().zip(key) {
        *place = *byte;
    }
    let padded = |pad: u8| block.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
    let inner = Sha256::digest([&padded(0x36), message].concat()).to_vec();
    hex(&Sha256::digest([padded(0x5c), inner].concat()))
}

/// A document of YAML, without a newline at its end.
fn yaml(json: &Json) -> String {
    let mut lines = Vec::new();
    match json {
        Json::Object(members) if !members.is_empty() => yaml_block(json, 0, "", &mut lines),
        Json::Array(items) if !items.is_empty() => yaml_block(json, 0, "", &mut lines),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            lines.push(yaml_scalar(json))
        }
    }
    lines.join("\n")
}

/// Writes the lines of a list or map. `first` is what the first line begins with instead of spaces.
fn yaml_block(json: &Json, depth: usize, first: &str, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let mut begin = if first.is_empty() { indent.clone() } else { first.to_owned() };
    let mut entry = |head: String, value: &Json, lines: &mut Vec<String>| {
        let is_block = matches!(value, Json::Object(members) if !members.is_empty())
            || matches!(value, Json::Array(items) if !items.is_empty());
        let begin = std::mem::replace(&mut begin, indent.clone());
        let deeper = depth.saturating_add(1);
        match (is_block, head.as_str()) {
            (true, "-") => yaml_block(value, deeper, &format!("{begin}- "), lines),
            (true, _) => {
                lines.push(format!("{begin}{head}"));
                yaml_block(value, deeper, "", lines);
            }
            (false, _) => lines.push(format!("{begin}{head} {}", yaml_scalar(value))),
        }
    };
    match json {
        Json::Object(members) => {
            for (key, value) in members {
                entry(format!("{}:", yaml_text(key)), value, lines);
            }
        }
        Json::Array(items) => {
            for value in items {
                entry("-".to_owned(), value, lines);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn yaml_scalar(json: &Json) -> String {
    match json {
        Json::String(text) => yaml_text(text),
        Json::Array(_) => "[]".to_owned(),
        Json::Object(_) => "{}".to_owned(),
        Json::Null | Json::Bool(_) | Json::Number(_) => json.to_string(),
    }
}

/// A text as it stands if nothing else could be meant, and in quotes otherwise.
fn yaml_text(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let begins_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_word = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if begins_plain && text.chars().all(is_plain) && !is_word {
        return text.to_owned();
    }
    Json::from(text).to_string()
}

/// A document of TOML, without a newline at its end.
fn toml(json: &Json) -> Result<String, String> {
    let Json::Object(members) = json else { return Err("argument 1 must be a map".to_owned()) };
    let mut lines = Vec::new();
    toml_table(members, "", &mut lines);
    Ok(lines.join("\n"))
}

fn toml_table(members: &serde_json::Map<String, Json>, path: &str, lines: &mut Vec<String>) {
    let is_list_of_maps = |items: &Vec<Json>| !items.is_empty() && items.iter().all(Json::is_object);
    let is_tables = |value: &Json| value.as_array().is_some_and(is_list_of_maps);
    let plain =
        members.iter().filter(|(_, value)| !value.is_null() && !value.is_object() && !is_tables(value));
    for (key, value) in plain {
        lines.push(format!("{} = {}", toml_key(key), toml_value(value)));
    }
    for (key, value) in members {
        let key = toml_key(key);
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        if let Json::Object(inner) = value {
            lines.push(format!("[{path}]"));
            toml_table(inner, &path, lines);
        }
        if let (true, Json::Array(items)) = (is_tables(value), value) {
            for inner in items.iter().filter_map(Json::as_object) {
                lines.push(format!("[[{path}]]"));
                toml_table(inner, &path, lines);
            }
        }
    }
}

fn toml_key(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare { key.to_owned() } else { Json::from(key).to_string() }
}

/// A value in one line. TOML has no value for nothing, which becomes an empty text.
fn toml_value(json: &Json) -> String {
    match json {
        Json::Null => "\"\"".to_owned(),
        Json::Array(items) => {
            let items = items.iter().map(toml_value).collect::<Vec<_>>();
            format!("[{}]", items.join(", "))
        }
        Json::Object(members) => {
            let members =
                members.iter().map(|(key, value)| format!("{} = {}", toml_key(key), toml_value(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Json::Bool(_) | Json::Number(_) | Json::String(_) => json.to_string(),
    }
}
