//! Feasibility: the nodes that satisfy the constraints, drivers, devices and networks of a group, whatever their free
//! resources.
//!
//! Most checks run once for each kind of node; only conditions on attributes that are unique to a node run for single
//! nodes. Checks that depend on other allocations (volumes, distinct rules) run for each placement. Whether a feasible
//! node has enough free resources is decided in `place`.

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
pub(crate) use checks::{DEFAULT_HOST_NETWORK, DiscreteResource, host_network};
pub(crate) use condition::Condition;
pub(crate) use device::DeviceRequest;
pub(crate) use distinct::{Distinct, Neighbours};
pub(crate) use property::{CountChange, Property, kind_of};
pub(crate) use version::{Bounds, Rules};
pub(crate) use volumes::{PlacementVolumes, Volumes};

use checks::Check;

use crate::columns::{bits, by_kind, pack_bits};

/// The reason reported for a node whose class is known to be ineligible.
const CLASS_INELIGIBLE: &str = "computed class ineligible";

/// Verdict of a kind that was not checked yet.
const UNCHECKED: u8 = 2;

/// The feasibility of one job's groups, in one attempt.
#[derive(Debug)]
pub(crate) struct Feasibility<'a> {
    state: &'a State,
    pages: &'a [&'a NodePage],
    job: Checks<'a>,
    groups: Vec<Checks<'a>>,
    /// The number of each kind's computed class; filled in as kinds are checked.
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

    /// The nodes of the base set on which a group of the job can run, a word for each page.
    pub(crate) fn scan(&mut self, group: usize, base: &BaseNodes) -> Vec<u64> {
        let mut feasible = base.words.clone();
        let same_within_kinds = self.job.is_same_within_kinds() && self.groups[group].is_same_within_kinds();
        // For each kind, 1 if its nodes are feasible, 0 if not.
        let mut verdicts = vec![UNCHECKED; self.class_of_kind.len()];
        for (number, word) in feasible.iter_mut().enumerate().filter(|(_, word)| **word != 0) {
            let page = self.pages[number];
            let slot = |bit| (number * PAGE + bit) as u32;
            if !same_within_kinds {
                let refusing = bits(*word).filter(|bit| !self.allows_in(group, slot(*bit)));
                *word &= !refusing.fold(0, |all, bit| all | 1 << bit);
                continue;
            }
            // All nodes of a page at once, by a table lookup without branches.
            let mut page_verdicts = by_kind(page, &verdicts);
            let unchecked = *word & pack_bits(&page_verdicts.map(|verdict| u8::from(verdict == UNCHECKED)));
            if unchecked != 0 {
                for bit in bits(unchecked) {
                    let verdict = &mut verdicts[page.kind[bit] as usize];
                    if *verdict == UNCHECKED {
                        *verdict = u8::from(self.allows_in(group, slot(bit)));
                    }
                }
                page_verdicts = by_kind(page, &verdicts);
            }
            *word &= pack_bits(&page_verdicts.map(|verdict| u8::from(verdict == 1)));
        }
        feasible
    }

    fn allows_in(&mut self, group: usize, slot: u32) -> bool {
        self.state.node_at(slot).is_some_and(|node| self.allows(group, node))
    }

    /// Whether a group of the job can run on a node, which need not be in the base set.
    pub(crate) fn allows(&mut self, group: usize, node: NodeRef<'_>) -> bool {
        let (kind, class) = self.kind(node);
        let rules_out = |checks: &Checks<'_>| checks.rules_out(class);
        if rules_out(&self.job) || rules_out(&self.groups[group]) {
            return false;
        }
        self.job.failing(kind, node).is_none() && self.groups[group].failing(kind, node).is_none()
    }

    /// Why a group of the job cannot run on a node. The own reason of a class is reported once in an attempt, for one
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
        match checks.report_once(class) {
            true => checks.checks[check].failure(node),
            false => Some(Text::clone(&self.class_ineligible)),
        }
    }

    /// Whether some conditions of the group are not decided by computed class; then each node reports its own reason.
    pub(crate) fn group_escapes_class(&self, group: usize) -> bool {
        let checks = [&self.job, &self.groups[group]];
        checks.iter().any(|checks| checks.escapes_class || !checks.is_same_within_kinds())
    }

    /// The reason reported for all nodes of a class after the first.
    pub(crate) fn class_ineligible(&self) -> Text {
        Text::clone(&self.class_ineligible)
    }

    /// Why a group of the job cannot run on a node, regardless of what was reported before.
    pub(crate) fn own_reason(&mut self, group: usize, node: NodeRef<'_>) -> Option<Text> {
        let (kind, _) = self.kind(node);
        if let Some(check) = self.job.failing(kind, node) {
            return self.job.checks[check].failure(node);
        }
        let checks = &mut self.groups[group];
        let check = checks.failing(kind, node)?;
        checks.checks[check].failure(node)
    }

    /// All reasons for which a group of the job cannot run on a node, each with the discrete resource that the node
    /// lacks. With `unique`, only reasons that concern the single node, otherwise only reasons that concern its whole
    /// kind.
    pub(crate) fn failures(
        &self,
        group: usize,
        node: NodeRef<'_>,
        unique: bool,
    ) -> impl Iterator<Item = (Text, Option<DiscreteResource>)> {
        let all = [&self.job, &self.groups[group]];
        all.into_iter().flat_map(move |checks| checks.failures(node, unique))
    }

    /// Rules out the classes that were found ineligible for another version of the job, for the job itself or for the
    /// group. Class eligibility is cached by job, not by version.
    pub(crate) fn inherit(&mut self, group: usize, from: &Self, group_there: Option<usize>) {
        self.job.ruled_out.extend(from.reported_ineligible(&from.job));
        if let Some(there) = group_there {
            self.groups[group].ruled_out.extend(from.reported_ineligible(&from.groups[there]));
        }
    }

    fn reported_ineligible(&self, checks: &Checks<'_>) -> Vec<u32> {
        if !checks.all_reported {
            return checks.reported.iter().copied().collect();
        }
        let failing = checks.verdicts.iter().zip(&self.class_of_kind);
        let failing = failing.filter(|(verdict, _)| matches!(verdict, Verdict::Fails(_)));
        failing.filter_map(|(_, class)| *class).collect()
    }

    /// Records that a pass over the whole base set was made without reporting reasons; it has met every class.
    pub(crate) fn mark_all_reported(&mut self, group: usize) {
        self.job.all_reported = true;
        self.groups[group].all_reported = true;
    }

    /// Whether some class does not determine feasibility for all of its nodes.
    pub(crate) fn escapes_class(&self) -> bool {
        self.job.escapes_class || self.groups.iter().any(|group| group.escapes_class)
    }

    /// For each class that was checked, whether its nodes are feasible. Empty if classes do not determine
    /// feasibility.
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
        let (page, bit) = node.page();
        let (kind, class) = (page.kind[bit] as usize, page.class[bit]);
        self.class_of_kind[kind] = Some(class);
        (kind, class)
    }
}

/// The checks of a job or a group, with their results for each kind of node.
#[derive(Debug)]
struct Checks<'a> {
    checks: Vec<Check<'a>>,
    /// Indexes of the checks that are made for single nodes.
    unique: Vec<usize>,
    escapes_class: bool,
    verdicts: Vec<Verdict>,
    /// For each kind, whether some node passed.
    passed: Vec<bool>,
    /// Computed classes whose reason was reported.
    reported: HashSet<u32>,
    all_reported: bool,
    /// Computed classes that were found ineligible for another version of the job.
    ruled_out: HashSet<u32>,
}

/// The result of the checks that hold for a whole kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Unknown,
    Passes,
    /// Index of the first check that failed.
    Fails(usize),
}

impl<'a> Checks<'a> {
    fn new(checks: Vec<Check<'a>>, kinds: usize) -> Self {
        let unique = checks.iter().enumerate().filter(|(_, check)| check.differs_within_kind());
        Self {
            unique: unique.map(|(index, _)| index).collect(),
            escapes_class: checks.iter().any(Check::escapes_class),
            verdicts: vec![Verdict::Unknown; kinds],
            passed: vec![false; kinds],
            checks,
            reported: HashSet::new(),
            all_reported: false,
            ruled_out: HashSet::new(),
        }
    }

    fn of_group(group: &'a TaskGroup, kinds: usize) -> Self {
        let mut checks = Self::new(Check::of_group(group), kinds);
        checks.escapes_class |= volumes::asks_for_csi(group);
        checks
    }

    /// Whether all checks have the same result for all nodes of a kind.
    fn is_same_within_kinds(&self) -> bool {
        self.unique.is_empty()
    }

    /// Whether a class is known to be ineligible.
    fn rules_out(&self, class: u32) -> bool {
        !self.escapes_class && self.ruled_out.contains(&class)
    }

    /// Index of the first check that a node fails.
    fn failing(&mut self, kind: usize, node: NodeRef<'_>) -> Option<usize> {
        if self.verdicts[kind] == Verdict::Unknown {
            let mut shared_checks = (0..self.checks.len()).filter(|index| !self.unique.contains(index));
            let failed = shared_checks.find(|index| self.checks[*index].fails_on(node));
            self.verdicts[kind] = failed.map_or(Verdict::Passes, Verdict::Fails);
        }
        let shared = match self.verdicts[kind] {
            Verdict::Fails(check) => Some(check),
            Verdict::Passes | Verdict::Unknown => None,
        };
        let before = shared.unwrap_or(self.checks.len());
        let mut unique = self.unique.iter().copied().take_while(|index| *index < before);
        let failing = unique.find(|index| self.checks[*index].fails_on(node)).or(shared);
        self.passed[kind] |= failing.is_none();
        failing
    }

    /// The reasons of all checks that a node fails: of those made for single nodes, or of the others.
    fn failures(
        &self,
        node: NodeRef<'_>,
        unique: bool,
    ) -> impl Iterator<Item = (Text, Option<DiscreteResource>)> {
        let selected = self.checks.iter().enumerate();
        let selected = selected.filter(move |(index, _)| self.unique.contains(index) == unique);
        selected.filter_map(move |(_, check)| Some((check.failure(node)?, check.discrete_resource())))
    }

    /// Whether the reason of a class may be reported. It counts as reported from then on.
    fn report_once(&mut self, class: u32) -> bool {
        self.escapes_class || !self.all_reported && self.reported.insert(class)
    }
}
