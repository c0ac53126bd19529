//! Locals: named values, which may refer to each other in any order (§6).

use std::collections::BTreeMap;

use crate::{
    decode::{Block, Decoder},
    eval::Scope,
    fault::Fault,
    members::UNSUPPORTED_ATTRIBUTE,
    syntax::{Attribute, Body},
    value::Value,
};

/// Maximum number of passes over the locals of a file. Real job files have no longer chains of locals in reverse order.
const ROUNDS_MAX: usize = 200;

/// Adds `local` to the scope. Locals that cannot be evaluated are retried as long as a pass evaluates any others.
pub(super) fn scope_with_locals(body: &Body, scope: Scope, decoder: &Decoder<'_>) -> Scope {
    let mut pending: BTreeMap<String, Attribute> = BTreeMap::new();
    for block in Block::top(decoder, body, "locals", 0) {
        let attributes = block.read(|block| block.all_attributes());
        pending.extend(attributes.into_iter().map(|attribute| (attribute.name.clone(), attribute)));
    }
    let mut values = BTreeMap::new();
    for round in 0..=ROUNDS_MAX {
        let known = Value::object(values.clone());
        // Each pass copies the known values.
        if let Err(fault) = decoder.evaluator.environment.spend(&(0..0), known.cost().bytes) {
            decoder.faults.record(*fault);
            break;
        }
        let scope_with_locals = scope.with("local", known);
        let mut failed = Vec::new();
        let before = values.len();
        pending.retain(|name, attribute| {
            match decoder.evaluator.value(&attribute.value, &scope_with_locals) {
                Ok(value) => {
                    values.insert(name.clone(), value);
                    false
                }
                Err(fault) => {
                    failed.push(*fault);
                    true
                }
            }
        });
        if pending.is_empty() || values.len() == before || round == ROUNDS_MAX {
            record_causes(failed, decoder);
            break;
        }
    }
    scope.with("local", Value::object(values))
}

/// Records the errors. Leaves out those that only follow from other failed locals.
fn record_causes(failed: Vec<Fault>, decoder: &Decoder<'_>) {
    let is_cause = |fault: &Fault| fault.summary != UNSUPPORTED_ATTRIBUTE;
    let has_cause = failed.iter().any(is_cause);
    let causes = failed.into_iter().filter(|fault| !has_cause || is_cause(fault));
    causes.for_each(|fault| decoder.faults.record(fault));
}
