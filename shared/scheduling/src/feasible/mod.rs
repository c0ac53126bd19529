//! Feasibility: which nodes a group can run on, whatever they have left.
//!
//! Worked out once for each kind of node and not for each node; only conditions on what is a node's alone look at single
//! nodes. What depends on other allocations (volumes, distinct rules) is asked at each placement's turn. What is short on
//! a feasible node is `place`'s business.

mod attribute;
mod base;
mod checks;
mod condition;
mod device;
mod distinct;
mod property;
mod version;
mod volumes;

use std::collections::{BTreeMap, HashSet};

use model::Text;
use model::job::{JobSpec, TaskGroup};
use state::{NodePage, NodeRef, PAGE, State};

pub(crate) use base::BaseNodes;
pub(crate) use checks::{DEFAULT_HOST_NETWORK, Pieces, host_network};
pub(crate) use condition::Condition;
pub(crate) use device::DeviceRequest;
pub(crate) use distinct::{Distinct, Neighbours};
pub(crate) use property::{Counted, Property, kind_of};
pub(crate) use volumes::{Asked, Volumes};

use checks::Check;

use crate::columns::{by_kind, places, word_of};

/// The reason of a node whose class was ruled out by another one.
const CLASS_INELIGIBLE: &str = "computed class ineligible";

/// Stands for the verdict on a kind that was not asked for yet.
const UNASKED: u8 = 2;

/// The feasibility of one job's groups, in one attempt.
#[derive(Debug)]
pub(crate) struct Feasibility<'a> {
    state: &'a State,
    pages: &'a [&'a NodePage],
    job: Checks<'a>,
    groups: Vec<Checks<'a>>,
    /// The computed classes' numbers, by kind; filled as kinds are seen.
    class_of_kind: Vec<Option<u32>>,
    class_ineligible: Text,
}

impl<'a> Feasibility<'a> {
    pub(crate) fn of(state: &'a State, pages: &'a [&'a NodePage], spec: &'a JobSpec) -> Self {
        let kinds = state.node_kinds();
        let of_job = spec.constraints.iter().map(Condition::of_constraint).map(Check::Condition).collect();
        let of_group = |group: &'a TaskGroup| Checks::of_group(group, kinds);
        Self {
            state,
            pages,
            job: Checks::new(of_job, kinds),
            groups: spec.task_groups.iter().map(of_group).collect(),
            class_of_kind: vec![None; kinds],
            class_ineligible: CLASS_INELIGIBLE.into(),
        }
    }

    /// The nodes of the base set on which the job's group at place `group` can run, a word for each page.
    pub(crate) fn scan(&mut self, group: usize, base: &BaseNodes) -> Vec<u64> {
        let mut feasible = base.words.clone();
        let is_of_kind = self.job.is_same_within_kinds() && self.groups[group].is_same_within_kinds();
        // Of each kind: 1 if it allows the group, 0 if not.
        let mut verdicts = vec![UNASKED; self.class_of_kind.len()];
        for (number, word) in feasible.iter_mut().enumerate().filter(|(_, word)| **word != 0) {
            let page = self.pages[number];
            let slot = |place| (number * PAGE + place) as u32;
            if !is_of_kind {
                let refusing = places(*word).filter(|place| !self.allows_in(group, slot(*place)));
                *word &= !refusing.fold(0, |all, place| all | 1 << place);
                continue;
            }
            // All of a page at once: a table is looked into without a branch.
            let mut told = by_kind(page, &verdicts);
            let unasked = *word & word_of(&told.map(|verdict| u8::from(verdict == UNASKED)));
            if unasked != 0 {
                for place in places(unasked) {
                    let verdict = &mut verdicts[page.kind[place] as usize];
                    if *verdict == UNASKED {
                        *verdict = u8::from(self.allows_in(group, slot(place)));
                    }
                }
                told = by_kind(page, &verdicts);
            }
            *word &= word_of(&told.map(|verdict| u8::from(verdict == 1)));
        }
        feasible
    }

    fn allows_in(&mut self, group: usize, slot: u32) -> bool {
        self.state.node_at(slot).is_some_and(|node| self.allows(group, node))
    }

    /// Whether the job's group at place `group` can run on a node, be that in the base set or not.
    pub(crate) fn allows(&mut self, group: usize, node: NodeRef<'_>) -> bool {
        let (kind, class) = self.kind(node);
        let is_class = |checks: &Checks<'_>| checks.rules_out(class);
        if is_class(&self.job) || is_class(&self.groups[group]) {
            return false;
        }
        self.job.failing(kind, node).is_none() && self.groups[group].failing(kind, node).is_none()
    }

    /// Why the job's group at place `group` cannot run on a node. A class's own reason is told once an attempt, for one
    /// of its nodes.
    pub(crate) fn reason(&mut self, group: usize, node: NodeRef<'_>) -> Option<Text> {
        let (kind, class) = self.kind(node);
        if self.job.rules_out(class) {
            return Some(Text::clone(&self.class_ineligible));
        }
        let of_group = &mut self.groups[group];
        let (checks, check) = match self.job.failing(kind, node) {
            Some(check) => (&mut self.job, check),
            None if of_group.rules_out(class) => return Some(Text::clone(&self.class_ineligible)),
            None => {
                let check = of_group.failing(kind, node)?;
                (of_group, check)
            }
        };
        match checks.may_tell(class) {
            true => checks.checks[check].failure(node),
            false => Some(Text::clone(&self.class_ineligible)),
        }
    }

    /// Whether there are conditions of the group that its nodes' classes cannot answer: then each is told its own reason.
    pub(crate) fn group_escapes_class(&self, group: usize) -> bool {
        let checks = [&self.job, &self.groups[group]];
        checks.iter().any(|checks| checks.escapes_class || !checks.is_same_within_kinds())
    }

    /// The reason of all nodes of a class but the one that told its own.
    pub(crate) fn class_ineligible(&self) -> Text {
        Text::clone(&self.class_ineligible)
    }

    /// Why the job's group at place `group` cannot run on a node, whatever was told before.
    pub(crate) fn own_reason(&mut self, group: usize, node: NodeRef<'_>) -> Option<Text> {
        let (kind, _) = self.kind(node);
        if let Some(check) = self.job.failing(kind, node) {
            return self.job.checks[check].failure(node);
        }
        let checks = &mut self.groups[group];
        let check = checks.failing(kind, node)?;
        checks.checks[check].failure(node)
    }

    /// Everything for which the job's group at place `group` cannot run on a node, and what it has none of: what is true
    /// of its whole kind, or what is a matter of the node alone.
    pub(crate) fn failures(
        &self,
        group: usize,
        node: NodeRef<'_>,
        alone: bool,
    ) -> impl Iterator<Item = (Text, Option<Pieces>)> {
        let all = [&self.job, &self.groups[group]];
        all.into_iter().flat_map(move |checks| checks.failures(node, alone))
    }

    /// Rules out the classes that another version of the job was found not to fit, for the job or for the group: what is
    /// remembered of classes is remembered of the job, whatever its version.
    pub(crate) fn inherit(&mut self, group: usize, from: &Self, group_there: Option<usize>) {
        self.job.ruled_out.extend(from.told_ineligible(&from.job));
        if let Some(there) = group_there {
            self.groups[group].ruled_out.extend(from.told_ineligible(&from.groups[there]));
        }
    }

    fn told_ineligible(&self, checks: &Checks<'_>) -> Vec<u32> {
        if !checks.told_all {
            return checks.told.iter().copied().collect();
        }
        let failing = checks.verdicts.iter().zip(&self.class_of_kind);
        let failing = failing.filter(|(verdict, _)| matches!(verdict, Verdict::Fails(_)));
        failing.filter_map(|(_, class)| *class).collect()
    }

    /// A pass over the whole base set was made of which nobody told: it has met every class.
    pub(crate) fn pass_in_silence(&mut self, group: usize) {
        self.job.told_all = true;
        self.groups[group].told_all = true;
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
            let serves = self.job.passed[kind] && self.groups.iter().any(|group| group.passed[kind]);
            *eligible.entry(Text::clone(class)).or_default() |= serves;
        }
        eligible
    }

    /// The numbers of a node's kind and of its class.
    fn kind(&mut self, node: NodeRef<'_>) -> (usize, u32) {
        let (page, place) = node.page();
        let (kind, class) = (page.kind[place] as usize, page.class[place]);
        self.class_of_kind[kind] = Some(class);
        (kind, class)
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
    /// Of which kinds some node passed.
    passed: Vec<bool>,
    /// The computed classes whose reason was told.
    told: HashSet<u32>,
    told_all: bool,
    /// Computed classes that another version of the job was found not to fit.
    ruled_out: HashSet<u32>,
}

/// What the checks that ask the same of a whole kind said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Unknown,
    Passes,
    /// The first check that failed.
    Fails(usize),
}

impl<'a> Checks<'a> {
    fn new(checks: Vec<Check<'a>>, kinds: usize) -> Self {
        let unique = checks.iter().enumerate().filter(|(_, check)| check.differs_within_kind());
        Self {
            unique: unique.map(|(place, _)| place).collect(),
            escapes_class: checks.iter().any(Check::escapes_class),
            verdicts: vec![Verdict::Unknown; kinds],
            passed: vec![false; kinds],
            checks,
            told: HashSet::new(),
            told_all: false,
            ruled_out: HashSet::new(),
        }
    }

    fn of_group(group: &'a TaskGroup, kinds: usize) -> Self {
        let mut checks = Self::new(Check::of_group(group), kinds);
        checks.escapes_class |= volumes::asks_for_csi(group);
        checks
    }

    /// Whether all nodes of a kind are told the same.
    fn is_same_within_kinds(&self) -> bool {
        self.unique.is_empty()
    }

    /// Whether a class is out of the question, whatever the checks say.
    fn rules_out(&self, class: u32) -> bool {
        !self.escapes_class && self.ruled_out.contains(&class)
    }

    /// The first check that a node fails.
    fn failing(&mut self, kind: usize, node: NodeRef<'_>) -> Option<usize> {
        if self.verdicts[kind] == Verdict::Unknown {
            let mut asked = (0..self.checks.len()).filter(|place| !self.unique.contains(place));
            let failed = asked.find(|place| self.checks[*place].fails_on(node));
            self.verdicts[kind] = failed.map_or(Verdict::Passes, Verdict::Fails);
        }
        let shared = match self.verdicts[kind] {
            Verdict::Fails(check) => Some(check),
            Verdict::Passes | Verdict::Unknown => None,
        };
        let before = shared.unwrap_or(self.checks.len());
        let mut unique = self.unique.iter().copied().take_while(|place| *place < before);
        let failing = unique.find(|place| self.checks[*place].fails_on(node)).or(shared);
        self.passed[kind] |= failing.is_none();
        failing
    }

    /// Why a node fails each check that it fails: of those that look at single nodes, or of the others.
    fn failures(&self, node: NodeRef<'_>, unique: bool) -> impl Iterator<Item = (Text, Option<Pieces>)> {
        let asked = self.checks.iter().enumerate();
        let asked = asked.filter(move |(place, _)| self.unique.contains(place) == unique);
        asked.filter_map(move |(_, check)| Some((check.failure(node)?, check.pieces())))
    }

    /// Whether the reason of a class may be told; from now on it was.
    fn may_tell(&mut self, class: u32) -> bool {
        self.escapes_class || !self.told_all && self.told.insert(class)
    }
}
