//! Evaluation of expressions: literals, references, collections, `for`. Operators and templates have files of their
//! own; what a value is then wanted for is `decode`'s business.

mod heredoc;
mod operators;
mod template;

use std::{cell::Cell, collections::BTreeMap, ops::Range, rc::Rc};

use hcl_edit::expr::{
    Conditional, Expression, ForExpr, FuncCall, Object, ObjectKey, Traversal, TraversalOperator,
};

use crate::{
    error::Fault,
    number::Number,
    source::{Source, span},
    value::Value,
};

pub(crate) type Evaluated<T = Value> = Result<T, Box<Fault>>;

/// Bytes that all values of one file may take together, copies included: what templates and loops make of a small
/// file knows no other bound.
const EXPANSION_BYTES_MAX: usize = 64 << 20;
/// Levels of expressions within expressions; the parser has a bound of its own, on which nothing here relies.
const DEPTH_MAX: u32 = 400;

/// Names and their values, innermost first. A clone shares everything.
#[derive(Clone, Default)]
pub(crate) struct Scope(Option<Rc<Binding>>);

struct Binding {
    name: String,
    value: Value,
    outer: Scope,
}

impl Scope {
    /// The same names and one more, which hides an earlier one.
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

/// Evaluates the expressions of one source within that source's bounds.
pub(crate) struct Evaluator<'a> {
    pub(crate) source: &'a Source<'a>,
    spent: Cell<usize>,
    depth: Cell<u32>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(source: &'a Source<'a>) -> Evaluator<'a> {
        Evaluator { source, spent: Cell::new(0), depth: Cell::new(0) }
    }

    /// What the expression is worth. References that no scope knows stay text (§4).
    pub(crate) fn value(&self, expression: &Expression, scope: &Scope) -> Evaluated {
        let at = span(expression);
        if self.depth.get() >= DEPTH_MAX {
            return Err(Box::new(Fault::new(
                at,
                "Expression too deep",
                format!("at most {DEPTH_MAX} levels"),
            )));
        }
        self.depth.set(self.depth.get() + 1);
        let value = self.unbounded(expression, scope, at.clone());
        self.depth.set(self.depth.get() - 1);
        self.spend(at, size_of::<Value>())?;
        value
    }

    fn unbounded(&self, expression: &Expression, scope: &Scope, at: Range<usize>) -> Evaluated {
        match expression {
            Expression::Null(_) => Ok(Value::Null),
            Expression::Bool(flag) => Ok(Value::Bool(*flag.value())),
            Expression::Number(_) => self.number(at),
            Expression::String(text) => Ok(Value::Text(text.value().clone())),
            Expression::Array(items) => {
                items.iter().map(|item| self.value(item, scope)).collect::<Result<_, _>>().map(Value::List)
            }
            Expression::Object(object) => self.object(object, scope),
            Expression::StringTemplate(template) => self.quoted(template, scope),
            Expression::HeredocTemplate(heredoc) => self.heredoc(heredoc, scope),
            Expression::Parenthesis(inner) => self.value(inner.inner(), scope),
            Expression::Variable(name) => self.reference(name.value().as_str(), &[], scope, at),
            Expression::Traversal(traversal) => self.traversal(traversal, scope, at),
            Expression::Conditional(conditional) => self.conditional(conditional, scope),
            Expression::UnaryOp(operation) => self.unary(operation, scope),
            Expression::BinaryOp(operation) => self.binary(operation, scope),
            Expression::ForExpr(expression) => self.for_expression(expression, scope),
            Expression::FuncCall(call) => Err(not_built(call, at)),
        }
    }

    /// Counts bytes that a value takes.
    fn spend(&self, at: Range<usize>, bytes: usize) -> Evaluated<()> {
        self.spent.set(self.spent.get().saturating_add(bytes));
        if self.spent.get() > EXPANSION_BYTES_MAX {
            let detail = format!("the values of the file take more than {EXPANSION_BYTES_MAX} bytes");
            return Err(Box::new(Fault::new(at, "Too much to evaluate", detail)));
        }
        Ok(())
    }

    fn number(&self, at: Range<usize>) -> Evaluated {
        let written = self.source.slice(at.clone());
        let (sign, digits) = written.strip_prefix('-').map_or(("", written), |rest| ("-", rest.trim_start()));
        match Number::parse(&format!("{sign}{digits}")) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(Box::new(Fault::not_built(at, &format!("a number like {written}")))),
        }
    }

    fn object(&self, object: &Object, scope: &Scope) -> Evaluated {
        let mut members = BTreeMap::new();
        for (key, value) in object {
            let key = match key {
                ObjectKey::Ident(name) => name.value().as_str().to_owned(),
                ObjectKey::Expression(key) => self.key(key, scope)?,
            };
            let value = self.value(value.expr(), scope)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }

    fn key(&self, key: &Expression, scope: &Scope) -> Evaluated<String> {
        let value = self.value(key, scope)?;
        value.to_text().ok_or_else(|| {
            let detail = format!("a key is a string, and this is of the kind {}", value.kind());
            Box::new(Fault::new(span(key), "Incorrect key type", detail))
        })
    }

    /// What is wrong with the result that is not chosen is nobody's concern.
    fn conditional(&self, conditional: &Conditional, scope: &Scope) -> Evaluated {
        let Conditional { cond_expr, true_expr, false_expr, .. } = conditional;
        let condition = self.value(cond_expr, scope)?;
        let Some(condition) = condition.to_bool() else {
            let detail = format!("the condition is a bool, and this is of the kind {}", condition.kind());
            return Err(Box::new(Fault::new(span(cond_expr), "Incorrect condition type", detail)));
        };
        let (chosen, other) = if condition { (true_expr, false_expr) } else { (false_expr, true_expr) };
        let chosen = self.value(chosen, scope)?;
        let Ok(other) = self.value(other, scope) else { return Ok(chosen) };
        unified(chosen, &other).map_err(|(chosen, other)| {
            let detail = format!("both results are of one kind, and these are {chosen} and {other}");
            Box::new(Fault::new(span(true_expr), "Inconsistent conditional result types", detail))
        })
    }

    fn traversal(&self, traversal: &Traversal, scope: &Scope, at: Range<usize>) -> Evaluated {
        let steps: Vec<&TraversalOperator> = traversal.operators.iter().map(|step| step.value()).collect();
        if let Expression::Variable(name) = &traversal.expr {
            return self.reference(name.value().as_str(), &steps, scope, at);
        }
        let value = self.value(&traversal.expr, scope)?;
        self.walk(value, &steps, scope, at)
    }

    /// What a name stands for, or the text of the reference where the node is to look it up.
    fn reference(
        &self,
        name: &str,
        steps: &[&TraversalOperator],
        scope: &Scope,
        at: Range<usize>,
    ) -> Evaluated {
        if let Some(value) = scope.get(name) {
            return self.walk_in(value, steps, scope, at);
        }
        // The text ends at a splat: that is for us to do, with the text.
        let splat = steps.iter().enumerate().find_map(|(step, operator)| match operator {
            TraversalOperator::AttrSplat(splat) | TraversalOperator::FullSplat(splat) => {
                Some((step, span(splat).start))
            }
            TraversalOperator::GetAttr(_)
            | TraversalOperator::Index(_)
            | TraversalOperator::LegacyIndex(_) => None,
        });
        let (own, end) = splat.unwrap_or((steps.len(), at.end));
        let written = self.source.slice(at.start..end);
        let written = if own < steps.len() { written.trim_end_matches(['.', '[', ' ']) } else { written };
        let text = format!("${{{written}}}");
        self.spend(at.clone(), text.len())?;
        self.walk(Value::Text(text), &steps[own..], scope, at)
    }

    /// As [`Self::walk`], but copies only what the first steps lead to.
    fn walk_in(
        &self,
        value: &Value,
        steps: &[&TraversalOperator],
        scope: &Scope,
        at: Range<usize>,
    ) -> Evaluated {
        if let (Value::Object(members), Some((TraversalOperator::GetAttr(name), rest))) =
            (value, steps.split_first().map(|(first, rest)| (*first, rest)))
        {
            let name = name.value().as_str();
            let member = members.get(name).ok_or_else(|| no_attribute(name, at.clone()))?;
            return self.walk_in(member, rest, scope, at);
        }
        self.spend(at.clone(), value.weight())?;
        self.walk(value.clone(), steps, scope, at)
    }

    fn walk(&self, value: Value, steps: &[&TraversalOperator], scope: &Scope, at: Range<usize>) -> Evaluated {
        let Some((step, rest)) = steps.split_first() else { return Ok(value) };
        match step {
            TraversalOperator::GetAttr(name) => {
                let member = self.attribute(value, name.value().as_str(), at.clone())?;
                self.walk(member, rest, scope, at)
            }
            TraversalOperator::LegacyIndex(index) => {
                let index =
                    Value::Number(Number::parse(&index.value().to_string()).unwrap_or(Number::from(0)));
                self.walk(indexed(value, &index, at.clone())?, rest, scope, at)
            }
            TraversalOperator::Index(index) => {
                let key = self.value(index, scope)?;
                self.walk(indexed(value, &key, span(index))?, rest, scope, at)
            }
            TraversalOperator::AttrSplat(_) => {
                // It reaches as far as attributes do; an index is one of the resulting list.
                let reach =
                    rest.iter().take_while(|step| matches!(step, TraversalOperator::GetAttr(_))).count();
                let each = self.splat(value, &rest[..reach], scope, at.clone())?;
                self.walk(each, &rest[reach..], scope, at)
            }
            TraversalOperator::FullSplat(_) => self.splat(value, rest, scope, at),
        }
    }

    fn splat(
        &self,
        value: Value,
        steps: &[&TraversalOperator],
        scope: &Scope,
        at: Range<usize>,
    ) -> Evaluated {
        let values = match value {
            Value::List(values) => values,
            Value::Null => Vec::new(),
            single @ (Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Object(_)) => vec![single],
        };
        values
            .into_iter()
            .map(|value| self.walk(value, steps, scope, at.clone()))
            .collect::<Result<_, _>>()
            .map(Value::List)
    }

    fn attribute(&self, value: Value, name: &str, at: Range<usize>) -> Evaluated {
        match value {
            Value::Object(mut members) => members.remove(name).ok_or_else(|| no_attribute(name, at)),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_)) => {
                let detail =
                    format!("a value of the kind {} has no attributes, such as {name:?}", other.kind());
                Err(Box::new(Fault::new(at, "Unsupported attribute", detail)))
            }
        }
    }

    fn for_expression(&self, expression: &ForExpr, scope: &Scope) -> Evaluated {
        let intro = &expression.intro;
        let items = self.items(&intro.collection_expr, scope)?;
        let names =
            (intro.key_var.as_ref().map(|name| name.value().as_str()), intro.value_var.value().as_str());
        let (mut list, mut object) = (Vec::new(), BTreeMap::new());
        for (key, value) in items {
            let scope = bound(scope, names, key, value);
            if let Some(condition) = &expression.cond {
                let condition = &condition.expr;
                let holds = self.value(condition, &scope)?.to_bool().ok_or_else(|| {
                    Box::new(Fault::new(
                        span(condition),
                        "Invalid 'for' condition",
                        "the condition is a bool",
                    ))
                })?;
                if !holds {
                    continue;
                }
            }
            let value = self.value(&expression.value_expr, &scope)?;
            let Some(key_expression) = &expression.key_expr else {
                list.push(value);
                continue;
            };
            let key = self.key(key_expression, &scope)?;
            if expression.grouping {
                let group = object.entry(key).or_insert_with(|| Value::List(Vec::new()));
                if let Value::List(group) = group {
                    group.push(value);
                }
            } else if object.insert(key.clone(), value).is_some() {
                let detail =
                    format!("the key {key:?} comes twice; group the values with ... if that is meant");
                return Err(Box::new(Fault::new(span(key_expression), "Duplicate object key", detail)));
            }
        }
        Ok(if expression.key_expr.is_some() { Value::Object(object) } else { Value::List(list) })
    }

    /// Keys and values of a collection: of a list, its indexes.
    pub(crate) fn items(&self, collection: &Expression, scope: &Scope) -> Evaluated<Vec<(Value, Value)>> {
        match self.value(collection, scope)? {
            Value::List(values) => Ok(values
                .into_iter()
                .enumerate()
                .map(|(index, value)| (Value::Number(index.into()), value))
                .collect()),
            Value::Object(members) => {
                Ok(members.into_iter().map(|(key, value)| (Value::Text(key), value)).collect())
            }
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_)) => {
                let detail = format!("a value of the kind {} has no elements to go through", other.kind());
                Err(Box::new(Fault::new(span(collection), "Iteration over non-iterable value", detail)))
            }
        }
    }
}

/// The scope of one round of a loop.
fn bound(scope: &Scope, (key_name, value_name): (Option<&str>, &str), key: Value, value: Value) -> Scope {
    let scope = match key_name {
        Some(name) => scope.with(name, key),
        None => scope.clone(),
    };
    scope.with(value_name, value)
}

fn not_built(call: &FuncCall, at: Range<usize>) -> Box<Fault> {
    Box::new(Fault::not_built(at, &format!("a call of a function, such as {}(…),", call.name.name.value())))
}

fn no_attribute(name: &str, at: Range<usize>) -> Box<Fault> {
    Box::new(Fault::new(at, "Unsupported attribute", format!("this object has no attribute {name:?}")))
}

fn indexed(value: Value, key: &Value, at: Range<usize>) -> Evaluated {
    let fault = |detail: String| Err(Box::new(Fault::new(at.clone(), "Invalid index", detail)));
    match value {
        Value::List(mut values) => match key
            .to_number()
            .and_then(Number::to_u64)
            .and_then(|at| usize::try_from(at).ok())
        {
            Some(index) if index < values.len() => Ok(values.swap_remove(index)),
            _ => fault(format!("the indexes of this list are the numbers from 0 to below {}", values.len())),
        },
        Value::Object(mut members) => match key.to_text().and_then(|key| members.remove(&key)) {
            Some(value) => Ok(value),
            None => fault("this object has no such key".to_owned()),
        },
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_)) => {
            fault(format!("a value of the kind {} has no elements", other.kind()))
        }
    }
}

/// The chosen value in a kind that the other could have, too; else the kinds of both.
fn unified(chosen: Value, other: &Value) -> Result<Value, (&'static str, &'static str)> {
    let kinds = (chosen.kind(), other.kind());
    match (&chosen, other) {
        (Value::Null, _) | (_, Value::Null) => Ok(chosen),
        (Value::Text(_), _) | (_, Value::Text(_)) if other.to_text().is_some() => {
            chosen.to_text().map(Value::Text).ok_or(kinds)
        }
        _ if kinds.0 == kinds.1 => Ok(chosen),
        _ => Err(kinds),
    }
}
