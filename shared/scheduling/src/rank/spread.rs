//! Spreads: scores of nodes by how evenly a group is distributed over the values of an attribute, or by how close it is
//! to given targets (`docs/rules/scheduling.md` §6.6).
//!
//! The boost of a node depends on the node's value and on the counts of the values in use. Values with equal counts
//! have the same boost. Therefore nodes are grouped by *tuple* (one value of each spread), and tuples by *level* (the
//! properties of the tuple on which the boost depends).

use std::collections::{BTreeMap, HashMap};

use model::Text;
use model::job::{Job, Spread, TaskGroup};
use state::{AllocRef, NodePage, PAGE, State};

use crate::columns::{bits, by_kind, pack_bits};
use crate::feasible::{CountChange, Property, kind_of};

/// The value that stands for all values without a target.
const ANY_VALUE: &str = "*";
/// Boost of a node that does not have the attribute, or whose value has no target.
const UNWANTED: f64 = -1.0;
/// Marks a node, or a value, that was not looked up yet.
const UNKNOWN: u32 = u32::MAX;

/// The properties of a tuple on which its boost depends, one number for each spread.
pub(crate) type Level = Vec<u32>;

/// The spreads of one group.
#[derive(Debug)]
pub(crate) struct Spreads<'a> {
    all: Vec<OneSpread<'a>>,
    pages: &'a [&'a NodePage],
    /// Whether some attribute is unique to each node.
    is_unique: bool,
    /// The tuple of each kind; of each slot if `is_unique`.
    known: Vec<u32>,
    numbers: HashMap<Vec<Option<u32>>, u32>,
    /// The cells of each tuple; `None` if its nodes do not have the attribute.
    tuples: Vec<Vec<Option<u32>>>,
    /// The tuples that contain a cell, by spread and cell.
    with_cell: Vec<Vec<Vec<u32>>>,
}

/// One attribute that the group is spread over.
#[derive(Debug)]
struct OneSpread<'a> {
    property: Property<'a>,
    /// The values that the spread names; all other values share a cell. If empty, each value has its own cell.
    named: Vec<Text>,
    cells: Vec<Cell>,
    /// The cell of each value of the property.
    of_value: Vec<u32>,
    goal: Goal,
}

/// One value of a spread's attribute, or all values that the spread does not name.
#[derive(Debug)]
struct Cell {
    name: Text,
    used: u32,
    /// How many of its values are in use.
    present: u32,
    /// Desired number of allocations; `None` if the value has no target.
    desired: Option<f64>,
    /// Whether some candidate has it.
    has_candidates: bool,
}

#[derive(Debug)]
enum Goal {
    /// Equal counts: the number of cells in use, by count.
    Even(BTreeMap<u32, u32>),
    /// Desired number of allocations by value, and the share of this spread's weight in the weights of all spreads.
    Targets(BTreeMap<Text, f64>, f64),
}

impl<'a> Spreads<'a> {
    /// `None` if there are no spreads. `allocs` are all allocations of the job, of every incarnation.
    pub(crate) fn of(
        state: &'a State,
        pages: &'a [&'a NodePage],
        job: &'a Job,
        group: &'a TaskGroup,
        allocs: &[AllocRef<'a>],
    ) -> Option<Self> {
        let of_job = &job.spec.spreads;
        let all: Vec<&'a Spread> = of_job.iter().chain(&group.spreads).collect();
        // For the same attribute, the job's targets and weight take precedence over the group's.
        let effective = |spread: &&'a Spread| {
            of_job.iter().find(|other| other.attribute == spread.attribute).unwrap_or(spread)
        };
        let weights: u32 = all.iter().map(|spread| spread.weight).sum();
        let one = |spread: &&'a Spread| {
            let jobs_allocs = (job.create_index, allocs);
            let property = Property::of(state, pages, &spread.attribute, Some(&group.name), jobs_allocs);
            OneSpread::new(property, spread, effective(spread), (group.count, weights))
        };
        let spreads: Vec<OneSpread<'a>> = all.iter().map(one).collect();
        let is_unique = spreads.iter().any(|spread| spread.property.is_unique());
        (!spreads.is_empty()).then(|| Self {
            with_cell: spreads.iter().map(|_| Vec::new()).collect(),
            all: spreads,
            pages,
            is_unique,
            known: vec![UNKNOWN; if is_unique { pages.len() * PAGE } else { state.node_kinds() }],
            numbers: HashMap::new(),
            tuples: Vec::new(),
        })
    }

    /// The tuple of the node in a slot.
    #[inline]
    pub(crate) fn tuple(&mut self, slot: u32) -> u32 {
        let kind = kind_of(self.pages, slot);
        let index = kind.map(|kind| if self.is_unique { slot as usize } else { kind });
        match index.map(|index| self.known[index]) {
            Some(tuple) if tuple != UNKNOWN => tuple,
            Some(_) | None => self.find_tuple(slot, index),
        }
    }

    /// The tuples of `nodes`, which are nodes of a page; the entries of other nodes are meaningless.
    pub(crate) fn tuples_of(&mut self, number: usize, nodes: u64) -> [u32; PAGE] {
        let page = self.pages[number];
        let first = number * PAGE;
        let mut tuples: [u32; PAGE] = match self.is_unique {
            true => {
                *self.known[first..].first_chunk().expect("`known` has an entry for each node of each page")
            }
            false => page.kind.map(|kind| self.known[kind as usize]),
        };
        let unknown = nodes & pack_bits(&tuples.map(|tuple| u8::from(tuple == UNKNOWN)));
        for bit in bits(unknown) {
            tuples[bit] = self.tuple((first + bit) as u32);
        }
        tuples
    }

    fn find_tuple(&mut self, slot: u32, index: Option<usize>) -> u32 {
        let cells: Vec<Option<u32>> = self.all.iter_mut().map(|spread| spread.cell(slot)).collect();
        let tuple = match self.numbers.get(&cells) {
            Some(tuple) => *tuple,
            None => self.add_tuple(cells),
        };
        if let Some(index) = index {
            self.known[index] = tuple;
        }
        tuple
    }

    fn add_tuple(&mut self, cells: Vec<Option<u32>>) -> u32 {
        let tuple = self.tuples.len() as u32;
        for (with_cell, cell) in self.with_cell.iter_mut().zip(&cells) {
            let Some(cell) = cell else { continue };
            let index = *cell as usize;
            with_cell.resize_with(with_cell.len().max(index + 1), Vec::new);
            with_cell[index].push(tuple);
        }
        self.numbers.insert(cells.clone(), tuple);
        self.tuples.push(cells);
        tuple
    }

    /// Number of tuples found so far.
    pub(crate) fn tuples(&self) -> usize {
        self.tuples.len()
    }

    /// Sets which nodes are candidates, a word for each page.
    pub(crate) fn set_candidates(&mut self, nodes: &[u64]) {
        // For each kind, 1 if it was handled.
        let mut seen = vec![0; self.known.len()];
        for (number, word) in nodes.iter().enumerate().filter(|(_, word)| **word != 0) {
            let page = self.pages[number];
            let unseen = if self.is_unique { *word } else { *word & !pack_bits(&by_kind(page, &seen)) };
            for bit in bits(unseen) {
                let is_new = self.is_unique || std::mem::replace(&mut seen[page.kind[bit] as usize], 1) == 0;
                if is_new {
                    self.set_candidate((number * PAGE + bit) as u32);
                }
            }
        }
    }

    fn set_candidate(&mut self, slot: u32) {
        let tuple = self.tuple(slot) as usize;
        for (spread, cell) in self.all.iter_mut().zip(&self.tuples[tuple]) {
            if let Some(cell) = cell {
                spread.cells[*cell as usize].has_candidates = true;
            }
        }
    }

    /// Records a change of the group's allocations on the node in a slot. Returns the tuples whose level changed.
    pub(crate) fn note(&mut self, slot: u32, change: CountChange) -> Vec<u32> {
        let mut changed = Vec::new();
        for (spread, with_cell) in self.all.iter_mut().zip(&self.with_cell) {
            let Some(cell) = spread.note(slot, change) else { continue };
            changed.extend(with_cell.get(cell as usize).into_iter().flatten());
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// The level of a tuple.
    pub(crate) fn level(&self, tuple: u32) -> Level {
        let cells = &self.tuples[tuple as usize];
        self.all.iter().zip(cells).map(|(spread, cell)| spread.level(*cell)).collect()
    }

    /// The lowest possible boost, which is the boost of a value whose desired number is zero.
    pub(crate) fn lowest(&self) -> f64 {
        let boosts = self.all.iter().flat_map(OneSpread::boosts_of_candidates);
        boosts.fold(UNWANTED, f64::min)
    }

    /// The boost of a tuple.
    pub(crate) fn boost(&self, tuple: u32, lowest: f64) -> f64 {
        let cells = &self.tuples[tuple as usize];
        self.all.iter().zip(cells).map(|(spread, cell)| spread.boost(*cell, lowest)).sum()
    }
}

impl<'a> OneSpread<'a> {
    /// A spread with the values of `own`, and the targets and the weight of `effective`, which is a spread over the
    /// same attribute.
    fn new(property: Property<'a>, own: &Spread, effective: &Spread, of_all: (u32, u32)) -> Self {
        let (count, weights) = of_all;
        let goal = match effective.targets.is_empty() {
            true => Goal::Even(BTreeMap::new()),
            false => {
                let weight = f64::from(effective.weight) / f64::from(weights.max(1));
                Goal::Targets(desired(effective, count), weight)
            }
        };
        let named = own.targets.iter().map(|target| Text::clone(&target.value)).collect();
        let mut one = Self { property, named, cells: Vec::new(), of_value: Vec::new(), goal };
        for value in 0..one.property.values() {
            let cell = one.cell_of(value) as usize;
            one.cells[cell].used += one.property.used(value);
            one.cells[cell].present += 1;
        }
        if let Goal::Even(counts) = &mut one.goal {
            one.cells.iter().for_each(|cell| *counts.entry(cell.used).or_default() += 1);
        }
        one
    }

    /// The cell of the node in a slot.
    fn cell(&mut self, slot: u32) -> Option<u32> {
        let value = self.property.value(slot)?;
        Some(self.cell_of(value))
    }

    fn cell_of(&mut self, value: u32) -> u32 {
        if self.of_value.len() <= value as usize {
            self.of_value.resize(value as usize + 1, UNKNOWN);
        }
        if self.of_value[value as usize] == UNKNOWN {
            let text = self.property.text(value);
            let is_named = self.named.is_empty() || self.named.contains(text);
            let name = if is_named { Text::clone(text) } else { ANY_VALUE.into() };
            let known = match self.named.is_empty() {
                true => None,
                false => self.cells.iter().position(|cell| cell.name == name),
            };
            let cell = known.unwrap_or_else(|| {
                self.add_cell(name);
                self.cells.len() - 1
            });
            self.of_value[value as usize] = cell as u32;
        }
        self.of_value[value as usize]
    }

    fn add_cell(&mut self, name: Text) {
        let desired = match &self.goal {
            Goal::Even(_) => None,
            Goal::Targets(desired, _) => desired.get(&name).or_else(|| desired.get(ANY_VALUE)).copied(),
        };
        self.cells.push(Cell { name, used: 0, present: 0, desired, has_candidates: false });
    }

    fn note(&mut self, slot: u32, change: CountChange) -> Option<u32> {
        let value = self.property.value(slot)?;
        let number = self.cell_of(value);
        let (was_present, before) = (self.property.is_present(value), self.property.used(value));
        self.property.note(slot, change);
        let (is_present, after) = (self.property.is_present(value), self.property.used(value));
        let cell = &mut self.cells[number as usize];
        if let Goal::Even(counts) = &mut self.goal
            && cell.present > 0
        {
            match counts.get_mut(&cell.used) {
                Some(1) => drop(counts.remove(&cell.used)),
                Some(cells) => *cells -= 1,
                None => unreachable!("the count of each cell in use is recorded"),
            }
        }
        cell.used = cell.used + after - before;
        cell.present = cell.present + u32::from(is_present) - u32::from(was_present);
        if let Goal::Even(counts) = &mut self.goal
            && cell.present > 0
        {
            *counts.entry(cell.used).or_default() += 1;
        }
        Some(number)
    }

    fn level(&self, cell: Option<u32>) -> u32 {
        match (&self.goal, cell) {
            (_, None) => u32::MAX,
            (Goal::Even(_), Some(cell)) => self.cells[cell as usize].used,
            (Goal::Targets(..), Some(cell)) => cell,
        }
    }

    fn boost(&self, cell: Option<u32>, lowest: f64) -> f64 {
        let Some(cell) = cell else { return UNWANTED };
        let cell = &self.cells[cell as usize];
        match &self.goal {
            Goal::Even(counts) => even_boost(cell.used, counts),
            Goal::Targets(_, weight) => target_boost(cell, *weight, lowest),
        }
    }

    fn boosts_of_candidates(&self) -> impl Iterator<Item = f64> {
        let weight = match &self.goal {
            Goal::Even(_) => None,
            Goal::Targets(_, weight) => Some(*weight),
        };
        let wanted = |cell: &&Cell| cell.has_candidates && cell.desired.is_some_and(|desired| desired > 0.0);
        let wanted = self.cells.iter().filter(wanted);
        wanted.filter_map(move |cell| Some(target_boost(cell, weight?, 0.0)))
    }
}

/// Desired number of allocations of each value.
fn desired(spread: &Spread, count: u32) -> BTreeMap<Text, f64> {
    let count = f64::from(count);
    let share = |percent: u64| percent as f64 / 100.0 * count;
    let mut desired: BTreeMap<Text, f64> =
        spread.targets.iter().map(|target| (Text::clone(&target.value), share(target.percent))).collect();
    let sum: f64 = spread.targets.iter().map(|target| share(target.percent)).sum();
    if sum > 0.0 && sum < count {
        desired.insert(ANY_VALUE.into(), count - sum);
    }
    desired
}

/// The boost of a value with targets.
fn target_boost(cell: &Cell, weight: f64, lowest: f64) -> f64 {
    match cell.desired {
        None => UNWANTED,
        Some(0.0) => lowest,
        Some(desired) => (desired - f64::from(cell.used) - 1.0) / desired * weight,
    }
}

/// The boost of a value without targets. The minimum includes values whose count is zero.
fn even_boost(used: u32, counts: &BTreeMap<u32, u32>) -> f64 {
    let (Some((min, _)), Some((max, _))) = (counts.first_key_value(), counts.last_key_value()) else {
        return 0.0;
    };
    let [cur, min, max] = [used, *min, *max].map(f64::from);
    if cur != min {
        return if min == 0.0 { -1.0 } else { (min - cur) / min };
    }
    if min == max {
        -1.0
    } else if min == 0.0 {
        1.0
    } else {
        (max - min) / min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(used: u32, counts: &[u32]) -> f64 {
        let mut by_count = BTreeMap::new();
        counts.iter().for_each(|count| *by_count.entry(*count).or_default() += 1);
        even_boost(used, &by_count)
    }

    /// The examples of.
    #[test]
    fn the_value_that_is_used_least_is_worth_most() {
        assert_eq!((even(2, &[2]), even(0, &[2])), (-1.0, 1.0));
        assert_eq!((even(2, &[2, 3]), even(3, &[2, 3])), (0.5, -0.5));
        assert_eq!((even(3, &[3, 3]), even(0, &[3, 3]), even(0, &[])), (-1.0, 1.0, 0.0));
        assert_eq!((even(0, &[0, 2]), even(2, &[0, 2])), (1.0, -1.0));
    }
}
