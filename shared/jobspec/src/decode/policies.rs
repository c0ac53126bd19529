//! Blocks that jobs, groups and tasks share and that control placement, restarts, rescheduling and updates.

use api_types::{
    Affinity, Constraint, DisconnectStrategy, MigrateStrategy, ReschedulePolicy, RestartPolicy,
    ScalingPolicy, Spread, SpreadTarget, UpdateStrategy,
};

use super::block::Block;
use crate::{fault::Fault, position::At};

pub(super) fn update(block: &mut Block<'_>) -> UpdateStrategy {
    UpdateStrategy {
        stagger: block.duration("stagger"),
        max_parallel: block.int("max_parallel"),
        health_check: block.text("health_check"),
        min_healthy_time: block.duration("min_healthy_time"),
        healthy_deadline: block.duration("healthy_deadline"),
        progress_deadline: block.duration("progress_deadline"),
        auto_revert: block.flag("auto_revert"),
        auto_promote: block.flag("auto_promote"),
        canary: block.int("canary"),
    }
}

pub(super) fn migrate(block: &mut Block<'_>) -> MigrateStrategy {
    MigrateStrategy {
        max_parallel: block.int("max_parallel"),
        health_check: block.text("health_check"),
        min_healthy_time: block.duration("min_healthy_time"),
        healthy_deadline: block.duration("healthy_deadline"),
    }
}

pub(super) fn restart(block: &mut Block<'_>) -> RestartPolicy {
    RestartPolicy {
        attempts: block.int("attempts"),
        interval: block.duration("interval"),
        delay: block.duration("delay"),
        mode: block.text("mode"),
        render_templates: block.flag("render_templates"),
    }
}

pub(super) fn reschedule(block: &mut Block<'_>) -> ReschedulePolicy {
    ReschedulePolicy {
        attempts: block.int("attempts"),
        interval: block.duration("interval"),
        delay: block.duration("delay"),
        delay_function: block.text("delay_function"),
        max_delay: block.duration("max_delay"),
        unlimited: block.flag("unlimited"),
    }
}

pub(super) fn disconnect(block: &mut Block<'_>) -> DisconnectStrategy {
    DisconnectStrategy {
        lost_after: block.duration("lost_after"),
        stop_on_client_after: block.duration("stop_on_client_after"),
        replace: block.flag("replace"),
        reconcile: block.text("reconcile"),
    }
}

/// A constraint, with its short forms such as `version = ">= 1"` instead of an operator and a value. If there are several,
/// the last in the order below applies. An empty text counts as absent.
pub(super) fn constraint(block: &mut Block<'_>) -> Constraint {
    let mut constraint = Constraint {
        l_target: block.text_or_empty("attribute"),
        r_target: block.text_or_empty("value"),
        operand: block.text("operator").filter(|operator| !operator.is_empty()),
    };
    for operand in ["version", "semver", "regexp", "set_contains"] {
        if let Some(value) = block.text(operand).filter(|value| !value.is_empty()) {
            (constraint.operand, constraint.r_target) = (Some(operand.to_owned()), Some(value));
        }
    }
    if let Some(distinct) = block.flag("distinct_hosts") {
        (constraint.operand, constraint.r_target) =
            (Some("distinct_hosts".to_owned()), Some(distinct.to_string()));
    }
    if let Some(property) = block.text("distinct_property").filter(|property| !property.is_empty()) {
        (constraint.operand, constraint.l_target) = (Some("distinct_property".to_owned()), Some(property));
    }
    // These four are valid operators. As short forms they are accepted and ignored (§9.1).
    for unused in ["set_contains_all", "set_contains_any", "is_set", "is_not_set"] {
        block.text(unused);
    }
    constraint.operand.get_or_insert_with(|| "=".to_owned());
    constraint
}

/// An affinity, with the same short forms as a constraint. The weight is a whole number of eight bits (§9.1).
pub(super) fn affinity(block: &mut Block<'_>) -> Affinity {
    let mut affinity = Affinity {
        l_target: block.text_or_empty("attribute"),
        r_target: block.text_or_empty("value"),
        operand: block.text("operator").filter(|operator| !operator.is_empty()),
        weight: block.int_within("weight", -128..=127),
    };
    for operand in ["version", "semver", "regexp", "set_contains_any", "set_contains_all", "set_contains"] {
        if let Some(value) = block.text(operand).filter(|value| !value.is_empty()) {
            (affinity.operand, affinity.r_target) = (Some(operand.to_owned()), Some(value));
        }
    }
    affinity.operand.get_or_insert_with(|| "=".to_owned());
    affinity
}

pub(super) fn spread(block: &mut Block<'_>) -> Spread {
    Spread {
        attribute: block.text("attribute"),
        weight: block.int_within("weight", 0..=255),
        spread_target: block.labelled("target", |target| SpreadTarget {
            value: target.label(),
            percent: Some(target.int_within("percent", 0..=255).map_or(0, i64::unsigned_abs)),
        }),
    }
}

/// Scaling of a group's count.
pub(super) fn group_scaling(block: &mut Block<'_>) -> ScalingPolicy {
    let at = block.attribute("type").map_or(block.at(), |attribute| attribute.value.at.clone());
    scaling(block.required("max"), Some("horizontal"), at)
}

/// Scaling of a task's resource, which the label names, in small or capital letters.
pub(super) fn task_scaling(block: &mut Block<'_>) -> ScalingPolicy {
    let kind = match block.label().map(|label| label.to_lowercase()).as_deref() {
        Some("cpu") => Some("vertical_cpu"),
        Some("mem") => Some("vertical_mem"),
        Some(_) => {
            let detail = "the label of a task's scaling is \"cpu\" or \"mem\"";
            block.record(Fault::new(block.at(), "Invalid scaling policy name", detail));
            None
        }
        None => None,
    };
    let at = block.at();
    scaling(block, kind, at)
}

/// A scaling policy. Its position determines the type. An explicit type must be the same.
fn scaling(block: &mut Block<'_>, kind: Option<&str>, type_at: At) -> ScalingPolicy {
    let given = block.text("type").filter(|given| !given.is_empty());
    if let (Some(kind), Some(given)) = (kind, given)
        && kind != given
    {
        let detail = format!("the type is {kind:?} here, not {given:?}");
        block.record(Fault::new(type_at, "Invalid scaling policy type", detail));
    }
    ScalingPolicy {
        id: Some(String::new()),
        r#type: kind.map(str::to_owned),
        min: block.int("min"),
        max: block.int("max"),
        enabled: block.flag("enabled"),
        policy: block.free_form("policy"),
        create_index: Some(0),
        modify_index: Some(0),
        namespace: Some(String::new()),
        ..ScalingPolicy::default()
    }
}
