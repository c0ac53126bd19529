//! Implied constraints: what the blocks of a job require of a node (N-17.6). Of the blocks that are built, signals and
//! bridge networks imply constraints.

use std::collections::BTreeSet;

use api_types::{Constraint, Job, TaskGroup};
use model::job::Operand;

use super::fields::{items, text};

/// Node attribute with the supported signals, separated by commas.
const SIGNALS: &str = "${attr.os.signals}";
/// The CNI plugins of bridge networks.
const BRIDGE_PLUGINS: [&str; 5] = ["bridge", "firewall", "host-local", "loopback", "portmap"];
/// The versions of these plugins that can be used.
const PLUGIN_VERSIONS: &str = ">= 0.4.0";

/// Adds the implied constraints that the job does not have yet.
pub(super) fn constrain(job: &mut Job) {
    for group in job.task_groups.iter_mut().flatten() {
        signals(group);
        bridge(group);
    }
}

/// Signals ask for nodes that know them, unless the same constraint is given.
fn signals(group: &mut TaskGroup) {
    let signals = items(&group.tasks).iter().map(|task| text(&task.kill_signal));
    let signals: BTreeSet<&str> = signals.filter(|signal| !signal.is_empty()).collect();
    if signals.is_empty() {
        return;
    }
    let implied = constraint(SIGNALS, Operand::SetContains, &Vec::from_iter(signals).join(","));
    let constraints = group.constraints.get_or_insert_default();
    if !constraints.contains(&implied) {
        constraints.push(implied);
    }
}

/// Bridge networks ask for nodes with their plugins, unless any constraint on the version of a plugin is given.
fn bridge(group: &mut TaskGroup) {
    if !items(&group.networks).iter().any(|network| text(&network.mode) == "bridge") {
        return;
    }
    let constraints = group.constraints.get_or_insert_default();
    for plugin in BRIDGE_PLUGINS {
        let target = format!("${{attr.plugins.cni.version.{plugin}}}");
        if constraints.iter().all(|given| text(&given.l_target) != target) {
            constraints.push(constraint(&target, Operand::Semver, PLUGIN_VERSIONS));
        }
    }
}

fn constraint(left: &str, operand: Operand, right: &str) -> Constraint {
    Constraint {
        l_target: Some(left.to_owned()),
        r_target: Some(right.to_owned()),
        operand: Some(operand.as_str().to_owned()),
    }
}
