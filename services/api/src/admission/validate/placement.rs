//! Validation of constraints, affinities and spreads (N-19.2, N-19.15).

use api_types::{Affinity, Constraint, Job, Spread};
use model::job::{JobType, Operand};
use model::pattern::PatternCost;
use model::text::quoted;

use crate::admission::fields::{items, number, text};
use crate::admission::problems::Problems;
use crate::regexp;

/// Maximum memory of a compiled regular expression, in bytes. Schedulers have the same limit.
const REGEX_BYTES_MAX: usize = 10 << 20;
/// Maximum number of transitions, and of states, of all regular expressions of a job together. Every evaluation of the job
/// compiles all of them, which takes some 100 ns for each transition.
const TRANSITIONS_MAX: u64 = 1_000_000;
const STATES_MAX: u64 = 20_000;

/// Checks the size of all regular expressions of a job. Those that are too large must not be compiled.
pub(crate) fn expressions(job: &Job) -> Problems {
    let (mut transitions, mut states) = (0_u64, 0_u64);
    let mut problems = Problems::default();
    for expression in expressions_of(job) {
        let shown = || quoted(regexp::shortened(expression));
        let cost = match PatternCost::of(expression, TRANSITIONS_MAX) {
            Ok(cost) => cost,
            Err(too_large) => {
                problems.add(format!("Regular expression {} is too large: {too_large}", shown()));
                return problems;
            }
        };
        transitions = transitions.saturating_add(cost.transitions);
        states = states.saturating_add(cost.states);
        if transitions > TRANSITIONS_MAX || states > STATES_MAX {
            problems.add(format!(
                "with regular expression {}, those of the job expand to {states} states and {transitions} transitions \
                 together; at most {STATES_MAX} and {TRANSITIONS_MAX} are allowed",
                shown()
            ));
            return problems;
        }
    }
    problems
}

/// The regular expressions of a job's constraints and affinities.
fn expressions_of(job: &Job) -> impl Iterator<Item = &str> {
    let groups = items(&job.task_groups);
    let tasks = groups.iter().flat_map(|group| items(&group.tasks));
    let devices =
        tasks.clone().flat_map(|task| &task.resources).flat_map(|resources| items(&resources.devices));
    let constraints = [&job.constraints]
        .into_iter()
        .chain(groups.iter().map(|group| &group.constraints))
        .chain(tasks.clone().map(|task| &task.constraints))
        .chain(devices.clone().map(|device| &device.constraints));
    let affinities = [&job.affinities]
        .into_iter()
        .chain(groups.iter().map(|group| &group.affinities))
        .chain(tasks.map(|task| &task.affinities))
        .chain(devices.map(|device| &device.affinities));
    let constraints = constraints.flat_map(items).map(|one| (&one.operand, &one.r_target));
    let affinities = affinities.flat_map(items).map(|one| (&one.operand, &one.r_target));
    let is_regexp = |operand: &Option<String>| text(operand) == Operand::Regexp.as_str();
    constraints.chain(affinities).filter(move |(operand, _)| is_regexp(operand)).map(|(_, right)| text(right))
}

/// Level of a constraint. Some operands are not allowed at every level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Job, group or device.
    Group,
    /// Task.
    Task,
}

/// Checks constraints. Problems name their position.
pub(crate) fn constraints(list: &Option<Vec<Constraint>>, level: Level) -> Problems {
    let mut problems = Problems::default();
    for (position, one) in (1..).zip(items(list)) {
        problems.nest(format_args!("Constraint {position} validation failed: "), &constraint(one));
        let operand = text(&one.operand).parse::<Operand>();
        if let Ok(operand @ (Operand::DistinctHosts | Operand::DistinctProperty)) = operand {
            problems.add_if(level == Level::Task, || {
                format!("Constraint {position} has disallowed Operand at task level: {operand}")
            });
        }
    }
    problems
}

fn constraint(constraint: &Constraint) -> Problems {
    let mut problems = Problems::default();
    let (operand, left) = (text(&constraint.operand), text(&constraint.l_target));
    let known = operand.parse::<Operand>().ok();
    problems.add_if(operand.is_empty(), || "Missing constraint operand");
    match known {
        Some(known) => right_side(known, text(&constraint.r_target), &CONSTRAINT, &mut problems),
        None => problems.add(format!("Unknown constraint type {}", quoted(operand))),
    }
    problems.add_if(
        left.is_empty() && known != Some(Operand::DistinctHosts),
        || "no attribute provided but is required by operator",
    );
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
    problems.add_if(operand.is_empty(), || "Missing affinity operand");
    match operand.parse::<Operand>() {
        Ok(Operand::IsSet | Operand::IsNotSet | Operand::DistinctHosts | Operand::DistinctProperty)
        | Err(_) => problems.add(format!("Unknown affinity operator {}", quoted(operand))),
        Ok(known) => right_side(known, text(&affinity.r_target), &AFFINITY, &mut problems),
    }
    problems.add_if(text(&affinity.l_target).is_empty(), || "No LTarget provided but is required");
    let weight = number(affinity.weight);
    problems.add_if(weight == 0, || "Affinity weight cannot be zero");
    problems
        .add_if(!(-100..=100).contains(&weight), || "Affinity weight must be within the range [-100,100]");
    problems
}

/// Words of the problems of a constraint or an affinity.
struct Words {
    name: &'static str,
    set_needs_right: &'static str,
}

const CONSTRAINT: Words =
    Words { name: "constraint", set_needs_right: "Set contains constraint requires an RTarget" };
const AFFINITY: Words =
    Words { name: "affinity", set_needs_right: "Set contains operators require an RTarget" };

/// Checks the right side of a constraint or an affinity.
fn right_side(operand: Operand, right: &str, words: &Words, problems: &mut Problems) {
    match operand {
        Operand::Equal
        | Operand::DoubleEqual
        | Operand::Is
        | Operand::NotEqual
        | Operand::Not
        | Operand::Less
        | Operand::LessOrEqual
        | Operand::Greater
        | Operand::GreaterOrEqual => problems.add_if(right.is_empty(), || {
            format!("Operator {} requires an RTarget", quoted(operand.as_str()))
        }),
        Operand::IsSet | Operand::IsNotSet => problems.add_if(!right.is_empty(), || {
            format!("Operator {} does not support an RTarget", quoted(operand.as_str()))
        }),
        Operand::SetContains | Operand::SetContainsAll | Operand::SetContainsAny => {
            problems.add_if(right.is_empty(), || words.set_needs_right);
        }
        Operand::Regexp => {
            if let Err(error) = regexp::compile(right, REGEX_BYTES_MAX) {
                problems.add(format!("Regular expression failed to compile: {error}"));
            }
        }
        Operand::Version => {
            if let Some(bound) = scheduling::malformed_version(right) {
                problems.add(format!("Version {} is invalid: malformed constraint: {bound}", words.name));
            }
        }
        Operand::Semver => {
            if let Some(bound) = scheduling::malformed_semver(right) {
                problems.add(format!("Semver {} is invalid: Malformed constraint: {bound}", words.name));
            }
        }
        Operand::DistinctHosts => {}
        Operand::DistinctProperty => allowed_count(right, problems),
    }
}

/// Checks the value of `distinct_property`: how many allocations may share a value of the property. It may be absent.
fn allowed_count(right: &str, problems: &mut Problems) {
    if right.is_empty() {
        return;
    }
    let is_number = right.bytes().all(|byte| byte.is_ascii_digit());
    match right.parse::<u64>() {
        Ok(count) if is_number => problems.add_if(count < 1, || {
            format!("Distinct Property must have an allowed count of 1 or greater: {count} < 1")
        }),
        Ok(_) | Err(_) => {
            let reason = if is_number { "value out of range" } else { "invalid syntax" };
            let right = quoted(right);
            problems.add(format!(
                "Failed to convert RTarget {right} to uint64: strconv.ParseUint: parsing {right}: {reason}"
            ));
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint_of(left: &str, operand: &str, right: &str) -> Constraint {
        let [l_target, operand, r_target] = [left, operand, right].map(|text| Some(text.to_owned()));
        Constraint { l_target, operand, r_target }
    }

    fn of_constraint(left: &str, operand: &str, right: &str) -> Vec<String> {
        constraint(&constraint_of(left, operand, right)).into_vec()
    }

    fn of_affinity(left: &str, operand: &str, right: &str, weight: i64) -> Vec<String> {
        let Constraint { l_target, operand, r_target } = constraint_of(left, operand, right);
        affinity(&Affinity { l_target, operand, r_target, weight: Some(weight) }).into_vec()
    }

    #[test]
    fn each_operand_of_a_constraint_asks_for_its_own() {
        let none = [""; 0];
        for operand in ["=", "==", "is", "!=", "not", "<", "<=", ">", ">="] {
            assert_eq!(of_constraint("a", operand, "b"), none, "{operand}");
            assert_eq!(
                of_constraint("a", operand, ""),
                [format!("Operator \"{operand}\" requires an RTarget")]
            );
        }
        for operand in ["is_set", "is_not_set"] {
            assert_eq!(of_constraint("a", operand, ""), none, "{operand}");
            assert_eq!(
                of_constraint("a", operand, "b"),
                [format!("Operator \"{operand}\" does not support an RTarget")]
            );
        }
        for operand in ["set_contains", "set_contains_all", "set_contains_any"] {
            assert_eq!(of_constraint("a", operand, "b,c"), none, "{operand}");
            assert_eq!(of_constraint("a", operand, ""), ["Set contains constraint requires an RTarget"]);
        }
        assert_eq!(of_constraint("a", "regexp", ""), none, "an empty expression compiles");
        assert_eq!(
            of_constraint("a", "regexp", "["),
            ["Regular expression failed to compile: error parsing regexp: missing closing ]: `[`"]
        );
        assert_eq!(of_constraint("", "distinct_hosts", ""), none);
    }

    #[test]
    fn versions_of_constraints_are_checked_bound_by_bound() {
        let version = |right| of_constraint("a", "version", right);
        let semver = |right| of_constraint("a", "semver", right);
        assert_eq!((version(">= 1.2, < 2"), semver(">= 1.2, < 2")), (vec![], vec![]));
        assert_eq!(version("~> 1.2"), [""; 0]);
        assert_eq!(version("abc"), ["Version constraint is invalid: malformed constraint: abc"]);
        assert_eq!(version("> 1,x.y"), ["Version constraint is invalid: malformed constraint: x.y"]);
        assert_eq!(version(""), ["Version constraint is invalid: malformed constraint: "]);
        assert_eq!(semver(">= 1.x"), ["Semver constraint is invalid: Malformed constraint: >= 1.x"]);
        assert_eq!(semver("~> 1.2"), ["Semver constraint is invalid: Malformed constraint: ~> 1.2"]);
        assert_eq!(semver(""), ["Semver constraint is invalid: Malformed constraint: "]);
    }

    #[test]
    fn distinct_property_allows_a_count() {
        let property = |right| of_constraint("${meta.rack}", "distinct_property", right);
        assert_eq!((property(""), property("3")), (vec![], vec![]));
        assert_eq!(property("0"), ["Distinct Property must have an allowed count of 1 or greater: 0 < 1"]);
        for (right, reason) in [
            ("x", "invalid syntax"),
            ("+1", "invalid syntax"),
            ("-1", "invalid syntax"),
            ("18446744073709551616", "value out of range"),
        ] {
            let text = format!(
                "Failed to convert RTarget \"{right}\" to uint64: strconv.ParseUint: parsing \"{right}\": {reason}"
            );
            assert_eq!(property(right), [text]);
        }
    }

    #[test]
    fn all_problems_of_a_constraint_are_listed_in_order() {
        assert_eq!(
            constraint(&Constraint::default()).into_vec(),
            [
                "Missing constraint operand",
                "Unknown constraint type \"\"",
                "no attribute provided but is required by operator"
            ]
        );
        assert_eq!(of_constraint("a", "odd", "b"), ["Unknown constraint type \"odd\""]);
        assert_eq!(
            of_constraint("", "=", ""),
            ["Operator \"=\" requires an RTarget", "no attribute provided but is required by operator"]
        );
        assert_eq!(
            of_constraint("", "distinct_property", ""),
            ["no attribute provided but is required by operator"]
        );
    }

    #[test]
    fn tasks_have_no_distinct_constraints() {
        let list = Some(vec![
            constraint_of("a", "=", "b"),
            constraint_of("", "distinct_hosts", ""),
            constraint_of("a", "distinct_property", "0"),
        ]);
        let of_task = constraints(&list, Level::Task).into_vec();
        assert_eq!(of_task[0], "Constraint 2 has disallowed Operand at task level: distinct_hosts");
        assert!(of_task[1].starts_with("Constraint 3 validation failed: 1 error occurred:"), "{of_task:?}");
        assert_eq!(of_task[2], "Constraint 3 has disallowed Operand at task level: distinct_property");
        assert_eq!(constraints(&list, Level::Group).into_vec().len(), 1);
    }

    #[test]
    fn affinities_have_words_of_their_own() {
        assert_eq!(of_affinity("a", "=", "b", 50), [""; 0]);
        assert_eq!(of_affinity("a", "=", "", 50), ["Operator \"=\" requires an RTarget"]);
        assert_eq!(of_affinity("a", "set_contains", "", 1), ["Set contains operators require an RTarget"]);
        assert_eq!(
            of_affinity("a", "version", "x", 1),
            ["Version affinity is invalid: malformed constraint: x"]
        );
        assert_eq!(
            of_affinity("a", "semver", "~> 1", 1),
            ["Semver affinity is invalid: Malformed constraint: ~> 1"]
        );
        assert!(of_affinity("a", "regexp", "(", 1)[0].starts_with("Regular expression failed to compile: "));
        for operand in ["is_set", "is_not_set", "distinct_hosts", "distinct_property", "odd"] {
            let text = format!("Unknown affinity operator \"{operand}\"");
            assert_eq!(of_affinity("a", operand, "", 1), [text]);
        }
        assert_eq!(
            of_affinity("", "", "", 0),
            [
                "Missing affinity operand",
                "Unknown affinity operator \"\"",
                "No LTarget provided but is required",
                "Affinity weight cannot be zero",
            ]
        );
        for weight in [-101, 101, i64::MIN] {
            assert_eq!(
                of_affinity("a", "=", "b", weight),
                ["Affinity weight must be within the range [-100,100]"]
            );
        }
    }

    #[test]
    fn the_expressions_of_a_job_are_bounded_together() {
        let job_with = |expression: &str, count| Job {
            constraints: Some(vec![constraint_of("a", "regexp", expression); count]),
            ..Job::default()
        };
        assert!(expressions(&job_with(r"^\w{1,63}$", 3)).is_empty());
        let found = expressions(&job_with(r"^\w{1,63}$", 10)).into_vec();
        assert!(found[0].contains(r"^\\w{1,63}$") && found[0].contains("1000000"), "{found:?}");
        let found = expressions(&job_with(r"(\w{1000}){1000}", 1)).into_vec();
        assert!(found[0].contains("is too large: the expression expands to more than"), "{found:?}");
        let found = expressions(&job_with(&"a".repeat(5_000), 1)).into_vec();
        assert!(found[0].contains("the expression has 5000 bytes") && found[0].len() < 300, "{found:?}");
        let found = expressions(&job_with("a{1000}", 21)).into_vec();
        assert!(found[0].contains("20000"), "{found:?}");
    }

    #[test]
    fn the_expressions_of_every_part_count() {
        let many = || Some(vec![constraint_of("a", "regexp", "a{1000}"); 11]);
        let affinity = |one: Constraint| Affinity {
            l_target: one.l_target,
            operand: one.operand,
            r_target: one.r_target,
            weight: Some(1),
        };
        let device = api_types::RequestedDevice {
            affinities: many().map(|list| list.into_iter().map(affinity).collect()),
            ..api_types::RequestedDevice::default()
        };
        let resources =
            api_types::Resources { devices: Some(vec![device]), ..api_types::Resources::default() };
        let task = api_types::Task { resources: Some(resources), ..api_types::Task::default() };
        let group = api_types::TaskGroup { tasks: Some(vec![task]), ..api_types::TaskGroup::default() };
        let mut job = Job { task_groups: Some(vec![group]), ..Job::default() };
        assert!(expressions(&job).is_empty());
        job.constraints = many();
        assert!(!expressions(&job).is_empty());
    }
}
