//! Evaluation of expressions: literals, collections, conditions and loops. References, calls, operators and templates are in
//! their own modules. `decode` converts the values to the kinds that attributes need.

mod calls;
mod operators;
mod references;
mod template;

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    FunctionInputs,
    environment::Environment,
    fault::{Evaluated, Fault},
    number::Number,
    position::At,
    shown::quoted,
    syntax::{Expression, For, Kind},
    types::Type,
    value::{Sequence, Value},
};

/// Names and their values, innermost first. Clones share their bindings.
#[derive(Clone, Default)]
pub(crate) struct Scope(Option<Rc<Binding>>);

struct Binding {
    name: String,
    value: Value,
    outer: Scope,
}

impl Scope {
    /// The scope with one more name, which hides an outer one.
    pub(crate) fn with(&self, name: &str, value: Value) -> Scope {
        Scope(Some(Rc::new(Binding { name: name.to_owned(), value, outer: self.clone() })))
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let mut scope = self;
        while let Some(binding) = &scope.0 {
            if binding.name == name {
                return Some(&binding.value);
            }
            scope = &binding.outer;
        }
        None
    }
}

/// Evaluates the expressions of one file within the file's limits.
pub(crate) struct Evaluator<'a> {
    pub(crate) environment: Environment<'a>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(function_inputs: &'a FunctionInputs) -> Evaluator<'a> {
        Evaluator { environment: Environment::new(function_inputs) }
    }

    /// The value of an expression. A reference to a name that is not in scope stays text (§4).
    pub(crate) fn value(&self, expression: &Expression, scope: &Scope) -> Evaluated {
        self.environment.take_steps(&expression.at, 1)?;
        self.environment.spend(&expression.at, size_of::<Value>())?;
        match &expression.kind {
            Kind::Null => Ok(Value::Null),
            Kind::Bool(flag) => Ok(Value::Bool(*flag)),
            Kind::Number(number) => self.number(number.clone(), &expression.at),
            Kind::Text(text) => {
                self.environment.spend(&expression.at, text.len())?;
                Ok(Value::text(text.as_str()))
            }
            Kind::Template(parts) => self.template(parts, scope, &expression.at).map(Value::text),
            Kind::Wrapped(interpolation) => self.interpolated(interpolation, scope),
            Kind::Tuple(items) => {
                items.iter().map(|item| self.value(item, scope)).collect::<Result<_, _>>().map(Value::tuple)
            }
            Kind::Object(members) => self.object(members, scope),
            Kind::Parenthesis(inner) => self.value(inner, scope),
            Kind::Name(name) => self.reference(name, name, &[], scope, &expression.at),
            Kind::Traversal(from, steps, written) => match &from.kind {
                Kind::Name(name) => self.reference(name, written, steps, scope, &expression.at),
                _ => {
                    let value = self.value(from, scope)?;
                    self.walk(value, steps, scope, &expression.at)
                }
            },
            Kind::Call(call) => self.call(call, scope, &expression.at),
            Kind::Conditional(parts) => self.conditional(parts, scope),
            Kind::Unary(operator, operand) => self.unary(*operator, operand, scope, &expression.at),
            Kind::Chain(chain) => self.chain(chain, scope),
            Kind::For(parts) => self.for_expression(parts, scope),
            Kind::Decoded(inner) => self.value(inner, scope).map_err(|mut fault| {
                fault.at = Some(expression.at.clone());
                fault
            }),
        }
    }

    /// A number that was written or computed.
    fn number(&self, number: Number, at: &At) -> Evaluated {
        self.environment.spend(at, number.bytes())?;
        self.environment.take_steps(at, number.steps())?;
        Ok(Value::Number(number))
    }

    fn object(&self, written: &[(Expression, Expression)], scope: &Scope) -> Evaluated {
        let mut members = BTreeMap::new();
        for (key, value) in written {
            let key = match &key.kind {
                // A bare name is the key itself, not a reference.
                Kind::Name(name) => name.clone(),
                Kind::Traversal(_, _, written) if !written.is_empty() => {
                    let detail = "put a key with dots in quotes, or an expression in parentheses";
                    return Err(Box::new(Fault::new(key.at.clone(), "Ambiguous attribute key", detail)));
                }
                _ => self.key(key, scope)?,
            };
            members.insert(key, self.value(value, scope)?);
        }
        Ok(Value::object(members))
    }

    fn key(&self, key: &Expression, scope: &Scope) -> Evaluated<String> {
        let value = self.value(key, scope)?;
        value.to_text().ok_or_else(|| {
            let detail = format!("a key must be a string, but have {}", value.kind());
            Box::new(Fault::new(key.at.clone(), "Incorrect key type", detail))
        })
    }

    /// Evaluates a conditional. Errors in the result that is not chosen are ignored.
    fn conditional(&self, [condition, first, second]: &[Expression; 3], scope: &Scope) -> Evaluated {
        let value = self.value(condition, scope)?;
        let Some(holds) = value.to_bool() else {
            let detail = format!("the condition must be a bool, but have {}", value.kind());
            return Err(Box::new(Fault::new(condition.at.clone(), "Incorrect condition type", detail)));
        };
        let (chosen, other) = if holds { (first, second) } else { (second, first) };
        let chosen = self.value(chosen, scope)?;
        let Ok(other) = self.value(other, scope) else { return Ok(chosen) };
        let (chosen_type, other_type) = (Type::of(&chosen), Type::of(&other));
        let kinds = (chosen.kind(), other.kind());
        let unified = chosen_type.unify(&other_type).and_then(|common| common.convert(chosen).ok());
        unified.ok_or_else(|| {
            let detail =
                format!("both results must be of the same kind, but have {} and {}", kinds.0, kinds.1);
            Box::new(Fault::new(first.at.clone(), "Inconsistent conditional result types", detail))
        })
    }

    fn for_expression(&self, parts: &For, scope: &Scope) -> Evaluated {
        let (mut list, mut object) = (Vec::new(), BTreeMap::new());
        for (key, value) in self.items(&parts.collection, scope)? {
            let scope = iteration_scope(scope, (parts.key.as_deref(), &parts.value), key, value);
            if let Some(condition) = &parts.condition {
                let holds = self.value(condition, &scope)?.to_bool().ok_or_else(|| {
                    let detail = "the condition must be a bool";
                    Box::new(Fault::new(condition.at.clone(), "Invalid 'for' condition", detail))
                })?;
                if !holds {
                    continue;
                }
            }
            let value = self.value(&parts.result, &scope)?;
            let Some(key_result) = &parts.key_result else {
                list.push(value);
                continue;
            };
            let key = self.key(key_result, &scope)?;
            if parts.grouping {
                let group = object.entry(key).or_insert_with(|| Value::tuple(Vec::new()));
                if let Value::List(_, group) = group {
                    group.push(value);
                }
            } else if object.insert(key.clone(), value).is_some() {
                let detail = format!("the key {} occurs twice; to group its values, use ...", quoted(&key));
                return Err(Box::new(Fault::new(key_result.at.clone(), "Duplicate object key", detail)));
            }
        }
        Ok(if parts.key_result.is_some() { Value::object(object) } else { Value::tuple(list) })
    }

    /// Keys and values of a collection. The keys are the indexes of a list, and the values themselves of a set.
    pub(crate) fn items(&self, collection: &Expression, scope: &Scope) -> Evaluated<Vec<(Value, Value)>> {
        match self.value(collection, scope)? {
            Value::List(Sequence::Set, values) => {
                Ok(values.into_iter().map(|value| (value.clone(), value)).collect())
            }
            Value::List(Sequence::Tuple | Sequence::List, values) => {
                let index = |index: usize| Value::Number(index.into());
                Ok(values.into_iter().enumerate().map(|(at, value)| (index(at), value)).collect())
            }
            Value::Map(_, members) => {
                Ok(members.into_iter().map(|(key, value)| (Value::Text(key), value)).collect())
            }
            Value::Null => {
                let detail = "null has no elements";
                Err(Box::new(Fault::new(collection.at.clone(), ITERATION_OVER_NULL, detail)))
            }
            other @ (Value::Bool(_) | Value::Number(_) | Value::Text(_)) => {
                let detail = format!("a value of the kind {} has no elements", other.kind());
                Err(Box::new(Fault::new(collection.at.clone(), ITERATION_OVER_SCALAR, detail)))
            }
        }
    }
}

/// Summary of the error for a loop over null.
pub(crate) const ITERATION_OVER_NULL: &str = "Iteration over null value";
/// Summary of the error for a loop over a value that is not a collection.
pub(crate) const ITERATION_OVER_SCALAR: &str = "Iteration over non-iterable value";

/// The scope of one iteration of a loop.
fn iteration_scope(
    scope: &Scope,
    (key_name, value_name): (Option<&str>, &str),
    key: Value,
    value: Value,
) -> Scope {
    let scope = match key_name {
        Some(name) => scope.with(name, key),
        None => scope.clone(),
    };
    scope.with(value_name, value)
}
