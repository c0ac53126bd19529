//! The declarations of a job file: input variables (§5) and locals (§6).

mod given;
mod locals;

use std::collections::BTreeMap;

pub use given::{VARIABLE_PREFIX, Variables};

use self::given::{GivenValue, Origin};
use crate::{
    Options,
    decode::{Block, Decoder},
    error::{Error, Faults},
    eval::{Evaluator, Scope},
    fault::{Evaluated, Fault},
    position::At,
    source::Source,
    syntax::{Attribute, Body, Expression, Kind, Part, Step},
    types::Type,
    value::Value,
};

/// The scope of the job's expressions, with `var` and `local`. Adds the sources of given values to `sources`.
pub(crate) fn scope<'o>(
    body: &Body,
    options: &'o Options,
    evaluator: &Evaluator<'_>,
    faults: &Faults,
    sources: &mut Vec<Source<'o>>,
) -> Result<Scope, Error> {
    let given = given::collect(&options.variables, evaluator, sources)?;
    let decoder = Decoder { evaluator, faults };
    let mut declared = Declared { values: BTreeMap::new(), evaluator, faults, decoder: &decoder };
    let mut blocks = Block::top(&decoder, body, "variables", 0);
    blocks.extend(Block::top(&decoder, body, "variable", 1));
    blocks.sort_by_key(|block| block.at().start);
    for block in blocks {
        let is_short = block.kind() == "variables";
        block.read(|block| match is_short {
            true => declared.short_variables(block, &given, sources),
            false => declared.variable(block, &given, sources),
        });
    }
    let variables = declared.values;
    for (name, given) in given.iter().filter(|(name, _)| !variables.contains_key(*name)) {
        if options.strict && given.origin != Origin::Environment {
            let detail = format!(
                "the job file does not declare the variable {name:?}; declare it with: variable \"{name}\" {{}}"
            );
            let summary = match given.origin {
                Origin::Flag => "Undefined -var variable",
                Origin::File | Origin::Environment | Origin::Default => "Undefined variable",
            };
            faults.record(Fault { at: None, ..Fault::new(0..0, summary, detail) });
        }
    }
    // Errors in variables would only cause further errors below.
    faults.finish(sources)?;
    let scope = Scope::default().with("var", Value::object(variables));
    let scope = locals::scope_with_locals(body, scope, &decoder);
    faults.finish(sources)?;
    Ok(scope)
}

/// The variables that a file declares, as far as they have been read.
struct Declared<'e> {
    values: BTreeMap<String, Value>,
    evaluator: &'e Evaluator<'e>,
    faults: &'e Faults,
    decoder: &'e Decoder<'e>,
}

/// The value of a variable, converted to its type, with its source.
struct Resolved {
    value: Value,
    origin: Origin,
    source: usize,
    at: Option<At>,
}

impl<'e> Declared<'e> {
    /// Reads variables that have only a default.
    fn short_variables<'o>(
        &mut self,
        block: &mut Block<'_>,
        given: &BTreeMap<String, GivenValue<'o>>,
        sources: &mut Vec<Source<'o>>,
    ) {
        for attribute in block.all_attributes() {
            let default = self.faults.ok_or_record(literal(&attribute.value, self.evaluator));
            let resolved = default.and_then(|value| {
                let default = Some((value, attribute.value.at.clone()));
                self.resolve((&attribute.name, &attribute.name_at), default, None, given, sources)
            });
            self.declare(&attribute.name, resolved.map(|resolved| resolved.value), attribute.name_at.clone());
        }
    }

    /// Declares a variable, even if its value is missing because of an error.
    fn declare(&mut self, name: &str, value: Option<Value>, at: At) {
        if self.values.insert(name.to_owned(), value.unwrap_or(Value::Null)).is_some() {
            let detail = format!("the variable {name:?} is already declared");
            self.faults.record(Fault::new(at, "Duplicate variable", detail));
        }
    }

    fn variable<'o>(
        &mut self,
        block: &mut Block<'_>,
        given: &BTreeMap<String, GivenValue<'o>>,
        sources: &mut Vec<Source<'o>>,
    ) {
        let at = block.at();
        let Some(name) = block.label() else { return block.ignore() };
        if crate::syntax::name_length(&name) != name.len() {
            let detail = format!(
                "{name:?} is not a valid name: use letters, digits, _ and -, and do not begin with a digit"
            );
            self.faults.record(Fault::new(at.clone(), "Invalid variable name", detail));
        }
        let (type_attribute, default_attribute) = (block.attribute("type"), block.attribute("default"));
        let declared_type = type_attribute.as_ref().map(|Attribute { value, .. }| {
            if let Kind::Text(text) = &value.kind
                && block.is_json()
            {
                return Type::parse(&parse_json_text(text, &value.at)?, false);
            }
            Type::parse(value, false)
        });
        let declared_type = declared_type.map(|declared_type| self.faults.ok_or_record(declared_type));
        let default = default_attribute.map(|attribute| {
            let value = self.faults.ok_or_record(literal(&attribute.value, self.evaluator))?;
            Some((value, attribute.value.at.clone()))
        });
        if let Some(description) = block.attribute("description")
            && let Some(value) = self.faults.ok_or_record(literal(&description.value, self.evaluator))
            && value != Value::Null
            && value.to_text().is_none()
        {
            let detail = format!("description: string required, but have {}", value.kind());
            let at = description.value.at.clone();
            self.faults.record(Fault::new(at, "Unsuitable value type", detail));
        }
        let validations = block.syntax_blocks("validation");
        // Errors in the type or the default have been recorded. Evaluating the value would only cause further errors.
        let is_sound = !matches!(declared_type, Some(None)) && !matches!(default, Some(None));
        let resolved = is_sound
            .then(|| self.resolve((&name, &at), default.flatten(), declared_type.flatten(), given, sources))
            .flatten();
        if let Some(resolved) = &resolved {
            for syntax in validations {
                let validation = Block::of(self.decoder, syntax, Scope::default());
                validation.read(|block| self.validate(&name, resolved, block));
            }
        }
        self.declare(&name, resolved.map(|resolved| resolved.value), at);
    }

    /// The given value of a variable, or else its default, converted to its type.
    fn resolve<'o>(
        &self,
        (name, name_at): (&str, &At),
        default: Option<(Value, At)>,
        declared_type: Option<Type>,
        given: &BTreeMap<String, GivenValue<'o>>,
        sources: &mut Vec<Source<'o>>,
    ) -> Option<Resolved> {
        let of_default = || default.as_ref().map(|(default, _)| Type::of(default));
        let kind = declared_type.clone().or_else(of_default).unwrap_or(Type::Text);
        let converted = |value: Value, source: usize, at: At| match kind.convert(value) {
            Ok(value) => Some(value),
            Err(detail) => {
                let detail = format!("the value of {name:?}: {detail}");
                self.faults.record(Fault::new(at, "Invalid value for variable", detail).in_source(source));
                None
            }
        };
        let default = match default {
            Some((value, at)) => Some((converted(value, 0, at.clone())?, at)),
            None => None,
        };
        if let Some(given) = given.get(name) {
            let takes_text = matches!(declared_type, None | Some(Type::Text | Type::Number));
            let (value, source, at) =
                self.faults.ok_or_record(given.value(name, takes_text, self.evaluator, sources))?;
            let value = converted(value, source, at.clone())?;
            return Some(Resolved { value, origin: given.origin, source, at: Some(at) });
        }
        let Some((value, at)) = default else {
            let detail = "the variable has no default; give it a value with -var, -var-file or NOMAD_VAR_…";
            self.faults.record(Fault::with_subject(name_at.clone(), "Unset variable \"{}\"", name, detail));
            return None;
        };
        Some(Resolved { value, origin: Origin::Default, source: 0, at: Some(at) })
    }

    fn validate(&self, name: &str, resolved: &Resolved, block: &mut Block<'_>) {
        let condition = block.required("condition").attribute("condition");
        let message = block.required("error_message").attribute("error_message");
        let (Some(condition), Some(message)) = (condition, message) else { return };
        if !self.refers_only_to(name, &condition) {
            return;
        }
        let only = BTreeMap::from([(name.to_owned(), resolved.value.clone())]);
        let scope = Scope::default().with("var", Value::object(only));
        let holds = self.faults.ok_or_record(self.evaluator.value(&condition.value, &scope));
        let text = self.faults.ok_or_record(self.evaluator.value(&message.value, &scope));
        let (Some(holds), Some(text)) = (holds, text) else { return };
        let text = text.to_text().unwrap_or_default();
        if text.trim().is_empty() {
            let detail = "the message must say what is wrong with the value";
            let at = message.value.at.clone();
            self.faults.record(Fault::new(at, "Invalid validation error message", detail));
        }
        match holds.to_bool() {
            Some(true) => {}
            Some(false) => {
                let fault =
                    Fault::with_subject(0..0, "Invalid value for {} variable", resolved.origin.name(), text);
                self.faults.record(Fault { at: resolved.at.clone(), ..fault }.in_source(resolved.source));
            }
            None => {
                let detail = format!("the condition must be true or false, but have {}", holds.kind());
                let at = condition.value.at.clone();
                self.faults.record(Fault::new(at, "Invalid variable validation result", detail));
            }
        }
    }

    /// Checks that a condition refers to its own variable and to no other.
    fn refers_only_to(&self, name: &str, condition: &Attribute) -> bool {
        let mut references = Vec::new();
        references_in(&condition.value, &mut references);
        let mut refers = false;
        for (root, member, at) in references {
            if root == "var" && member == Some(name) {
                refers = true;
            } else if root == "var" || root == "local" {
                let detail = format!("the condition for {name:?} can only refer to var.{name}");
                self.faults.record(Fault::new(at, "Invalid reference in variable validation", detail));
                return false;
            }
        }
        if !refers {
            let detail = format!("the condition for {name:?} must refer to var.{name}");
            let at = condition.value.at.clone();
            self.faults.record(Fault::new(at, "Invalid variable validation condition", detail));
        }
        refers
    }
}

/// Parses the expression in a JSON text.
fn parse_json_text(text: &str, at: &At) -> Evaluated<Expression> {
    let relocated = |mut fault: Box<Fault>| {
        fault.at = Some(at.clone());
        fault
    };
    Ok(Expression { at: at.clone(), ..crate::syntax::expression(text).map_err(relocated)? })
}

/// The value of an expression without references and calls.
fn literal(expression: &Expression, evaluator: &Evaluator<'_>) -> Evaluated {
    if let Some((call, at)) = first_call(expression) {
        let detail = format!("function calls are not allowed in this value; call {call}(…) in locals");
        return Err(Box::new(Fault::new(at, "Function calls not allowed", detail)));
    }
    let mut references = Vec::new();
    references_in(expression, &mut references);
    if let Some((_, _, at)) = references.into_iter().next() {
        let detail = "references are not allowed in this value; put text in quotes";
        return Err(Box::new(Fault::new(at, "Variables not allowed", detail)));
    }
    evaluator.value(expression, &Scope::default())
}

type Reference<'x> = (&'x str, Option<&'x str>, At);

/// The names that an expression refers to, each with its first step.
fn references_in<'x>(expression: &'x Expression, found: &mut Vec<Reference<'x>>) {
    walk(expression, &mut |expression| {
        if let Kind::Name(name) = &expression.kind {
            found.push((name, None, expression.at.clone()));
        } else if let Kind::Traversal(from, steps, _) = &expression.kind
            && let Kind::Name(name) = &from.kind
        {
            if let Some(Step::Attribute(member)) = steps.first() {
                found.push((name, Some(member), expression.at.clone()));
            } else {
                found.push((name, None, from.at.clone()));
            }
        }
    });
}

fn first_call(expression: &Expression) -> Option<(&str, At)> {
    let mut found = None;
    walk(expression, &mut |expression| {
        if let (Kind::Call(call), None) = (&expression.kind, &found) {
            found = Some((call.name.as_str(), call.name_at.clone()));
        }
    });
    found
}

/// Visits an expression and its sub-expressions, inner ones first. Bare keys of objects are not expressions, and neither are
/// names that steps lead on from.
fn walk<'x>(expression: &'x Expression, visit: &mut dyn FnMut(&'x Expression)) {
    match &expression.kind {
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::Name(_) => {}
        Kind::Template(parts) => walk_parts(parts, visit),
        Kind::Wrapped(interpolation) => walk(&interpolation.expression, visit),
        Kind::Tuple(items) => items.iter().for_each(|item| walk(item, visit)),
        Kind::Object(members) => {
            for (key, value) in members {
                if !matches!(key.kind, Kind::Name(_)) {
                    walk(key, visit);
                }
                walk(value, visit);
            }
        }
        Kind::Parenthesis(inner) | Kind::Unary(_, inner) | Kind::Decoded(inner) => walk(inner, visit),
        Kind::Traversal(from, steps, _) => {
            if !matches!(from.kind, Kind::Name(_)) {
                walk(from, visit);
            }
            walk_steps(steps, visit);
        }
        Kind::Call(call) => call.arguments.iter().for_each(|argument| walk(argument, visit)),
        Kind::Conditional(parts) => parts.iter().for_each(|part| walk(part, visit)),
        Kind::Chain(chain) => {
            walk(&chain.first, visit);
            chain.rest.iter().for_each(|(_, operand)| walk(operand, visit));
        }
        Kind::For(parts) => {
            walk(&parts.collection, visit);
            parts.key_result.iter().chain(&parts.condition).for_each(|part| walk(part, visit));
            walk(&parts.result, visit);
        }
    }
    visit(expression);
}

fn walk_steps<'x>(steps: &'x [Step], visit: &mut dyn FnMut(&'x Expression)) {
    for step in steps {
        match step {
            Step::Attribute(..) | Step::LegacyIndex(..) => {}
            Step::Index(index, _) => walk(index, visit),
            Step::Splat(inner, _) => walk_steps(inner, visit),
        }
    }
}

fn walk_parts<'x>(parts: &'x [Part], visit: &mut dyn FnMut(&'x Expression)) {
    for part in parts {
        match part {
            Part::Text(_) => {}
            Part::Interpolation(interpolation) => walk(&interpolation.expression, visit),
            Part::If(condition, chosen, other) => {
                walk(condition, visit);
                walk_parts(chosen, visit);
                walk_parts(other, visit);
            }
            Part::For(part) => {
                walk(&part.collection, visit);
                walk_parts(&part.parts, visit);
            }
        }
    }
}
