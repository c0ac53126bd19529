//! Decoder for JSON request bodies that follows the rules of Go's decoder, because clients rely on them. Object keys
//! match field names regardless of ASCII case, and unknown keys are skipped. An error contains the path, line and
//! column of the invalid value. Nesting is bounded by `serde_json`'s limit of 128.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

/// A body is not valid JSON, or does not match the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}{}{message} (line {line}, column {column})", if path.is_empty() { "" } else { ": " })]
pub struct DecodeError {
    /// Path of the invalid value, such as `Job.TaskGroups[0].Meta["a"]`; empty for the whole body.
    pub path: String,
    /// Description of the error.
    pub message: String,
    /// Line in the body, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 at the very beginning of a line.
    pub column: usize,
}

/// Decodes a body that consists of exactly one JSON value in UTF-8. A key of a struct that appears twice is an error,
/// also if the two differ in case.
pub fn from_slice<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    decode(body, |json| json.end())
}

/// Like [`from_slice`], but ignores what follows the first JSON value.
pub fn first_from_slice<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    decode(body, |_| Ok(()))
}

type Json<'a> = serde_json::Deserializer<serde_json::de::StrRead<'a>>;

/// Decodes a value, after which `end` checks the rest.
fn decode<T: DeserializeOwned>(
    body: &[u8],
    end: impl FnOnce(&mut Json<'_>) -> serde_json::Result<()>,
) -> Result<T, DecodeError> {
    let text = str::from_utf8(body).map_err(|error| not_utf8(body, error.valid_up_to()))?;
    let mut json = serde_json::Deserializer::from_str(text);
    let path = Path::default();
    T::deserialize(Decoder { inner: &mut json, path: &path })
        .and_then(|value| end(&mut json).map(|()| value))
        .map_err(|error| not_decodable(&path, &error))
}

fn not_utf8(body: &[u8], valid_bytes: usize) -> DecodeError {
    let valid = &body[..valid_bytes];
    let line_start = valid.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    DecodeError {
        path: String::new(),
        message: "the text is not UTF-8".to_owned(),
        line: 1 + valid.iter().filter(|byte| **byte == b'\n').count(),
        column: 1 + valid_bytes - line_start,
    }
}

fn not_decodable(path: &Path, error: &serde_json::Error) -> DecodeError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    // serde_json appends the position, which `DecodeError` formats itself.
    let message = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    DecodeError { path: path.to_string(), message: message.to_owned(), line, column }
}

/// The path from the invalid value up to the root. It is empty until an error occurs. Each level then appends its step
/// while the error propagates, so that a successful decode costs nothing. This relies on every type of this crate
/// failing at the first error, without trying an alternative.
#[derive(Default)]
struct Path(RefCell<Vec<Step>>);

enum Step {
    Field(String),
    Key(String),
    Index(usize),
}

impl Path {
    /// Returns `result` unchanged. If it is an error, records the step that led to it.
    fn record<T, E>(&self, result: Result<T, E>, step: impl FnOnce() -> Step) -> Result<T, E> {
        if result.is_err() {
            self.0.borrow_mut().push(step());
        }
        result
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.borrow().iter().rev().enumerate() {
            match step {
                Step::Field(name) if depth == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Wraps the JSON deserializer. The deserializers of all nested values are wrapped as well.
struct Decoder<'p, D> {
    inner: D,
    path: &'p Path,
}

impl<'p, D> Decoder<'p, D> {
    fn wrap<V>(&self, visitor: V, fields: Option<&'static [&'static str]>) -> WrappedVisitor<'p, V> {
        WrappedVisitor { visitor, fields, null_is_empty: false, path: self.path }
    }

    /// For a text, which `null` leaves empty.
    fn wrap_text<V>(&self, visitor: V) -> WrappedVisitor<'p, V> {
        WrappedVisitor { null_is_empty: true, ..self.wrap(visitor, None) }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Decoder<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor, None);
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor, None);
        self.inner.deserialize_option(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor, None);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor, Some(fields));
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.wrap(visitor, None);
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.wrap_text(visitor);
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.wrap_text(visitor);
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }

    // JSON is self-describing, so all other types are decoded by `deserialize_any`.
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

/// A visitor that forwards every call to `visitor`, and wraps the deserializers of nested values.
struct WrappedVisitor<'p, V> {
    visitor: V,
    /// The field names, if the value is a struct.
    fields: Option<&'static [&'static str]>,
    /// Whether the value is a text that is no optional member, which `null` leaves empty.
    null_is_empty: bool,
    path: &'p Path,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for WrappedVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<V::Value, E> {
        self.visitor.visit_bool(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<V::Value, E> {
        self.visitor.visit_i64(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<V::Value, E> {
        self.visitor.visit_u64(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<V::Value, E> {
        self.visitor.visit_f64(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<V::Value, E> {
        self.visitor.visit_str(value)
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, value: &'de str) -> Result<V::Value, E> {
        self.visitor.visit_borrowed_str(value)
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<V::Value, E> {
        self.visitor.visit_string(value)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        if self.null_is_empty { self.visitor.visit_str("") } else { self.visitor.visit_unit() }
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Decoder { inner, path: self.path })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Decoder { inner, path: self.path })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        // serde accepts a list as the fields of a struct in order. Go's decoder does not.
        if self.fields.is_some() {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.visitor.visit_seq(Elements { inner, index: 0, path: self.path })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Members { inner, fields: self.fields, key: String::new(), path: self.path })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(inner)
    }
}

/// The elements of a list, with the index of the next one.
struct Elements<'p, A> {
    inner: A,
    index: usize,
    path: &'p Path,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let index = self.index;
        self.index += 1;
        let result = self.inner.next_element_seed(Nested { seed, path: self.path });
        self.path.record(result, || Step::Index(index))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The members of an object. The keys of a struct are replaced by its field names; the keys of a map are unchanged.
struct Members<'p, A> {
    inner: A,
    fields: Option<&'static [&'static str]>,
    /// The last key that was read; for a struct, the name of the matching field if there is one.
    key: String,
    path: &'p Path,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(Key { seed, fields: self.fields.unwrap_or_default(), key: &mut self.key })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let result = self.inner.next_value_seed(Nested { seed, path: self.path });
        self.path.record(result, || {
            let key = std::mem::take(&mut self.key);
            if self.fields.is_some() { Step::Field(key) } else { Step::Key(key) }
        })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A value inside a list or object.
struct Nested<'p, S> {
    seed: S,
    path: &'p Path,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Nested<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(Decoder { inner, path: self.path })
    }
}

/// A key of an object. It is replaced by the field name that it equals ignoring ASCII case, if there is one. Maps have
/// string keys.
struct Key<'k, S> {
    seed: S,
    fields: &'static [&'static str],
    key: &'k mut String,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        inner.deserialize_str(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Key<'_, S> {
    type Value = S::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<S::Value, E> {
        let field = self.fields.iter().find(|field| field.eq_ignore_ascii_case(key));
        let name = field.copied().unwrap_or(key);
        self.key.clear();
        self.key.push_str(name);
        self.seed.deserialize(StrDeserializer::new(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Job, JobRegisterRequest, NodePool};

    fn error<T: DeserializeOwned + fmt::Debug>(body: &str) -> String {
        from_slice::<T>(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn keys_ignore_ascii_case() {
        let body = r#"{"id": "a", "TASKGROUPS": [{"name": "g", "nEtWoRkS": [{"dns": {"servers": []}}]}]}"#;
        let job: Job = from_slice(body.as_bytes()).unwrap();
        assert_eq!(job.id.as_deref(), Some("a"));
        let group = &job.task_groups.unwrap()[0];
        assert_eq!(group.name.as_deref(), Some("g"));
        assert_eq!(group.networks.as_ref().unwrap()[0].dns.as_ref().unwrap().servers, Some(vec![]));

        let job: Job = from_slice(br#"{"UI": {"Links": [{"URL": "u"}, {"Url": "v"}]}}"#).unwrap();
        let urls: Vec<_> = job.ui.unwrap().links.unwrap().into_iter().map(|link| link.url.unwrap()).collect();
        assert_eq!(urls, ["u", "v"]);
    }

    #[test]
    fn keys_of_maps_stay_as_they_are() {
        let body = r#"{"Meta": {"id": "1", "ID": "2"}, "TaskGroups": [{"Tasks": [{"Config": {"name": {"Name": 1}}}]}]}"#;
        let job: Job = from_slice(body.as_bytes()).unwrap();
        let meta = job.meta.unwrap();
        assert_eq!((meta["id"].as_str(), meta["ID"].as_str()), ("1", "2"));
        let tasks = job.task_groups.unwrap().remove(0).tasks.unwrap();
        assert_eq!(tasks[0].config.as_ref().unwrap()["name"], json!({"Name": 1}));
    }

    #[test]
    fn null_absent_and_unknown_members_leave_none() {
        let body = r#"{"ID": null, "Payload": null, "Nonsense": {"ID": [1, {}]}}"#;
        assert_eq!(from_slice::<Job>(body.as_bytes()), Ok(Job::default()));
    }

    #[test]
    fn null_in_lists_and_maps_is_an_empty_text() {
        let job: Job = from_slice(br#"{"Meta": {"a": null}, "Datacenters": [null, "dc1"]}"#).unwrap();
        assert_eq!(job.meta.unwrap()["a"], "");
        assert_eq!(job.datacenters.unwrap(), ["", "dc1"]);
    }

    #[test]
    fn what_follows_the_first_value_may_be_ignored() {
        let body = br#"{"ID": "a"} {"ID": "b"}"#;
        assert_eq!(first_from_slice::<Job>(body).unwrap().id.as_deref(), Some("a"));
        assert!(from_slice::<Job>(body).is_err());
    }

    #[test]
    fn zeros_are_some() {
        let job: Job =
            from_slice(br#"{"ID": "", "Priority": 0, "Stop": false, "Meta": {}, "Datacenters": []}"#)
                .unwrap();
        assert!(job.id.is_some() && job.priority.is_some() && job.stop.is_some());
        assert!(job.meta.is_some() && job.datacenters.is_some());
    }

    #[test]
    fn identity_ttl_is_text_or_nanoseconds() {
        for (ttl, nanos) in [(r#""24h0m0s""#, Some(86_400_000_000_000)), ("7", Some(7)), ("null", None)] {
            let pool: NodePool = from_slice(format!(r#"{{"NodeIdentityTTL": {ttl}}}"#).as_bytes()).unwrap();
            assert_eq!(pool.node_identity_ttl, nanos);
        }
        assert_eq!(
            error::<NodePool>(r#"{"NodeIdentityTTL": "soon"}"#),
            r#"NodeIdentityTTL: invalid value: string "soon", expected a duration such as "1h30m" or an integer of nanoseconds (line 1, column 26)"#
        );
    }

    #[test]
    fn errors_say_what_and_where() {
        assert_eq!(
            error::<JobRegisterRequest>(r#"{"job": {"taskgroups": [{}, {"count": "x"}]}}"#),
            r#"Job.TaskGroups[1].Count: invalid type: string "x", expected i64 (line 1, column 41)"#
        );
        assert_eq!(
            error::<Job>("{\n  \"Meta\": {\"a.b\": 1}\n}"),
            r#"Meta["a.b"]: invalid type: integer `1`, expected a string (line 2, column 19)"#
        );
        assert_eq!(
            error::<Job>(r#"{"Update": {"Stagger": "30s"}}"#),
            r#"Update.Stagger: invalid type: string "30s", expected i64 (line 1, column 28)"#
        );
        assert_eq!(
            error::<Job>(r#"{"Priority": 1.5}"#),
            "Priority: invalid type: floating point `1.5`, expected i64 (line 1, column 16)"
        );
        assert_eq!(
            error::<Job>(r#"{"Version": -1}"#),
            "Version: invalid value: integer `-1`, expected u64 (line 1, column 14)"
        );
    }

    #[test]
    fn lists_are_not_objects() {
        assert_eq!(
            error::<Job>(r#"{"Update": []}"#),
            "Update: invalid type: sequence, expected struct UpdateStrategy (line 1, column 13)"
        );
        assert!(error::<Job>("[]").starts_with("invalid type: sequence, expected struct Job"));
        assert!(error::<Job>(r#"{"TaskGroups": {}}"#).starts_with("TaskGroups: invalid type: map"));
    }

    #[test]
    fn the_same_key_twice_is_an_error() {
        assert_eq!(
            error::<Job>(r#"{"TaskGroups": [{"Count": 1, "count": 2}]}"#),
            "TaskGroups[0]: duplicate field `Count` (line 1, column 36)"
        );
    }

    #[test]
    fn the_body_is_one_whole_value() {
        assert!(error::<Job>("").starts_with("EOF while parsing a value"));
        assert!(error::<Job>(r#"{"TaskGroups": [{"Name": "a"#).starts_with("TaskGroups[0].Name: EOF"));
        assert!(error::<Job>("{} {}").starts_with("trailing characters"));
        assert!(from_slice::<Job>(b" {} \n").is_ok());
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(from_slice::<Value>(nested(127).as_bytes()).is_ok());
        assert!(error::<Value>(&nested(100_000)).contains("recursion limit exceeded"));
        // Unknown keys are skipped without recursion.
        assert!(from_slice::<Job>(format!(r#"{{"X": {}}}"#, nested(100_000)).as_bytes()).is_ok());
    }

    #[test]
    fn other_encodings_are_an_error() {
        let error = from_slice::<Job>(b"{\n \"ID\": \"\xff\"}").unwrap_err();
        assert_eq!(error.to_string(), "the text is not UTF-8 (line 2, column 9)");
        assert!(from_slice::<Job>(br#"{"ID": "\ud800"}"#).is_err());
    }
}
