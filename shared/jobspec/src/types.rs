//! Types of input variables, and values converted to them (§5, §8).

use std::collections::BTreeMap;

use hcl_edit::expr::Expression;

use crate::{error::Fault, eval::Evaluated, source::span, value::Value};

/// The type of a variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Any,
    Text,
    Number,
    Bool,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>),
    Tuple(Vec<Type>),
    Object(BTreeMap<String, Type>),
}

impl Type {
    /// Reads a type expression.
    pub(crate) fn parse(expression: &Expression) -> Evaluated<Type> {
        let invalid =
            |detail| Err(Box::new(Fault::new(span(expression), "Invalid type specification", detail)));
        let unknown =
            || invalid("types are string, number, bool, list(…), set(…), map(…), tuple([…]), object({…})");
        if let Expression::Variable(name) = expression {
            return match name.value().as_str() {
                "string" => Ok(Type::Text),
                "number" => Ok(Type::Number),
                "bool" => Ok(Type::Bool),
                _ => unknown(),
            };
        }
        let Expression::FuncCall(call) = expression else { return unknown() };
        let arguments: Vec<&Expression> = call.args.iter().collect();
        let [argument] = arguments[..] else { return invalid("such a type has one argument") };
        let inner = || Type::parse(argument).map(Box::new);
        match (call.name.name.value().as_str(), argument) {
            ("list", _) => inner().map(Type::List),
            ("set", _) => inner().map(Type::Set),
            ("map", _) => inner().map(Type::Map),
            ("tuple", Expression::Array(items)) => {
                items.iter().map(Type::parse).collect::<Result<_, _>>().map(Type::Tuple)
            }
            ("object", Expression::Object(members)) => {
                let mut types = BTreeMap::new();
                for (key, value) in members {
                    let Some(name) = key.as_ident() else {
                        return invalid("attributes of an object are bare names");
                    };
                    types.insert(name.as_str().to_owned(), Type::parse(value.expr())?);
                }
                Ok(Type::Object(types))
            }
            _ => unknown(),
        }
    }

    /// The exact type of a value.
    pub(crate) fn of(value: &Value) -> Type {
        match value {
            Value::Null => Type::Any,
            Value::Bool(_) => Type::Bool,
            Value::Number(_) => Type::Number,
            Value::Text(_) => Type::Text,
            Value::List(values) => Type::Tuple(values.iter().map(Type::of).collect()),
            Value::Object(members) => {
                Type::Object(members.iter().map(|(name, value)| (name.clone(), Type::of(value))).collect())
            }
        }
    }

    /// The value as one of this type, or what is wrong with it.
    pub(crate) fn convert(&self, value: Value) -> Result<Value, String> {
        let kind = value.kind();
        let wanted = |what: &str| format!("{what} required, but have {kind}");
        match (self, value) {
            (Type::Any, value) => Ok(value),
            (_, Value::Null) => Ok(Value::Null),
            (Type::Text, value) => value.to_text().map(Value::Text).ok_or_else(|| wanted("string")),
            (Type::Number, value) => value.to_number().map(Value::Number).ok_or_else(|| wanted("number")),
            (Type::Bool, value) => value.to_bool().map(Value::Bool).ok_or_else(|| wanted("bool")),
            (Type::List(inner), Value::List(values)) => values
                .into_iter()
                .map(|value| inner.convert(value))
                .collect::<Result<_, _>>()
                .map(Value::List),
            (Type::Set(inner), Value::List(values)) => {
                let mut set: Vec<Value> = Vec::new();
                for value in values {
                    set.push(inner.convert(value)?);
                }
                set.sort_by_key(|value| (value.to_number(), value.to_text()));
                set.dedup();
                Ok(Value::List(set))
            }
            (Type::Map(inner), Value::Object(members)) => {
                let member = |(name, value)| Ok((name, inner.convert(value)?));
                members.into_iter().map(member).collect::<Result<_, String>>().map(Value::Object)
            }
            (Type::Tuple(types), Value::List(values)) if types.len() == values.len() => {
                let pairs = types.iter().zip(values);
                pairs.map(|(inner, value)| inner.convert(value)).collect::<Result<_, _>>().map(Value::List)
            }
            (Type::Tuple(types), Value::List(_)) => {
                Err(format!("a list of {} elements is required", types.len()))
            }
            (Type::Object(types), Value::Object(mut members)) => {
                let member = |(name, inner): (&String, &Type)| match members.remove(name) {
                    Some(value) => Ok((name.clone(), inner.convert(value)?)),
                    None => Err(format!("attribute {name:?} is required")),
                };
                types.iter().map(member).collect::<Result<_, _>>().map(Value::Object)
            }
            (Type::List(_), _) => Err(wanted("list")),
            (Type::Set(_), _) => Err(wanted("set")),
            (Type::Map(_), _) => Err(wanted("map")),
            (Type::Tuple(_), _) => Err(wanted("tuple")),
            (Type::Object(_), _) => Err(wanted("object")),
        }
    }
}
