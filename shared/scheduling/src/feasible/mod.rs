//! Feasibility: which nodes a group can run on, whatever they have left.
//!
//! Worked out once for each kind of node and not for each node; only conditions on what is a node's alone look at single
//! nodes. What is short on a feasible node is `place`'s business.

mod base;
mod checks;
mod condition;
mod version;

use std::collections::BTreeMap;

use model::Text;
use model::job::{JobSpec, TaskGroup};
use state::{NodePage, NodeRef, PAGE, State};

pub(crate) use base::{BaseNodes, places};
pub(crate) use checks::{DEFAULT_HOST_NETWORK, host_network};
pub(crate) use condition::Condition;

use checks::Check;

/// The reason of a node whose class was ruled out by another one.
const CLASS_INELIGIBLE: &str = "computed class ineligible";

/// What was ruled out in one pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filtered {
    /// How many nodes.
    pub(crate) nodes: u32,
    /// The same by node class, less those without one.
    pub(crate) by_class: BTreeMap<Text, u32>,
    /// The same by reason.
    pub(crate) by_reason: BTreeMap<Text, u32>,
}

/// The feasibility of one job's groups, in one attempt.
#[derive(Debug)]
pub(crate) struct Feasibility<'a> {
    state: &'a State,
    pages: &'a [&'a NodePage],
    base: &'a BaseNodes,
    job: Checks<'a>,
    groups: Vec<Checks<'a>>,
    /// The computed classes' numbers, by kind; filled as kinds are seen.
    class_of_kind: Vec<Option<u32>>,
    /// The node classes, likewise.
    node_class: Vec<Text>,
}

impl<'a> Feasibility<'a> {
    pub(crate) fn of(
        state: &'a State,
        pages: &'a [&'a NodePage],
        base: &'a BaseNodes,
        spec: &'a JobSpec,
    ) -> Self {
        let kinds = state.node_kinds();
        let of_job = spec.constraints.iter().map(Condition::of_constraint).map(Check::Condition).collect();
        let of_group = |group: &'a TaskGroup| Checks::new(Check::of_group(group), kinds);
        Self {
            state,
            pages,
            base,
            job: Checks::new(of_job, kinds),
            groups: spec.task_groups.iter().map(of_group).collect(),
            class_of_kind: vec![None; kinds],
            node_class: vec![Text::default(); kinds],
        }
    }

    /// The nodes of the base set on which the job's group at place `group` can run, a word for each page, and what was
    /// ruled out.
    pub(crate) fn scan(&mut self, group: usize) -> (Vec<u64>, Filtered) {
        let (mut filtered, mut by_reason) = (Filtered::default(), Tally::default());
        let mut feasible = self.base.words.clone();
        for (number, word) in feasible.iter_mut().enumerate() {
            let page = self.pages[number];
            for place in places(*word) {
                let kind = page.kind[place] as usize;
                if self.job.settled(kind) && self.groups[group].settled(kind) {
                    continue;
                }
                let node = self.node(number * PAGE + place);
                if let Some(reason) = self.failure(group, kind, node) {
                    *word &= !(1 << place);
                    filtered.nodes += 1;
                    by_reason.add(reason);
                    let class = &self.node_class[kind];
                    if !class.is_empty() {
                        *filtered.by_class.entry(Text::clone(class)).or_default() += 1;
                    }
                }
            }
        }
        filtered.by_reason = by_reason.into_counts();
        (feasible, filtered)
    }

    /// Whether the job's group at place `group` can run on a node, be that in the base set or not.
    pub(crate) fn allows(&mut self, group: usize, node: NodeRef<'_>) -> bool {
        let (page, place) = node.page();
        self.failure(group, page.kind[place] as usize, node).is_none()
    }

    /// Whether some class of nodes cannot answer for all of its nodes.
    pub(crate) fn escapes_class(&self) -> bool {
        self.job.escapes_class || self.groups.iter().any(|group| group.escapes_class)
    }

    /// Which of the classes that were looked at could serve; nothing where classes say nothing.
    pub(crate) fn class_eligibility(&self) -> BTreeMap<Text, bool> {
        let mut eligible: BTreeMap<Text, bool> = BTreeMap::new();
        if self.escapes_class() {
            return eligible;
        }
        let seen = self.class_of_kind.iter().enumerate().filter_map(|(kind, class)| Some((kind, (*class)?)));
        for (kind, class) in seen {
            let Some(class) = self.state.classes().name(class) else { continue };
            let job = self.job.settled(kind);
            let serves = job && (self.groups.iter().any(|group| group.settled(kind)));
            *eligible.entry(Text::clone(class)).or_default() |= serves;
        }
        eligible
    }

    fn failure(&mut self, group: usize, kind: usize, node: NodeRef<'_>) -> Option<Text> {
        if self.class_of_kind[kind].is_none() {
            let (page, place) = node.page();
            self.class_of_kind[kind] = Some(page.class[place]);
            self.node_class[kind] = Text::clone(&node.spec().node_class);
        }
        self.job.failure(kind, node).or_else(|| self.groups[group].failure(kind, node))
    }

    fn node(&self, slot: usize) -> NodeRef<'a> {
        self.state.node_at(slot as u32).expect("the base set holds known nodes")
    }
}

/// The checks of a job or a group, with what they said of each kind of node.
#[derive(Debug)]
struct Checks<'a> {
    checks: Vec<Check<'a>>,
    /// Places of the checks that look at single nodes.
    unique: Vec<usize>,
    escapes_class: bool,
    verdicts: Vec<Verdict>,
}

/// What the checks that ask the same of a whole kind said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Unknown,
    Passes,
    /// The first check that failed; its reason was told.
    Fails(usize),
}

impl<'a> Checks<'a> {
    fn new(checks: Vec<Check<'a>>, kinds: usize) -> Self {
        let unique = checks.iter().enumerate().filter(|(_, check)| check.differs_within_kind());
        Self {
            unique: unique.map(|(place, _)| place).collect(),
            escapes_class: checks.iter().any(Check::escapes_class),
            verdicts: vec![Verdict::Unknown; kinds],
            checks,
        }
    }

    /// Whether every node of a kind passes, as far as is known.
    fn settled(&self, kind: usize) -> bool {
        self.verdicts[kind] == Verdict::Passes && self.unique.is_empty()
    }

    /// Why the node will not do. The reason is told for the first node of a kind only, unless single nodes have
    /// to be looked at anyway.
    fn failure(&mut self, kind: usize, node: NodeRef<'_>) -> Option<Text> {
        let shared = match self.verdicts[kind] {
            Verdict::Unknown => {
                let mut asked = (0..self.checks.len()).filter(|place| !self.unique.contains(place));
                let failed = asked.find_map(|place| Some((place, self.checks[place].failure(node)?)));
                self.verdicts[kind] = match &failed {
                    Some((check, _)) => Verdict::Fails(*check),
                    None => Verdict::Passes,
                };
                failed
            }
            Verdict::Passes => None,
            Verdict::Fails(_) if self.unique.is_empty() => return Some(CLASS_INELIGIBLE.into()),
            Verdict::Fails(check) => self.checks[check].failure(node).map(|reason| (check, reason)),
        };
        let before = shared.as_ref().map_or(self.checks.len(), |(place, _)| *place);
        let mut unique = self.unique.iter().take_while(|place| **place < before);
        unique.find_map(|place| self.checks[*place].failure(node)).or(shared.map(|(_, reason)| reason))
    }
}

/// Counts reasons, of which the same mostly come one after the other.
#[derive(Debug, Default)]
struct Tally {
    last: Option<(Text, u32)>,
    counts: BTreeMap<Text, u32>,
}

impl Tally {
    fn add(&mut self, reason: Text) {
        match &mut self.last {
            Some((last, count)) if *last == reason => *count += 1,
            _ => {
                self.settle();
                self.last = Some((reason, 1));
            }
        }
    }

    fn settle(&mut self) {
        if let Some((reason, count)) = self.last.take() {
            *self.counts.entry(reason).or_default() += count;
        }
    }

    fn into_counts(mut self) -> BTreeMap<Text, u32> {
        self.settle();
        self.counts
    }
}
