//! Templates: text with `${…}` and `%{…}` in it, quoted or as a heredoc (§2, §3).

use std::collections::BTreeMap;

use hcl_edit::{
    Span as _,
    expr::Expression,
    template::{
        Directive, Element, ForDirective, HeredocTemplate, IfDirective, Interpolation, StringTemplate, Strip,
        Template,
    },
};

use crate::{
    error::Fault,
    eval::{
        Evaluated, Evaluator, Scope, bound,
        heredoc::{Literals, dedented},
    },
    source::span,
    value::Value,
};

impl Evaluator<'_> {
    /// A quoted template; one that is nothing but an interpolation has the value of that, with its kind.
    pub(super) fn quoted(&self, quoted: &StringTemplate, scope: &Scope) -> Evaluated {
        let elements: Vec<&Element> = quoted.iter().collect();
        if let [Element::Interpolation(single)] = elements[..] {
            return self.interpolated(single, scope);
        }
        self.text(&elements, scope, &Literals::Quoted, (false, false)).map(Value::Text)
    }

    pub(super) fn heredoc(&self, heredoc: &HeredocTemplate, scope: &Scope) -> Evaluated {
        let elements: Vec<&Element> = heredoc.template.iter().collect();
        let is_indented = self.source.slice(span(heredoc)).starts_with("<<-");
        let dedented = if is_indented { dedented(&heredoc.template, self.source) } else { BTreeMap::new() };
        self.text(&elements, scope, &Literals::Lines(dedented), (false, false)).map(Value::Text)
    }

    /// The text of all elements. `trimmed` tells whether the markers around them take white space from their ends.
    fn text(
        &self,
        elements: &[&Element],
        scope: &Scope,
        literals: &Literals,
        trimmed: (bool, bool),
    ) -> Evaluated<String> {
        let mut text = String::new();
        for (at, element) in elements.iter().enumerate() {
            let before = at.checked_sub(1).map_or(trimmed.0, |before| strips(elements[before]).1);
            let after = elements.get(at + 1).map_or(trimmed.1, |after| strips(after).0);
            let part = match element {
                Element::Literal(literal) => literals.text(literal, (before, after)),
                Element::Interpolation(interpolation) => self.interpolated_text(interpolation, scope)?,
                Element::Directive(directive) => match directive.as_ref() {
                    Directive::If(directive) => self.chosen(directive, scope, literals)?,
                    Directive::For(directive) => self.repeated(directive, scope, literals)?,
                },
            };
            self.spend(element.span().unwrap_or_default(), part.len())?;
            text.push_str(&part);
        }
        Ok(text)
    }

    fn interpolated_text(&self, interpolation: &Interpolation, scope: &Scope) -> Evaluated<String> {
        let value = self.interpolated(interpolation, scope)?;
        value.to_text().ok_or_else(|| {
            let detail = format!(
                "a template holds strings, numbers and bools, and this is of the kind {}",
                value.kind()
            );
            Box::new(Fault::new(span(&interpolation.expr), "Invalid template interpolation value", detail))
        })
    }

    /// A reference for the node keeps the spaces inside its braces.
    fn interpolated(&self, interpolation: &Interpolation, scope: &Scope) -> Evaluated {
        let Interpolation { expr, .. } = interpolation;
        let value = self.value(expr, scope)?;
        let (whole, inner) = (interpolation.span().unwrap_or_default(), span(expr));
        let reference = self.source.slice(inner.clone());
        let is_reference = matches!(expr, Expression::Variable(_) | Expression::Traversal(_));
        if !is_reference || value != Value::Text(format!("${{{reference}}}")) {
            return Ok(value);
        }
        let before = self.source.slice(whole.start..inner.start).trim_start_matches("${");
        let after = self.source.slice(inner.end..whole.end).trim_end_matches('}');
        // Comments and strip markers are not part of the reference, nor is the space beside them.
        let spaces = |around: &str| match around.trim() {
            "" => around.to_owned(),
            _ => String::new(),
        };
        Ok(Value::Text(format!("${{{}{reference}{}}}", spaces(before), spaces(after))))
    }

    fn chosen(&self, directive: &IfDirective, scope: &Scope, literals: &Literals) -> Evaluated<String> {
        let IfDirective { if_expr, else_expr, endif_expr, .. } = directive;
        let condition = self.value(&if_expr.cond_expr, scope)?.to_bool().ok_or_else(|| {
            Box::new(Fault::new(
                span(&if_expr.cond_expr),
                "Incorrect condition type",
                "the condition is a bool",
            ))
        })?;
        let end_of_if = else_expr.as_ref().map_or(endif_expr.strip, |otherwise| otherwise.strip);
        match (condition, else_expr) {
            (true, _) => self.body(&if_expr.template, scope, literals, (if_expr.strip, end_of_if)),
            (false, Some(otherwise)) => {
                self.body(&otherwise.template, scope, literals, (otherwise.strip, endif_expr.strip))
            }
            (false, None) => Ok(String::new()),
        }
    }

    fn repeated(&self, directive: &ForDirective, scope: &Scope, literals: &Literals) -> Evaluated<String> {
        let ForDirective { for_expr, endfor_expr, .. } = directive;
        let names = (
            for_expr.key_var.as_ref().map(|name| name.value().as_str()),
            for_expr.value_var.value().as_str(),
        );
        let mut text = String::new();
        for (key, value) in self.items(&for_expr.collection_expr, scope)? {
            let scope = bound(scope, names, key, value);
            let markers = (for_expr.strip, endfor_expr.strip);
            text.push_str(&self.body(&for_expr.template, &scope, literals, markers)?);
        }
        Ok(text)
    }

    fn body(
        &self,
        template: &Template,
        scope: &Scope,
        literals: &Literals,
        (opened, closed): (Strip, Strip),
    ) -> Evaluated<String> {
        let elements: Vec<&Element> = template.iter().collect();
        self.text(&elements, scope, literals, (opened.strip_end(), closed.strip_start()))
    }
}

/// Whether an element takes the white space before it, and after it.
fn strips(element: &Element) -> (bool, bool) {
    match element {
        Element::Literal(_) => (false, false),
        Element::Interpolation(interpolation) => {
            (interpolation.strip.strip_start(), interpolation.strip.strip_end())
        }
        Element::Directive(directive) => match directive.as_ref() {
            Directive::If(directive) => {
                (directive.if_expr.strip.strip_start(), directive.endif_expr.strip.strip_end())
            }
            Directive::For(directive) => {
                (directive.for_expr.strip.strip_start(), directive.endfor_expr.strip.strip_end())
            }
        },
    }
}
