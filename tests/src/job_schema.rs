//! The JSON Schema of a job, for editors. It is derived from the API's own types, by tracing what they request when a
//! job is deserialized.
//!
//! [`Tracer`] is a deserializer without data: it answers every request with the smallest value of the kind, and records
//! the kind. So names and kinds of members come from the types, without a second list.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use api_types::Job;
use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
    value::StrDeserializer,
};
use serde_json::{Map, Value, json};

/// The schema, as stored in `docs/job.schema.json`.
pub fn job_schema() -> Value {
    let definitions = RefCell::new(BTreeMap::new());
    let shape = RefCell::new(Value::Null);
    Job::deserialize(Tracer { shape: &shape, definitions: &definitions })
        .expect("every member of a job is optional");
    let job = shape.into_inner();
    let mut definitions = definitions.into_inner();
    // Requests spell it `URL`, responses `Url`.
    let link = definitions.get_mut("JobUiLink").and_then(|link| link["properties"].as_object_mut());
    if let Some((members, url)) = link.and_then(|members| members.remove("Url").map(|url| (members, url))) {
        members.insert("URL".to_owned(), url);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A job in the JSON form of the HTTP API",
        "description": "What PUT /v1/jobs takes as Job, and `drover job run -json` as a file. Durations are nanoseconds.",
        "oneOf": [job, { "type": "object", "properties": { "Job": job }, "required": ["Job"] }],
        "$defs": definitions,
    })
}

/// An error of a request that cannot be answered without data.
#[derive(Debug)]
struct TraceError(String);

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TraceError {}

impl serde::de::Error for TraceError {
    fn custom<T: fmt::Display>(message: T) -> TraceError {
        TraceError(message.to_string())
    }
}

/// Deserializes one value, and records its shape.
#[derive(Clone, Copy)]
struct Tracer<'t> {
    shape: &'t RefCell<Value>,
    definitions: &'t RefCell<BTreeMap<String, Value>>,
}

impl Tracer<'_> {
    fn record(&self, shape: Value) {
        *self.shape.borrow_mut() = shape;
    }

    /// Deserializes a part with another tracer. Returns the part's shape as well.
    fn trace_part<T>(
        &self,
        trace: impl FnOnce(Tracer<'_>) -> Result<T, TraceError>,
    ) -> Result<(T, Value), TraceError> {
        let shape = RefCell::new(Value::Bool(true));
        let answer = trace(Tracer { shape: &shape, definitions: self.definitions })?;
        Ok((answer, shape.into_inner()))
    }
}

/// Defines the methods for kinds of values that have a smallest one.
macro_rules! scalars {
    ($($method:ident => $shape:expr, $visit:ident($($value:expr)?);)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
            self.record($shape);
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = TraceError;

    scalars! {
        deserialize_any => json!(true), visit_unit();
        deserialize_ignored_any => json!(true), visit_unit();
        deserialize_unit => json!({ "type": "null" }), visit_unit();
        deserialize_bool => json!({ "type": "boolean" }), visit_bool(false);
        deserialize_i8 => json!({ "type": "integer" }), visit_i8(0);
        deserialize_i16 => json!({ "type": "integer" }), visit_i16(0);
        deserialize_i32 => json!({ "type": "integer" }), visit_i32(0);
        deserialize_i64 => json!({ "type": "integer" }), visit_i64(0);
        deserialize_u8 => json!({ "type": "integer", "minimum": 0 }), visit_u8(0);
        deserialize_u16 => json!({ "type": "integer", "minimum": 0 }), visit_u16(0);
        deserialize_u32 => json!({ "type": "integer", "minimum": 0 }), visit_u32(0);
        deserialize_u64 => json!({ "type": "integer", "minimum": 0 }), visit_u64(0);
        deserialize_f32 => json!({ "type": "number" }), visit_f32(0.0);
        deserialize_f64 => json!({ "type": "number" }), visit_f64(0.0);
        deserialize_char => json!({ "type": "string" }), visit_char(' ');
        deserialize_str => json!({ "type": "string" }), visit_str("");
        deserialize_string => json!({ "type": "string" }), visit_str("");
        deserialize_bytes => json!({ "type": "string" }), visit_bytes(&[]);
        deserialize_byte_buf => json!({ "type": "string" }), visit_bytes(&[]);
        deserialize_identifier => json!({ "type": "string" }), visit_str("");
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        let (value, shape) = self.trace_part(|part| visitor.visit_some(part))?;
        self.record(nullable(shape));
        Ok(value)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TraceError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TraceError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        let mut items = Items { tracer: self, shape: json!(true), visited: false };
        let value = visitor.visit_seq(&mut items)?;
        self.record(json!({ "type": "array", "items": items.shape }));
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, TraceError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, TraceError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        let mut members = Members { tracer: self, names: [""].iter(), next: None, shapes: Map::new() };
        let value = visitor.visit_map(&mut members)?;
        let inner = members.shapes.into_iter().next().map_or(json!(true), |(_, shape)| shape);
        self.record(json!({ "type": "object", "additionalProperties": inner }));
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TraceError> {
        let mut members = Members { tracer: self, names: fields.iter(), next: None, shapes: Map::new() };
        let value = visitor.visit_map(&mut members)?;
        let definition =
            json!({ "type": "object", "properties": members.shapes, "additionalProperties": false });
        self.definitions.borrow_mut().insert(name.to_owned(), definition);
        self.record(json!({ "$ref": format!("#/$defs/{name}") }));
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TraceError> {
        self.record(json!({ "enum": variants }));
        visitor.visit_enum(VariantName(variants.first().copied().unwrap_or_default()))
    }
}

/// A shape that may also be null.
fn nullable(mut shape: Value) -> Value {
    if shape == Value::Bool(true) {
        return shape;
    }
    match shape.get("type").and_then(Value::as_str).map(str::to_owned) {
        Some(kind) => {
            shape["type"] = json!([kind, "null"]);
            shape
        }
        None => json!({ "anyOf": [shape, { "type": "null" }] }),
    }
}

/// One item of a list, to record the shape of items.
struct Items<'t> {
    tracer: Tracer<'t>,
    shape: Value,
    visited: bool,
}

impl<'de> SeqAccess<'de> for &mut Items<'_> {
    type Error = TraceError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, TraceError> {
        if std::mem::replace(&mut self.visited, true) {
            return Ok(None);
        }
        let (value, shape) = self.tracer.trace_part(|part| seed.deserialize(part))?;
        self.shape = shape;
        Ok(Some(value))
    }
}

/// All possible members.
struct Members<'t> {
    tracer: Tracer<'t>,
    names: std::slice::Iter<'static, &'static str>,
    next: Option<&'static str>,
    shapes: Map<String, Value>,
}

impl<'de> MapAccess<'de> for &mut Members<'_> {
    type Error = TraceError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TraceError> {
        self.next = self.names.next().copied();
        self.next.map(|name| seed.deserialize(StrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TraceError> {
        let (value, shape) = self.tracer.trace_part(|part| seed.deserialize(part))?;
        self.shapes.insert(self.next.unwrap_or_default().to_owned(), shape);
        Ok(value)
    }
}

/// A variant without content.
struct VariantName(&'static str);

impl<'de> EnumAccess<'de> for VariantName {
    type Error = TraceError;
    type Variant = NoContent;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, NoContent), TraceError> {
        Ok((seed.deserialize(StrDeserializer::new(self.0))?, NoContent))
    }
}

/// The content of such a variant.
struct NoContent;

impl<'de> VariantAccess<'de> for NoContent {
    type Error = TraceError;

    fn unit_variant(self) -> Result<(), TraceError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, TraceError> {
        Err(TraceError("variants with content are not expected in a job".to_owned()))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, TraceError> {
        Err(TraceError("variants with content are not expected in a job".to_owned()))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, TraceError> {
        Err(TraceError("variants with content are not expected in a job".to_owned()))
    }
}
