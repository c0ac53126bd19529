//! Locals: values with names, which may refer to one another in any order (§6).

use std::collections::BTreeMap;

use crate::{
    decode::{Block, Decoder},
    error::Fault,
    eval::{Scope, UNSUPPORTED_ATTRIBUTE},
    syntax::{Attribute, Body},
    value::Value,
};

/// How often the locals of a file are tried, at most; a chain as long as this in the wrong order is no job file's.
const ROUNDS_MAX: usize = 200;

/// Adds `local` to the scope. Those that cannot be evaluated are tried again for as long as others can.
pub(super) fn with_locals(body: &Body, scope: Scope, decoder: &Decoder<'_>) -> Scope {
    let mut waiting: BTreeMap<String, Attribute> = BTreeMap::new();
    for block in Block::top(decoder, body, "locals", 0) {
        let attributes = block.read(|block| block.just_attributes());
        waiting.extend(attributes.into_iter().map(|attribute| (attribute.name.clone(), attribute)));
    }
    let mut values = BTreeMap::new();
    for round in 0..=ROUNDS_MAX {
        let known = Value::object(values.clone());
        // Each round takes a copy of what is known.
        if let Err(fault) = decoder.evaluator.spend(&(0..0), known.weight()) {
            decoder.faults.note(*fault);
            break;
        }
        let with_locals = scope.with("local", known);
        let mut failed = Vec::new();
        let before = values.len();
        waiting.retain(|name, attribute| match decoder.evaluator.value(&attribute.value, &with_locals) {
            Ok(value) => {
                values.insert(name.clone(), value);
                false
            }
            Err(fault) => {
                failed.push(*fault);
                true
            }
        });
        if waiting.is_empty() || values.len() == before || round == ROUNDS_MAX {
            note(failed, decoder);
            break;
        }
    }
    scope.with("local", Value::object(values))
}

/// That others could not be evaluated either is no news.
fn note(failed: Vec<Fault>, decoder: &Decoder<'_>) {
    let is_cause = |fault: &Fault| fault.summary != UNSUPPORTED_ATTRIBUTE;
    let has_cause = failed.iter().any(is_cause);
    let causes = failed.into_iter().filter(|fault| !has_cause || is_cause(fault));
    causes.for_each(|fault| decoder.faults.note(fault));
}
