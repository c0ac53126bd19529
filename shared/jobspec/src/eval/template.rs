//! Evaluation of templates to text (§2, §3).

use crate::{
    eval::{Evaluator, Scope, iteration_scope},
    fault::{Evaluated, Fault},
    position::At,
    syntax::{Interpolation, Kind, Part},
    value::Value,
};

impl Evaluator<'_> {
    /// The text of all parts.
    pub(super) fn template(&self, parts: &[Part], scope: &Scope, at: &At) -> Evaluated<String> {
        let mut text = String::new();
        self.append(parts, scope, at, &mut text)?;
        Ok(text)
    }

    fn append(&self, parts: &[Part], scope: &Scope, at: &At, text: &mut String) -> Evaluated<()> {
        for part in parts {
            match part {
                Part::Text(literal) => {
                    self.environment.spend(at, literal.len())?;
                    text.push_str(literal);
                }
                Part::Interpolation(interpolation) => {
                    let value = self.interpolated(interpolation, scope)?;
                    let Some(value) = value.to_text() else {
                        let detail = format!(
                            "a template may contain strings, numbers and bools, but have {}",
                            value.kind()
                        );
                        let at = interpolation.expression.at.clone();
                        return Err(Box::new(Fault::new(at, "Invalid template interpolation value", detail)));
                    };
                    self.environment.spend(&interpolation.expression.at, value.len())?;
                    text.push_str(&value);
                }
                Part::If(condition, chosen, other) => {
                    let holds = self.value(condition, scope)?.to_bool().ok_or_else(|| {
                        let detail = "the condition must be a bool";
                        Box::new(Fault::new(condition.at.clone(), "Incorrect condition type", detail))
                    })?;
                    self.append(if holds { chosen } else { other }, scope, at, text)?;
                }
                Part::For(part) => {
                    for (key, value) in self.items(&part.collection, scope)? {
                        self.environment.spend(&part.collection.at, size_of::<Value>())?;
                        let scope = iteration_scope(scope, (part.key.as_deref(), &part.value), key, value);
                        self.append(&part.parts, &scope, at, text)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The value of an interpolation. A reference for the node keeps the white space within its braces.
    pub(super) fn interpolated(&self, interpolation: &Interpolation, scope: &Scope) -> Evaluated {
        let Interpolation { expression, padding: (before, after) } = interpolation;
        let value = self.value(expression, scope)?;
        let written = match &expression.kind {
            Kind::Name(name) => name,
            Kind::Traversal(_, _, written) => written,
            _ => return Ok(value),
        };
        if (before.is_empty() && after.is_empty()) || value != Value::Text(format!("${{{written}}}")) {
            return Ok(value);
        }
        Ok(Value::Text(format!("${{{before}{written}{after}}}")))
    }
}
