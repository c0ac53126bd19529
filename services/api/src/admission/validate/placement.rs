//! Validation of constraints, affinities and spreads (N-19.2, N-19.15).

use api_types::{Affinity, Constraint, Spread};
use model::job::{JobType, Operand};
use model::text::quoted;

use crate::admission::fields::{items, number, text};
use crate::admission::problems::Problems;
use crate::regexp;

/// Maximum memory of a compiled regular expression, in bytes. Schedulers have the same limit.
const REGEX_BYTES_MAX: usize = 10 << 20;

/// Level of a constraint. Some operands are not allowed at every level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Job or group.
    Group,
    /// Task.
    Task,
}

/// Checks constraints. Problems name their position.
pub(crate) fn constraints(list: &Option<Vec<Constraint>>, level: Level) -> Problems {
    let mut problems = Problems::default();
    for (position, one) in (1..).zip(items(list)) {
        problems.nest(format_args!("Constraint {position} validation failed: "), &constraint(one, level));
    }
    problems
}

fn constraint(constraint: &Constraint, level: Level) -> Problems {
    let mut problems = Problems::default();
    let Ok(operand) = text(&constraint.operand).parse::<Operand>() else {
        problems.add(format!("Unknown constraint type {}", quoted(text(&constraint.operand))));
        return problems;
    };
    let (left, right) = (text(&constraint.l_target), text(&constraint.r_target));
    match operand {
        Operand::DistinctHosts | Operand::DistinctProperty if level == Level::Task => {
            problems.add(format!("disallowed constraint at task level: {operand}"));
        }
        Operand::DistinctProperty => {
            problems.add_if(left.is_empty(), || "No LTarget provided but is required by constraint");
            let count = right.parse::<u64>().is_ok_and(|count| count > 0);
            problems.add_if(!right.is_empty() && !count, || {
                format!("distinct_property takes a positive number of allocations, not {}", quoted(right))
            });
        }
        Operand::DistinctHosts => {}
        Operand::IsSet | Operand::IsNotSet => {
            problems.add_if(left.is_empty(), || "No LTarget provided but is required by constraint");
            problems.add_if(!right.is_empty(), || {
                format!("Operator {} does not support an RTarget", quoted(operand.as_str()))
            });
        }
        Operand::Regexp => {
            problems.add_if(left.is_empty(), || "No LTarget provided but is required by constraint");
            if let Err(error) = regexp::compile(right, REGEX_BYTES_MAX) {
                problems.add(format!("Regular expression failed to compile: {error}"));
            }
        }
        Operand::SetContains | Operand::SetContainsAll | Operand::SetContainsAny => {
            problems.add_if(right.is_empty(), || "Set contains constraint requires an RTarget");
        }
        Operand::Version | Operand::Semver => {
            problems.add_if(right.is_empty(), || "Version constraint requires an RTarget");
        }
        Operand::Equal
        | Operand::DoubleEqual
        | Operand::Is
        | Operand::NotEqual
        | Operand::Not
        | Operand::Less
        | Operand::LessOrEqual
        | Operand::Greater
        | Operand::GreaterOrEqual => {
            problems.add_if(left.is_empty(), || "No LTarget provided but is required by constraint");
        }
    }
    problems
}

/// Checks affinities. Problems name their position.
pub(crate) fn affinities(list: &Option<Vec<Affinity>>, kind: Option<JobType>) -> Problems {
    let mut problems = Problems::default();
    if kind == Some(JobType::System) && !items(list).is_empty() {
        problems.add("System jobs may not have an affinity block");
        return problems;
    }
    for (position, one) in (1..).zip(items(list)) {
        problems.nest(format_args!("Affinity {position} validation failed: "), &affinity(one));
    }
    problems
}

fn affinity(affinity: &Affinity) -> Problems {
    let mut problems = Problems::default();
    let operand = text(&affinity.operand);
    match operand.parse::<Operand>() {
        Ok(Operand::DistinctHosts | Operand::DistinctProperty) | Err(_) => {
            problems.add(format!("Unknown affinity operator {}", quoted(operand)));
        }
        Ok(Operand::Regexp) => {
            if let Err(error) = regexp::compile(text(&affinity.r_target), REGEX_BYTES_MAX) {
                problems.add(format!("Regular expression failed to compile: {error}"));
            }
        }
        Ok(_) => {}
    }
    let weight = number(affinity.weight);
    problems.add_if(weight == 0, || "Affinity weight cannot be zero");
    problems
        .add_if(!(-100..=100).contains(&weight), || "Affinity weight must be within the range [-100,100]");
    problems
}

/// Checks spreads. Problems name their position.
pub(crate) fn spreads(list: &Option<Vec<Spread>>, kind: Option<JobType>) -> Problems {
    let mut problems = Problems::default();
    if kind == Some(JobType::System) && !items(list).is_empty() {
        problems.add("System jobs may not have a spread block");
        return problems;
    }
    for (position, one) in (1..).zip(items(list)) {
        problems.nest(format_args!("Spread {position} validation failed: "), &spread(one));
    }
    problems
}

fn spread(spread: &Spread) -> Problems {
    let mut problems = Problems::default();
    problems.add_if(text(&spread.attribute).is_empty(), || "Missing spread attribute");
    let weight = number(spread.weight);
    problems
        .add_if(!(1..=100).contains(&weight), || "Spread block must have a positive weight from 0 to 100");
    let mut sum = 0_u64;
    let mut seen = std::collections::BTreeSet::new();
    for target in items(&spread.spread_target) {
        let (value, percent) = (text(&target.value), target.percent.unwrap_or_default());
        problems
            .add_if(!seen.insert(value), || format!("Spread target value {} already defined", quoted(value)));
        problems.add_if(percent > 100, || {
            format!("Spread target percentage for value {} must be between 0 and 100", quoted(value))
        });
        sum = sum.saturating_add(percent);
    }
    problems.add_if(sum > 100, || {
        format!("Sum of spread target percentages must not be greater than 100%; got {sum}%")
    });
    problems
}
