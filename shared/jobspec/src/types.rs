//! Types, and the conversion of values to types (§5, §8).

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc};

use crate::{
    fault::{Evaluated, Fault},
    shown::quoted,
    syntax::{Expression, Kind},
    value::{Mapping, Sequence, Value},
};

/// The type of a value. Clones share their parts, because the common type of many values is cloned for each of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Any,
    Text,
    Number,
    Bool,
    List(Rc<Type>),
    Set(Rc<Type>),
    Map(Rc<Type>),
    Tuple(Rc<[Type]>),
    Object(Rc<BTreeMap<String, Type>>),
}

impl Type {
    /// Parses a type expression. `any` tells whether the type `any` is allowed: it is in conversions, but not in declarations.
    pub(crate) fn parse(expression: &Expression, any: bool) -> Evaluated<Type> {
        let invalid = |detail: &str| {
            Err(Box::new(Fault::new(expression.at.clone(), "Invalid type specification", detail)))
        };
        let unknown =
            || invalid("types are string, number, bool, list(…), set(…), map(…), tuple([…]), object({…})");
        // JSON contains expressions as texts, either as templates or verbatim.
        if let Kind::Decoded(inner) = &expression.kind {
            return Type::parse(inner, any);
        }
        if let Kind::Name(name) = &expression.kind {
            return match name.as_str() {
                "string" => Ok(Type::Text),
                "number" => Ok(Type::Number),
                "bool" => Ok(Type::Bool),
                "any" if any => Ok(Type::Any),
                "any" => invalid("an exact type is required instead of any"),
                "list" | "set" | "map" => invalid("the type needs an element type: list(string)"),
                "tuple" => invalid("the type needs element types: tuple([string, number])"),
                "object" => invalid("the type needs attribute types: object({ name = string })"),
                _ => unknown(),
            };
        }
        let Kind::Call(call) = &expression.kind else { return unknown() };
        let [argument] = &call.arguments[..] else { return invalid("the type needs one argument") };
        let inner = || Type::parse(argument, any).map(Rc::new);
        match (call.name.as_str(), &argument.kind) {
            ("list", _) => inner().map(Type::List),
            ("set", _) => inner().map(Type::Set),
            ("map", _) => inner().map(Type::Map),
            ("tuple", Kind::Tuple(items)) => {
                items.iter().map(|item| Type::parse(item, any)).collect::<Result<_, _>>().map(Type::Tuple)
            }
            ("object", Kind::Object(members)) => {
                let mut types = BTreeMap::new();
                for (key, value) in members {
                    let (Kind::Name(name) | Kind::Text(name)) = &key.kind else {
                        return invalid("attributes of an object are bare names");
                    };
                    types.insert(name.clone(), Type::parse(value, any)?);
                }
                Ok(Type::Object(Rc::new(types)))
            }
            ("optional", _) => {
                invalid("attributes are not optional in a job file; give the variable a default")
            }
            _ => unknown(),
        }
    }

    /// The exact type of a value.
    pub(crate) fn of(value: &Value) -> Type {
        let element = |values: &mut dyn Iterator<Item = &Value>| {
            Rc::new(values.map(Type::of).reduce(|a, b| a.unify(&b).unwrap_or(Type::Any)).unwrap_or(Type::Any))
        };
        match value {
            Value::Null => Type::Any,
            Value::Bool(_) => Type::Bool,
            Value::Number(_) => Type::Number,
            Value::Text(_) => Type::Text,
            Value::List(Sequence::Tuple, values) => Type::Tuple(values.iter().map(Type::of).collect()),
            Value::List(Sequence::List, values) => Type::List(element(&mut values.iter())),
            Value::List(Sequence::Set, values) => Type::Set(element(&mut values.iter())),
            Value::Map(Mapping::Object, members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), Type::of(value)));
                Type::Object(Rc::new(members.collect()))
            }
            Value::Map(Mapping::Map, members) => Type::Map(element(&mut members.values())),
        }
    }

    /// The type that values of both types can be converted to, if there is one.
    pub(crate) fn unify(&self, other: &Type) -> Option<Type> {
        match (self, other) {
            (a, b) if a == b => Some(a.clone()),
            (Type::Any, known) | (known, Type::Any) => Some(known.clone()),
            (Type::Text, Type::Number | Type::Bool) | (Type::Number | Type::Bool, Type::Text) => {
                Some(Type::Text)
            }
            (Type::List(a), Type::List(b)) => a.unify(b).map(|inner| Type::List(Rc::new(inner))),
            (Type::Set(a), Type::Set(b)) => a.unify(b).map(|inner| Type::Set(Rc::new(inner))),
            (Type::Set(a), Type::List(b)) | (Type::List(a), Type::Set(b)) => {
                a.unify(b).map(|inner| Type::List(Rc::new(inner)))
            }
            (Type::Map(a), Type::Map(b)) => a.unify(b).map(|inner| Type::Map(Rc::new(inner))),
            (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
                a.iter().zip(b.iter()).map(|(a, b)| a.unify(b)).collect::<Option<_>>().map(Type::Tuple)
            }
            (Type::Tuple(a), Type::Tuple(b)) => common(a.iter().chain(b.iter())).map(Type::List),
            (Type::Tuple(items), Type::List(inner)) | (Type::List(inner), Type::Tuple(items)) => {
                common(items.iter().chain([&**inner])).map(Type::List)
            }
            (Type::Tuple(items), Type::Set(inner)) | (Type::Set(inner), Type::Tuple(items)) => {
                common(items.iter().chain([&**inner])).map(Type::Set)
            }
            (Type::Object(a), Type::Object(b)) if a.keys().eq(b.keys()) => {
                let member = |(name, of_a): (&String, &Type)| Some((name.clone(), of_a.unify(&b[name])?));
                a.iter().map(member).collect::<Option<_>>().map(|members| Type::Object(Rc::new(members)))
            }
            (Type::Object(a), Type::Object(b)) => common(a.values().chain(b.values())).map(Type::Map),
            (Type::Object(members), Type::Map(inner)) | (Type::Map(inner), Type::Object(members)) => {
                common(members.values().chain([&**inner])).map(Type::Map)
            }
            _ => None,
        }
    }

    /// Converts a value to this type. Returns a message if that is not possible.
    pub(crate) fn convert(&self, value: Value) -> Result<Value, String> {
        let kind = value.kind();
        let wanted = |what: &str| format!("{what} required, but have {kind}");
        match (self, value) {
            (Type::Any, value) => Ok(value),
            (_, Value::Null) => Ok(Value::Null),
            (Type::Text, value) => value.to_text().map(Value::Text).ok_or_else(|| wanted("string")),
            (Type::Number, value) => {
                let given =
                    if let Value::Text(text) = &value { format!(" {}", quoted(text)) } else { String::new() };
                value.to_number().map(Value::Number).ok_or_else(|| wanted("number") + &given)
            }
            (Type::Bool, value) => value.to_bool().map(Value::Bool).ok_or_else(|| wanted("bool")),
            (Type::List(inner), Value::List(_, values)) => {
                Ok(Value::List(Sequence::List, inner.convert_all(values)?))
            }
            (Type::Set(inner), Value::List(_, values)) => Ok(set(inner.convert_all(values)?)),
            (Type::Map(inner), Value::Map(_, members)) => {
                let inner = if **inner == Type::Any {
                    &members
                        .values()
                        .map(Type::of)
                        .reduce(|a, b| a.unify(&b).unwrap_or(Type::Any))
                        .unwrap_or(Type::Any)
                } else {
                    inner
                };
                let member = |(name, value)| Ok((name, inner.convert(value)?));
                let members = members.into_iter().map(member).collect::<Result<_, String>>()?;
                Ok(Value::Map(Mapping::Map, members))
            }
            (Type::Tuple(types), Value::List(_, values)) if types.len() == values.len() => {
                let pairs = types.iter().zip(values);
                pairs.map(|(inner, value)| inner.convert(value)).collect::<Result<_, _>>().map(Value::tuple)
            }
            (Type::Tuple(types), Value::List(..)) => {
                Err(format!("a list of {} elements is required", types.len()))
            }
            (Type::Object(types), Value::Map(_, mut members)) => {
                let member = |(name, inner): (&String, &Type)| match members.remove(name) {
                    Some(value) => Ok((
                        name.clone(),
                        inner.convert(value).map_err(|detail| format!("attribute {name:?}: {detail}"))?,
                    )),
                    None => Err(format!("attribute {name:?} is required")),
                };
                types.iter().map(member).collect::<Result<_, _>>().map(Value::object)
            }
            (Type::List(_), _) => Err(wanted("list")),
            (Type::Set(_), _) => Err(wanted("set")),
            (Type::Map(_), _) => Err(wanted("map")),
            (Type::Tuple(_), _) => Err(wanted("tuple")),
            (Type::Object(_), _) => Err(wanted("object")),
        }
    }

    /// Converts all values to this type. If the type is any, converts them to their common type.
    fn convert_all(&self, values: Vec<Value>) -> Result<Vec<Value>, String> {
        let common = if *self == Type::Any {
            common_of(&values).ok_or("all elements of a list must be of one type")?
        } else {
            self.clone()
        };
        values.into_iter().map(|value| common.convert(value)).collect()
    }
}

fn common<'t>(mut types: impl Iterator<Item = &'t Type>) -> Option<Rc<Type>> {
    types.try_fold(Type::Any, |common, next| common.unify(next)).map(Rc::new)
}

/// The type that all values can be converted to, if there is one.
pub(crate) fn common_of(values: &[Value]) -> Option<Type> {
    values.iter().try_fold(Type::Any, |common, value| common.unify(&Type::of(value)))
}

/// A set of the values: sorted, without duplicates.
pub(crate) fn set(mut values: Vec<Value>) -> Value {
    values.sort_by(compare);
    values.dedup();
    Value::List(Sequence::Set, values)
}

/// The order of values in a set: false before true, numbers by value, texts by their bytes.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 5,
        Value::Bool(_) => 0,
        Value::Number(_) => 1,
        Value::Text(_) => 2,
        Value::List(..) => 3,
        Value::Map(..) => 4,
    };
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::List(_, a), Value::List(_, b)) => {
            let elements = a.iter().zip(b).map(|(a, b)| compare(a, b));
            elements.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
        }
        (Value::Map(_, a), Value::Map(_, b)) => {
            let members = a.iter().zip(b).map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1)));
            members.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}
