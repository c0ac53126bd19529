//! References: names, and steps into their values.

use super::{Evaluated, Evaluator, Scope};
use crate::{
    fault::Fault,
    position::At,
    syntax::Step,
    value::{Sequence, Value},
};

impl Evaluator<'_> {
    /// The value of a name. If it is not in scope, the text of the reference, which the node resolves (§4).
    pub(super) fn reference(
        &self,
        name: &str,
        written: &str,
        steps: &[Step],
        scope: &Scope,
        at: &At,
    ) -> Evaluated {
        if let Some(value) = scope.get(name) {
            return self.walk_ref(value, steps, scope, at);
        }
        let splat = steps.iter().position(|step| matches!(step, Step::Splat(..))).unwrap_or(steps.len());
        let text = format!("${{{written}}}");
        self.spend(at, text.len())?;
        self.walk(Value::text(text), &steps[splat..], scope, at)
    }

    /// The same as [`Self::walk`], but copies only the part that the first steps select.
    fn walk_ref(&self, value: &Value, steps: &[Step], scope: &Scope, at: &At) -> Evaluated {
        if let (Value::Map(_, members), [Step::Attribute(name), rest @ ..]) = (value, steps) {
            let member = members.get(name).ok_or_else(|| no_attribute(name, members.keys(), at))?;
            return self.walk_ref(member, rest, scope, at);
        }
        if let (Value::List(Sequence::Tuple | Sequence::List, values), [Step::Index(index, _), rest @ ..]) =
            (value, steps)
            && let Some(element) = self.value(index, scope)?.to_number().and_then(|n| n.to_u64())
            && let Some(element) = usize::try_from(element).ok().and_then(|at| values.get(at))
        {
            return self.walk_ref(element, rest, scope, at);
        }
        self.spend(at, value.weight())?;
        self.walk(value.clone(), steps, scope, at)
    }

    /// Applies the steps to a value.
    pub(super) fn walk(&self, value: Value, steps: &[Step], scope: &Scope, at: &At) -> Evaluated {
        let mut value = value;
        for step in steps {
            value = match step {
                Step::Attribute(name) => attribute(value, name, at)?,
                Step::LegacyIndex(index, at) => indexed(value, &Value::Number(index.clone()), at)?,
                Step::Index(index, at) => {
                    let index = self.value(index, scope)?;
                    indexed(value, &index, at)?
                }
                Step::Splat(inner, _) => {
                    let (kind, elements) = match value {
                        Value::Null => (Sequence::Tuple, Vec::new()),
                        Value::List(Sequence::Tuple, values) => (Sequence::Tuple, values),
                        Value::List(Sequence::List | Sequence::Set, values) => (Sequence::List, values),
                        other => (Sequence::Tuple, vec![other]),
                    };
                    let elements = elements.into_iter().map(|element| self.walk(element, inner, scope, at));
                    Value::List(kind, elements.collect::<Result<_, _>>()?)
                }
            };
        }
        Ok(value)
    }
}

fn no_attribute<'n>(name: &str, known: impl Iterator<Item = &'n String>, at: &At) -> Box<Fault> {
    let known: Vec<&str> = known.map(String::as_str).collect();
    let near = crate::suggest::nearest(name, &known);
    let near = near.map(|near| format!(". Did you mean {near:?}?")).unwrap_or_default();
    let detail = format!("this object has no attribute {name:?}{near}");
    Box::new(Fault::new(at.clone(), UNSUPPORTED_ATTRIBUTE, detail))
}

/// Summary of the error for a reference to an unknown attribute.
pub(crate) const UNSUPPORTED_ATTRIBUTE: &str = "Unsupported attribute";

fn attribute(value: Value, name: &str, at: &At) -> Evaluated {
    match value {
        Value::Map(_, mut members) => match members.remove(name) {
            Some(member) => Ok(member),
            None => Err(no_attribute(name, members.keys(), at)),
        },
        Value::Null => {
            let detail = format!("null has no attribute {name:?}");
            Err(Box::new(Fault::new(at.clone(), "Attempt to get attribute from null value", detail)))
        }
        other @ (Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(..)) => {
            let detail = format!("a value of the kind {} has no attribute {name:?}", other.kind());
            Err(Box::new(Fault::new(at.clone(), UNSUPPORTED_ATTRIBUTE, detail)))
        }
    }
}

/// The element of a collection with an index or a key.
pub(crate) fn indexed(value: Value, key: &Value, at: &At) -> Evaluated {
    let fault = |detail: String| Err(Box::new(Fault::new(at.clone(), "Invalid index", detail)));
    match value {
        Value::List(Sequence::Set, _) => fault("the elements of a set have no indexes".to_owned()),
        Value::List(_, mut values) => {
            match key.to_number().and_then(|key| key.to_u64()).and_then(|at| usize::try_from(at).ok()) {
                Some(index) if index < values.len() => Ok(values.swap_remove(index)),
                _ => fault(format!(
                    "the index must be a whole number below the length of the list, {}",
                    values.len()
                )),
            }
        }
        Value::Map(_, mut members) => match key.to_text().and_then(|key| members.remove(&key)) {
            Some(value) => Ok(value),
            None => fault("this object has no such key".to_owned()),
        },
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_)) => {
            fault(format!("a value of the kind {} has no elements", other.kind()))
        }
    }
}
