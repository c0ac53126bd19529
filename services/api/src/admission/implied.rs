//! What a job's blocks ask of nodes without saying so (N-17.6). Of the blocks that are built, only signals do.

use std::collections::BTreeSet;

use api_types::{Constraint, Job};
use model::job::Operand;

use super::fields::{items, text};

/// The signals that a node knows, with commas between them.
const SIGNALS: &str = "${attr.os.signals}";

/// Adds the constraints that follow, each once.
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
