//! Implied constraints: what the blocks of a job require of a node (N-17.6). Of the blocks that are built, only signals
//! imply a constraint.

use std::collections::BTreeSet;

use api_types::{Constraint, Job};
use model::job::Operand;

use super::fields::{items, text};

/// Node attribute with the supported signals, separated by commas.
const SIGNALS: &str = "${attr.os.signals}";

/// Adds the implied constraints that the job does not have yet.
pub(super) fn constrain(job: &mut Job) {
    for group in job.task_groups.iter_mut().flatten() {
        let signals = items(&group.tasks).iter().map(|task| text(&task.kill_signal));
        let signals: BTreeSet<&str> = signals.filter(|signal| !signal.is_empty()).collect();
        if signals.is_empty() {
            continue;
        }
        let implied = Constraint {
            l_target: Some(SIGNALS.to_owned()),
            r_target: Some(Vec::from_iter(signals).join(",")),
            operand: Some(Operand::SetContains.as_str().to_owned()),
        };
        let constraints = group.constraints.get_or_insert_default();
        if !constraints.contains(&implied) {
            constraints.push(implied);
        }
    }
}
