//! What a job file declares for itself: input variables (§5) and locals (§6).

use std::{collections::BTreeMap, ops::Range};

use hcl_edit::{
    expr::{Expression, ObjectKey},
    structure::{Attribute, Block, Body},
};

use crate::{
    error::{Error, Fault, Faults},
    eval::{Evaluated, Evaluator, Scope},
    source::{Source, span},
    types::Type,
    value::Value,
};

/// The scope of the job's expressions: `var` and `local`. `given` are values for variables, with their source.
pub(crate) fn scope(
    body: &Body,
    source: &Source<'_>,
    given: (&Body, &Source<'_>),
    evaluator: &Evaluator<'_>,
    faults: &Faults,
) -> Result<Scope, Error> {
    let given = given_values(given.0, given.1)?;
    let mut variables = BTreeMap::new();
    for block in body.blocks() {
        match block.ident.value().as_str() {
            "variables" => short_variables(block, &given, &mut variables, evaluator, faults),
            "variable" => {
                let Some(name) = faults.noted(variable_name(block)) else { continue };
                let value = variable(name, block, &given, evaluator, faults);
                declare(&mut variables, name, value, block, faults);
            }
            _ => {}
        }
    }
    // What follows would only repeat what is wrong with the variables.
    faults.settle(source)?;
    let scope = Scope::default().with("var", Value::Object(variables));
    let scope = locals(body, scope, evaluator, faults);
    faults.settle(source)?;
    Ok(scope)
}

/// Variables with nothing but a default.
fn short_variables(
    block: &Block,
    given: &BTreeMap<String, Value>,
    variables: &mut BTreeMap<String, Value>,
    evaluator: &Evaluator<'_>,
    faults: &Faults,
) {
    for attribute in block.body.attributes() {
        let name = attribute.key.value().as_str();
        let value = literal(&attribute.value, evaluator).and_then(|default| {
            let kind = Type::of(&default);
            chosen(name, Some((default, &attribute.value)), &kind, given, block)
        });
        declare(variables, name, faults.noted(value).map(|(value, _)| value), &attribute.key, faults);
    }
    for inner in block.body.blocks() {
        faults.note(unexpected_block(inner));
    }
}

/// One whose value could not be had counts as declared, too.
fn declare(
    variables: &mut BTreeMap<String, Value>,
    name: &str,
    value: Option<Value>,
    at: &impl hcl_edit::Span,
    faults: &Faults,
) {
    if variables.insert(name.to_owned(), value.unwrap_or(Value::Null)).is_some() {
        let detail = format!("a variable {name:?} is declared already");
        faults.note(Fault::new(span(at), "Duplicate variable", detail));
    }
}

/// Values given for variables: attributes whose values refer to nothing.
fn given_values(body: &Body, source: &Source<'_>) -> Result<BTreeMap<String, Value>, Error> {
    let (evaluator, faults) = (Evaluator::new(source), Faults::default());
    for block in body.blocks() {
        faults.note(unexpected_block(block));
    }
    let mut values = BTreeMap::new();
    for attribute in body.attributes() {
        match literal(&attribute.value, &evaluator) {
            Ok(value) => {
                values.insert(attribute.key.value().as_str().to_owned(), value);
            }
            Err(fault) => faults.note(*fault),
        }
    }
    faults.settle(source)?;
    Ok(values)
}

/// The value of an expression that refers to nothing.
fn literal(expression: &Expression, evaluator: &Evaluator<'_>) -> Evaluated {
    if let Some(reference) = first_reference(expression) {
        let detail = "a value here refers to nothing else; put text in quotes";
        return Err(Box::new(Fault::new(span(reference), "Variables not allowed", detail)));
    }
    evaluator.value(expression, &Scope::default())
}

/// The first reference among literals and collections of them.
fn first_reference(expression: &Expression) -> Option<&Expression> {
    match expression {
        Expression::Variable(_) => Some(expression),
        Expression::Traversal(traversal) => first_reference(&traversal.expr),
        Expression::Array(items) => items.iter().find_map(first_reference),
        Expression::Object(object) => object.iter().find_map(|(key, value)| {
            let in_key = match key {
                ObjectKey::Ident(_) => None,
                ObjectKey::Expression(key) => first_reference(key),
            };
            in_key.or_else(|| first_reference(value.expr()))
        }),
        Expression::Parenthesis(inner) => first_reference(inner.inner()),
        Expression::UnaryOp(operation) => first_reference(&operation.expr),
        Expression::BinaryOp(operation) => {
            first_reference(&operation.lhs_expr).or_else(|| first_reference(&operation.rhs_expr))
        }
        Expression::StringTemplate(template) => {
            template.iter().find_map(|element| first_reference(&element.as_interpolation()?.expr))
        }
        Expression::HeredocTemplate(heredoc) => {
            heredoc.template.iter().find_map(|element| first_reference(&element.as_interpolation()?.expr))
        }
        Expression::Null(_)
        | Expression::Bool(_)
        | Expression::Number(_)
        | Expression::String(_)
        | Expression::Conditional(_)
        | Expression::FuncCall(_)
        | Expression::ForExpr(_) => None,
    }
}

fn variable_name(block: &Block) -> Evaluated<&str> {
    match &block.labels[..] {
        [name] => Ok(name.as_str()),
        [] => Err(Box::new(Fault::about(
            span(&block.ident),
            "Missing name for {}",
            "variable",
            "a variable block has one label, its name",
        ))),
        [_, second, ..] => Err(Box::new(Fault::about(
            span(second),
            "Extraneous label for {}",
            "variable",
            "a variable block has one label, its name",
        ))),
    }
}

fn variable(
    name: &str,
    block: &Block,
    given: &BTreeMap<String, Value>,
    evaluator: &Evaluator<'_>,
    faults: &Faults,
) -> Option<Value> {
    let (mut kind, mut default) = (None, None);
    for attribute in block.body.attributes() {
        match attribute.key.value().as_str() {
            "type" => kind = Some(faults.noted(Type::parse(&attribute.value))?),
            "default" => {
                default = Some((faults.noted(literal(&attribute.value, evaluator))?, &attribute.value));
            }
            "description" => {}
            other => {
                let detail =
                    format!("a variable has no {other:?}; it has type, default, description, validation");
                faults.note(Fault::new(span(&attribute.key), "Unsupported argument", detail));
            }
        }
    }
    let kind = kind.or_else(|| default.as_ref().map(|(default, _)| Type::of(default)));
    let (value, at) = faults.noted(chosen(name, default, &kind.unwrap_or(Type::Text), given, block))?;
    for inner in block.body.blocks() {
        match inner.ident.value().as_str() {
            "validation" => validate((name, &value, at.clone()), inner, evaluator, faults),
            _ => faults.note(unexpected_block(inner)),
        }
    }
    Some(value)
}

/// The value given for a variable, else its default, in its type; and where a fault of it is to be shown.
fn chosen(
    name: &str,
    default: Option<(Value, &Expression)>,
    kind: &Type,
    given: &BTreeMap<String, Value>,
    block: &Block,
) -> Evaluated<(Value, Range<usize>)> {
    let converted = |value: Value, at: Range<usize>| match kind.convert(value) {
        Ok(value) => Ok((value, at)),
        Err(detail) => {
            let detail = format!("the value of {name:?}: {detail}");
            Err(Box::new(Fault::new(at, "Invalid value for variable", detail)))
        }
    };
    let default = match default {
        Some((default, expression)) => Some(converted(default, span(expression))?),
        None => None,
    };
    match given.get(name) {
        Some(value) => converted(value.clone(), span(block)),
        None => default.ok_or_else(|| {
            let detail = "it has no default, so a value for it is to be given";
            Box::new(Fault::about(span(block), "Unset variable \"{}\"", name, detail))
        }),
    }
}

fn validate(
    (name, value, value_at): (&str, &Value, Range<usize>),
    block: &Block,
    evaluator: &Evaluator<'_>,
    faults: &Faults,
) {
    let required = |argument| {
        let attribute = block.body.get_attribute(argument);
        if attribute.is_none() {
            let detail = "a validation has a condition and an error_message";
            faults.note(Fault::new(span(block), "Missing required argument", detail));
        }
        attribute.map(|attribute| &attribute.value)
    };
    let (Some(condition), Some(message)) = (required("condition"), required("error_message")) else { return };
    let only = BTreeMap::from([(name.to_owned(), value.clone())]);
    let scope = Scope::default().with("var", Value::Object(only));
    let holds = faults.noted(evaluator.value(condition, &scope));
    let told = faults.noted(evaluator.value(message, &scope));
    let (Some(holds), Some(told)) = (holds, told) else { return };
    let told = told.to_text().unwrap_or_default();
    if told.trim().is_empty() {
        let detail = "it says what is wrong with a value";
        faults.note(Fault::new(span(message), "Invalid validation error message", detail));
    }
    if !evaluator.source.slice(span(condition)).contains(&format!("var.{name}")) {
        let detail = format!("the condition for {name:?} must refer to var.{name}");
        faults.note(Fault::new(span(condition), "Invalid variable validation condition", detail));
    }
    match holds.to_bool() {
        Some(true) => {}
        Some(false) => faults.note(Fault::about(value_at, "Invalid value for {} variable", name, told)),
        None => {
            faults.note(Fault::new(span(condition), "Incorrect condition type", "the condition is a bool"))
        }
    }
}

fn unexpected_block(block: &Block) -> Fault {
    let detail = format!("blocks of type {:?} are not expected here", block.ident.value().as_str());
    Fault::new(span(&block.ident), "Unsupported block type", detail)
}

/// Adds `local` to the scope. Locals may refer to one another in any order, so those that cannot be evaluated are tried
/// again for as long as others can.
fn locals(body: &Body, scope: Scope, evaluator: &Evaluator<'_>, faults: &Faults) -> Scope {
    let mut waiting: BTreeMap<&str, &Attribute> = BTreeMap::new();
    for block in body.get_blocks("locals") {
        if let Some(label) = block.labels.first() {
            let detail = "locals blocks have no label";
            faults.note(Fault::about(span(label), "Extraneous label for {}", "locals", detail));
        }
        waiting.extend(block.body.attributes().map(|attribute| (attribute.key.value().as_str(), attribute)));
        for inner in block.body.blocks() {
            faults.note(unexpected_block(inner));
        }
    }
    let mut values = BTreeMap::new();
    loop {
        let with_locals = scope.with("local", Value::Object(values.clone()));
        let mut failed = Vec::new();
        let before = values.len();
        waiting.retain(|name, attribute| match evaluator.value(&attribute.value, &with_locals) {
            Ok(value) => {
                values.insert((*name).to_owned(), value);
                false
            }
            Err(fault) => {
                failed.push(*fault);
                true
            }
        });
        if waiting.is_empty() || values.len() == before {
            // That others could not be evaluated either is no news.
            let is_cause = |fault: &Fault| fault.summary != "Unsupported attribute";
            let has_cause = failed.iter().any(is_cause);
            failed
                .into_iter()
                .filter(|fault| !has_cause || is_cause(fault))
                .for_each(|fault| faults.note(fault));
            return scope.with("local", Value::Object(values));
        }
    }
}
