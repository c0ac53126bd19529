//! Values that are given for a file's variables, and their sources (§5).

use std::{borrow::Cow, collections::BTreeMap};

use super::literal;
use crate::{
    error::{Error, Faults, single_error},
    eval::Evaluator,
    fault::{Evaluated, Fault},
    position::At,
    source::Source,
    syntax::{self, Attribute},
    value::Value,
};

/// Prefix of environment variables that contain values for a job file's variables.
pub const VARIABLE_PREFIX: &str = "NOMAD_VAR_";

/// Values for variables from one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variables {
    /// An environment variable, without [`VARIABLE_PREFIX`]. Values for undeclared variables are always ignored.
    Environment {
        /// Name of the variable.
        name: String,
        /// The text of the value. If the declared type of the variable is neither string nor number, the text is parsed as an
        /// expression.
        value: String,
    },
    /// A file of attributes, `name = value`, or an object in JSON.
    File {
        /// The file name for positions in errors. The file is read as JSON if its name ends in `.json` or its text begins with
        /// a brace.
        name: String,
        /// The text of the file.
        text: String,
    },
    /// A flag on the command line.
    Flag {
        /// Name of the variable.
        name: String,
        /// The text of the value, interpreted as that of an environment variable.
        value: String,
    },
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    Environment,
    File,
    Flag,
}

impl Origin {
    pub(super) fn name(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Environment => "env",
            Origin::File => "varfile",
            Origin::Flag => "cmd",
        }
    }
}

/// A given value.
pub(super) struct GivenValue<'o> {
    pub(super) origin: Origin,
    content: Content<'o>,
}

enum Content<'o> {
    /// Text that is used as text or parsed as an expression, depending on the variable's type.
    Text(&'o str),
    Value(Value, usize, At),
}

/// All given values. If a name occurs several times, the last value applies.
pub(super) fn collect<'o>(
    variables: &'o [Variables],
    evaluator: &Evaluator<'_>,
    sources: &mut Vec<Source<'o>>,
) -> Result<BTreeMap<String, GivenValue<'o>>, Error> {
    let (mut given, faults) = (BTreeMap::new(), Faults::default());
    for entry in variables {
        match entry {
            Variables::Environment { name, value } => {
                let content = Content::Text(value);
                given.insert(name.clone(), GivenValue { origin: Origin::Environment, content });
            }
            Variables::Flag { name, value } => {
                let content = Content::Text(value);
                given.insert(name.clone(), GivenValue { origin: Origin::Flag, content });
            }
            Variables::File { name, text } => {
                let source = sources.len();
                sources.push(Source::new(name.as_str(), text));
                let attributes = file(&sources[source], &faults, source)
                    .map_err(|fault| single_error(fault.in_source(source), sources))?;
                for attribute in attributes {
                    let at = attribute.value.at.clone();
                    let value = literal(&attribute.value, evaluator);
                    let value = value.map_err(|fault| Box::new(fault.in_source(source)));
                    let Some(value) = faults.ok_or_record(value) else { continue };
                    let content = Content::Value(value, source, at);
                    given.insert(attribute.name, GivenValue { origin: Origin::File, content });
                }
            }
        }
    }
    faults.finish(sources)?;
    Ok(given)
}

/// The attributes in a file of values.
fn file(source: &Source<'_>, faults: &Faults, index: usize) -> Result<Vec<Attribute>, Fault> {
    if let Some(fault) = source.oversize() {
        return Err(fault);
    }
    if source.name.ends_with(".json") || source.text.trim_start().starts_with('{') {
        return syntax::json::attributes(source.text).map_err(|fault| *fault);
    }
    let body = syntax::literal_body(source.text).map_err(|fault| *fault)?;
    for block in &body.blocks {
        let (summary, detail) = match block.kind.as_str() {
            "variable" | "variables" => (
                "Variable declaration in a .var file",
                "a file of values contains only name = value; declare variables in the job file".to_owned(),
            ),
            other => (
                "Unsupported block type",
                format!("a file of values must not contain blocks, but has one of type {other:?}"),
            ),
        };
        faults.record(Fault::new(block.kind_at.clone(), summary, detail).in_source(index));
    }
    Ok(body.attributes)
}

impl<'o> GivenValue<'o> {
    /// The value, the index of its source, and its position. Text is parsed as an expression unless `takes_text`.
    pub(super) fn value(
        &self,
        name: &str,
        takes_text: bool,
        evaluator: &Evaluator<'_>,
        sources: &mut Vec<Source<'o>>,
    ) -> Evaluated<(Value, usize, At)> {
        let text = match &self.content {
            Content::Value(value, source, at) => return Ok((value.clone(), *source, at.clone())),
            Content::Text(text) => *text,
        };
        let source = sources.len();
        let origin = if self.origin == Origin::Environment { "the environment" } else { "arguments" };
        sources.push(Source::new(Cow::Owned(format!("<value for var.{name} from {origin}>")), text));
        let at = 0..text.len();
        if takes_text {
            return Ok((Value::text(text), source, at));
        }
        let parsed = syntax::expression(sources[source].text);
        let value = parsed.and_then(|expression| literal(&expression, evaluator));
        value.map(|value| (value, source, at)).map_err(|fault| Box::new(fault.in_source(source)))
    }
}
