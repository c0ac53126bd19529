//! Types of selectors. A special deserializer follows the selector's steps through a type's `Deserialize` implementation,
//! and notes which kind of value is requested at the end. So the field names are defined by the type only.

use std::cell::Cell;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor, value,
};

/// Kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    /// An integer without a sign.
    Unsigned,
    Float,
    Bool,
    List,
    Map,
    Struct,
    /// The type does not determine the kind.
    Any,
}

/// A step of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A field name, map key or list index.
    Name(String),
    /// Any element or entry.
    Each,
}

/// A step that does not exist in the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidStep {
    /// Position of the step.
    pub(super) at: usize,
}

/// Kind of the value at a path in `T`. The flags tell which steps are map keys or list indexes, which may be absent in an
/// object.
///
/// # Errors
/// If the path cannot exist in a `T`.
pub(super) fn kind_of<T: DeserializeOwned>(steps: &[Step]) -> Result<(Kind, Vec<bool>), InvalidStep> {
    let findings = Findings { keys: Cell::default(), outcome: Cell::new(Err(InvalidStep { at: 0 })) };
    // Deserializing always fails: the result is in `findings` by then.
    let _ = T::deserialize(Probe { steps, at: 0, findings: &findings });
    let mut keys = findings.keys.take();
    findings.outcome.get().map(|kind| {
        keys.resize(steps.len(), true);
        (kind, keys)
    })
}

struct Findings {
    keys: Cell<Vec<bool>>,
    outcome: Cell<Result<Kind, InvalidStep>>,
}

#[derive(Clone, Copy)]
struct Probe<'a> {
    steps: &'a [Step],
    at: usize,
    findings: &'a Findings,
}

impl Probe<'_> {
    fn end<T>(self, outcome: Result<Kind, InvalidStep>) -> Result<T, value::Error> {
        self.findings.outcome.set(outcome);
        Err(value::Error::custom("found"))
    }

    /// Ends at a scalar. This is an error if there are steps left, unless the type accepts any value.
    fn leaf<T>(self, kind: Kind) -> Result<T, value::Error> {
        let is_end = self.at == self.steps.len() || kind == Kind::Any;
        self.end(if is_end { Ok(kind) } else { Err(InvalidStep { at: self.at }) })
    }

    /// Advances by one step.
    fn next(self, is_key: bool) -> Self {
        let mut keys = self.findings.keys.take();
        keys.push(is_key);
        self.findings.keys.set(keys);
        Self { at: self.at + 1, ..self }
    }
}

macro_rules! leaves {
    ($($kind:ident: $($method:ident)*;)*) => {
        $($(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            self.leaf(Kind::$kind)
        })*)*
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = value::Error;

    leaves! {
        Bool: deserialize_bool;
        Integer: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128;
        Unsigned: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128;
        Float: deserialize_f32 deserialize_f64;
        Text: deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
            deserialize_identifier;
        Any: deserialize_any deserialize_unit deserialize_ignored_any;
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.leaf(Kind::Any)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.leaf(Kind::Text)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.steps.get(self.at) {
            None => self.end(Ok(Kind::Struct)),
            Some(Step::Name(name)) if fields.contains(&name.as_str()) => {
                visitor.visit_map(Entry { key: Some(name), value: self.next(false) })
            }
            Some(Step::Name(_) | Step::Each) => self.end(Err(InvalidStep { at: self.at })),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.steps.get(self.at) {
            None => self.end(Ok(Kind::Map)),
            Some(Step::Name(name)) => visitor.visit_map(Entry { key: Some(name), value: self.next(true) }),
            Some(Step::Each) => visitor.visit_map(Entry { key: Some(""), value: self.next(true) }),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.steps.get(self.at) {
            None => self.end(Ok(Kind::List)),
            Some(Step::Name(name)) if name.parse::<usize>().is_err() => {
                self.end(Err(InvalidStep { at: self.at }))
            }
            Some(Step::Name(_) | Step::Each) => visitor.visit_seq(Element(self.next(true))),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Self::Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.deserialize_seq(visitor)
    }
}

/// A map or struct with one entry.
struct Entry<'a> {
    key: Option<&'a str>,
    value: Probe<'a>,
}

impl<'de> MapAccess<'de> for Entry<'_> {
    type Error = value::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        let Some(key) = self.key.take() else { return Ok(None) };
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        seed.deserialize(self.value)
    }
}

/// A list with one element.
struct Element<'a>(Probe<'a>);

impl<'de> SeqAccess<'de> for Element<'_> {
    type Error = value::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Self::Error> {
        seed.deserialize(self.0).map(Some)
    }
}
