//! Rules among a job's own allocations: `distinct_hosts` and `distinct_property` (`docs/rules/scheduling.md` §5.4).

use model::Text;
use model::job::{Constraint, Job, Operand, TaskGroup};
use state::{AllocRef, NodePage, State};

use super::property::{CountChange, Property};

/// The rules that apply to one group.
#[derive(Debug)]
pub(crate) struct Distinct<'a> {
    /// No two allocations of the job share a node.
    job_hosts: bool,
    /// No two allocations of the group share a node.
    group_hosts: bool,
    properties: Vec<DistinctProperty<'a>>,
}

#[derive(Debug)]
struct DistinctProperty<'a> {
    property: Property<'a>,
    /// How many allocations may share a value; or the error in the constraint.
    allowed: Result<u32, Text>,
}

/// Number of the job's allocations on a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Neighbours {
    /// Allocations of the job.
    pub(crate) job: u32,
    /// Allocations of the group.
    pub(crate) group: u32,
}

impl<'a> Distinct<'a> {
    /// The rules of a group. `allocs` are all allocations of the job, of every incarnation.
    pub(crate) fn of(
        state: &'a State,
        pages: &'a [&'a NodePage],
        job: &'a Job,
        group: &'a TaskGroup,
        allocs: &[AllocRef<'a>],
    ) -> Self {
        let spec = &job.spec;
        let of_tasks = group.tasks.iter().flat_map(|task| &task.constraints);
        let of_group = || group.constraints.iter().chain(of_tasks.clone());
        let of_job = spec.constraints.iter().map(|constraint| (constraint, None));
        let all = of_job.chain(of_group().map(|constraint| (constraint, Some(&group.name))));
        let properties = all.filter(|(constraint, _)| constraint.operand == Operand::DistinctProperty);
        let property = |(constraint, group): (&'a Constraint, Option<&'a Text>)| DistinctProperty {
            property: Property::of(state, pages, &constraint.l_target, group, (job.create_index, allocs)),
            allowed: allowed(constraint),
        };
        Self {
            job_hosts: spec.constraints.iter().any(wants_hosts),
            group_hosts: of_group().any(wants_hosts),
            properties: properties.map(property).collect(),
        }
    }

    /// Whether there are no rules.
    pub(crate) fn is_empty(&self) -> bool {
        !self.job_hosts && !self.group_hosts && self.properties.is_empty()
    }

    /// Whether there are `distinct_property` rules, so that a stop on one node may make other nodes acceptable.
    pub(crate) fn counts_values(&self) -> bool {
        !self.properties.is_empty()
    }

    /// Why another allocation must not be placed on a node; empty if it may. `distinct_hosts` has no effect on system
    /// jobs.
    pub(crate) fn failures(
        &mut self,
        slot: u32,
        neighbours: Neighbours,
        is_system: bool,
    ) -> impl Iterator<Item = Text> {
        let is_shared = self.job_hosts && neighbours.job > 0 || self.group_hosts && neighbours.group > 0;
        let hosts = (is_shared && !is_system).then(|| "distinct_hosts".into());
        hosts.into_iter().chain(self.properties.iter_mut().filter_map(move |property| property.failure(slot)))
    }

    /// Records a change of the allocations of the job's group `group` on the node in a slot.
    pub(crate) fn note(&mut self, slot: u32, group: &Text, change: CountChange) {
        for rule in self.properties.iter_mut().filter(|rule| rule.property.counts_group(group)) {
            rule.property.note(slot, change);
        }
    }
}

impl DistinctProperty<'_> {
    /// Why another allocation must not have the node's value.
    fn failure(&mut self, slot: u32) -> Option<Text> {
        let allowed = match &self.allowed {
            Ok(allowed) => *allowed,
            Err(wrong) => return Some(Text::clone(wrong)),
        };
        let Some(value) = self.property.value(slot) else {
            return Some(format!("missing property \"{}\"", self.property.name()).into());
        };
        let used = self.property.used(value);
        (used >= allowed).then(|| {
            let (name, text) = (self.property.name(), self.property.text(value));
            format!("distinct_property: {name}={text} used by {used} allocs").into()
        })
    }
}

/// The number of allocations that may share a value, 1 by default.
fn allowed(constraint: &Constraint) -> Result<u32, Text> {
    if constraint.r_target.is_empty() {
        return Ok(1);
    }
    let text = &constraint.r_target;
    text.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing \"{text}\": invalid syntax");
        format!("failed to convert RTarget \"{text}\" to uint64: {why}").into()
    })
}

/// Whether a constraint is an active `distinct_hosts`; a false value disables it.
fn wants_hosts(constraint: &Constraint) -> bool {
    let is_off = matches!(&*constraint.r_target, "0" | "f" | "F" | "false" | "FALSE" | "False");
    constraint.operand == Operand::DistinctHosts && !is_off
}
