//! Checks that the constraints of a job, its group and its tasks hold on the node.

use std::collections::BTreeSet;

use model::Text;
use model::job::{Constraint, Operand};
use state::NodeRef;

use super::{PlanCheck, versions};

pub(super) fn faults(check: &PlanCheck<'_>, faults: &mut Vec<String>) {
    for new in check.new_allocs() {
        let Some(node) = check.after.node(new.alloc.node_id()) else { continue };
        let group = new.group();
        let of_tasks = group.tasks.iter().flat_map(|task| &task.constraints);
        let constraints = new.job().spec.constraints.iter().chain(&group.constraints).chain(of_tasks);
        for constraint in constraints.filter(|constraint| !holds(constraint, node)) {
            let Constraint { l_target, operand, r_target } = constraint;
            faults.push(new.fault(format_args!("{l_target} {operand} {r_target} does not hold")));
        }
    }
}

/// Resolves the target of a constraint on a node. Returns `None` if the node has no such attribute.
pub(super) fn resolve(target: &str, node: NodeRef<'_>) -> Option<Text> {
    let Some(name) = target.strip_prefix("${") else { return Some(target.into()) };
    let name = name.strip_suffix('}')?;
    let spec = node.spec();
    match name {
        "node.unique.id" => Some(node.id().to_string().into()),
        "node.unique.name" => Some(Text::clone(&spec.name)),
        "node.datacenter" => Some(Text::clone(&spec.datacenter)),
        "node.class" => Some(Text::clone(&spec.node_class)),
        "node.pool" => Some(Text::clone(&spec.node_pool)),
        _ => match (name.strip_prefix("attr."), name.strip_prefix("meta.")) {
            (Some(name), _) => spec.attributes.get(name).cloned(),
            (_, Some(name)) => spec.meta.get(name).cloned(),
            (None, None) => None,
        },
    }
}

fn holds(constraint: &Constraint, node: NodeRef<'_>) -> bool {
    let [left, right] = [&constraint.l_target, &constraint.r_target].map(|target| resolve(target, node));
    let both = |test: &dyn Fn(&str, &str) -> bool| match (&left, &right) {
        (Some(left), Some(right)) => test(left, right),
        _ => false,
    };
    match constraint.operand {
        Operand::Equal | Operand::DoubleEqual | Operand::Is => both(&|left, right| left == right),
        Operand::NotEqual | Operand::Not => {
            left.as_deref().unwrap_or_default() != right.as_deref().unwrap_or_default()
        }
        Operand::Less => both(&|left, right| order(left, right).is_lt()),
        Operand::LessOrEqual => both(&|left, right| order(left, right).is_le()),
        Operand::Greater => both(&|left, right| order(left, right).is_gt()),
        Operand::GreaterOrEqual => both(&|left, right| order(left, right).is_ge()),
        Operand::IsSet => left.is_some(),
        Operand::IsNotSet => left.is_none(),
        Operand::Version => both(&|left, right| versions::holds(left, right, false)),
        Operand::Semver => both(&|left, right| versions::holds(left, right, true)),
        Operand::Regexp => {
            both(&|left, right| regex::Regex::new(right).is_ok_and(|regex| regex.is_match(left)))
        }
        Operand::SetContains | Operand::SetContainsAll => {
            both(&|left, right| set(right).is_subset(&set(left)))
        }
        Operand::SetContainsAny => both(&|left, right| !set(right).is_disjoint(&set(left))),
        Operand::DistinctHosts | Operand::DistinctProperty => true,
    }
}

fn set(list: &str) -> BTreeSet<&str> {
    list.split(',').map(str::trim).collect()
}

/// Compares numbers by value, and everything else by bytes.
fn order(left: &str, right: &str) -> std::cmp::Ordering {
    if let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) {
        return left.cmp(&right);
    }
    if let (Ok(left), Ok(right)) = (left.parse::<f64>(), right.parse::<f64>()) {
        return left.partial_cmp(&right).unwrap_or(std::cmp::Ordering::Equal);
    }
    left.cmp(right)
}
