//! References: names, and steps into their values.

use super::{Evaluator, Scope};
use crate::{
    fault::Evaluated,
    members::{attribute, indexed, no_attribute},
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
        self.environment.spend(at, text.len())?;
        self.walk(Value::text(text), &steps[splat..], scope, at)
    }

    /// The same as [`Self::walk`], but copies only the part that the first steps select.
    fn walk_ref(&self, value: &Value, steps: &[Step], scope: &Scope, at: &At) -> Evaluated {
        if let (Value::Map(_, members), [Step::Attribute(name), rest @ ..]) = (value, steps) {
            let member =
                members.get(name).ok_or_else(|| no_attribute(name, members, at, &self.environment))?;
            return self.walk_ref(member, rest, scope, at);
        }
        if let (Value::List(Sequence::Tuple | Sequence::List, values), [Step::Index(index, _), rest @ ..]) =
            (value, steps)
            && let Some(element) = self.value(index, scope)?.to_number().and_then(|n| n.to_u64())
            && let Some(element) = usize::try_from(element).ok().and_then(|at| values.get(at))
        {
            return self.walk_ref(element, rest, scope, at);
        }
        self.environment.spend_value(at, value)?;
        self.walk(value.clone(), steps, scope, at)
    }

    /// Applies the steps to a value.
    pub(super) fn walk(&self, value: Value, steps: &[Step], scope: &Scope, at: &At) -> Evaluated {
        let mut value = value;
        for step in steps {
            value = match step {
                Step::Attribute(name) => attribute(value, name, at, &self.environment)?,
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
