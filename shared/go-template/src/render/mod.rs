//! Renders a template within its limits.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use gotmpl::{MissingKey, TemplateError, Value};

use crate::functions::{self, World};
use crate::limits::{ITERATIONS_MAX, Limit, Meter, OUTPUT_BYTES_MAX, SOURCE_BYTES_MAX};
use crate::steps::{counted, each_function};
use crate::{Data, Error, Rendered, Template};

/// Renders a template. Data that is not known yet is listed in the result.
///
/// # Errors
/// If the template is not valid, fails, or exceeds a limit.
pub fn render(template: &Template<'_>, data: Arc<dyn Data>) -> Result<Rendered, Error> {
    if template.text.len() > SOURCE_BYTES_MAX {
        return Err(Error::Limit(Limit::Source));
    }
    let world = Arc::new(World { data, meter: Meter::default(), missing: Mutex::default() });
    let parsed = parsed(template, &world)?;
    let mut output = Output { world: &world, text: String::new() };
    // A template of white space only is not among those that are defined.
    let outcome = match parsed.lookup(template.name) {
        Some(_) => parsed.execute_template_fmt(&mut output, template.name, &Value::Nil),
        None => parsed.execute_fmt(&mut output, &Value::Nil),
    };
    let text = output.text;
    let missing = std::mem::take(&mut *world.missing.lock().unwrap_or_else(PoisonError::into_inner));
    match outcome {
        Ok(()) => Ok(Rendered { text, missing }),
        Err(error) => match limit_of(&error, &world.meter) {
            Some(limit) => Err(Error::Limit(limit)),
            // What failed may have needed the missing data.
            None if !missing.is_empty() => Ok(Rendered { text: String::new(), missing }),
            None => Err(Error::Failed(explained(template.name, error))),
        },
    }
}

fn parsed(template: &Template<'_>, world: &Arc<World>) -> Result<gotmpl::Template, Error> {
    let missing_key = if template.error_on_missing_key { MissingKey::Error } else { MissingKey::Invalid };
    let delimiter =
        |own: &str, default: &str| if own.is_empty() { default.to_owned() } else { own.to_owned() };
    let (left, right) = (delimiter(template.left, "{{"), delimiter(template.right, "}}"));
    let parsed = gotmpl::Template::new(template.name)
        .delims(&left, &right)
        .missing_key(missing_key)
        .max_range_iters(ITERATIONS_MAX)
        .funcs(functions::all(world, template.denied))
        .parse(template.text)
        .map_err(|error| Error::Invalid(explained(template.name, error)))?;
    let names: BTreeSet<String> = parsed.templates().into_iter().map(str::to_owned).collect();
    let mut counting = parsed;
    for name in &names {
        let Some(tree) = counting.lookup(name) else { continue };
        let mut unknown = None;
        each_function(tree, &mut |function| {
            if unknown.is_none() && !functions::is_known(function) {
                unknown = Some(function.to_owned());
            }
        });
        if let Some(function) = unknown {
            let reason = format!("template {:?}: function {function:?} not defined", template.name);
            return Err(Error::Invalid(reason));
        }
        let tree = counted(tree);
        counting = counting.add_parse_tree(name, tree);
    }
    Ok(counting)
}

/// The limit that an error stands for.
fn limit_of(error: &TemplateError, meter: &Meter) -> Option<Limit> {
    if let Some(limit) = meter.exceeded() {
        return Some(limit);
    }
    if matches!(error, TemplateError::RangeIterLimit) {
        return Some(Limit::Iterations);
    }
    matches!(error, TemplateError::RecursionLimit).then_some(Limit::Recursion)
}

/// The error as users see it.
fn explained(name: &str, error: TemplateError) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("execution error: ").unwrap_or(&text);
    // Errors of syntax name the template themselves.
    if text.starts_with("template: ") { text.to_owned() } else { format!("template {name:?}: {text}") }
}

/// The text that a template writes. Every piece counts as a step.
struct Output<'a> {
    world: &'a World,
    text: String,
}

impl fmt::Write for Output<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let World { data, meter, .. } = self.world;
        meter.step(|| data.is_out_of_time()).map_err(|_| fmt::Error)?;
        let length = self.text.len().saturating_add(piece.len());
        if u64::try_from(length).unwrap_or(u64::MAX) > OUTPUT_BYTES_MAX {
            return meter.exceed(Limit::Output).map_err(|_| fmt::Error);
        }
        self.text.push_str(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
