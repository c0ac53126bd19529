//! Counts how often each value of a node property is used by a job or one of its groups (`docs/rules/scheduling.md`,
//! Used by `distinct_property` and spreads.

use std::collections::HashMap;

use model::{Index, Text};
use state::{AllocRef, NodePage, PAGE, State};

use super::condition::{Side, escapes_class};

/// Marks a node that was not looked up yet.
const UNKNOWN: u32 = u32::MAX;
/// Marks a node that does not have the property.
const MISSING: u32 = u32::MAX - 1;

/// A node property, with the allocations that count for it.
#[derive(Debug)]
pub(crate) struct Property<'a> {
    state: &'a State,
    name: &'a str,
    side: Side<'a>,
    /// The group whose allocations count; `None` if all of the job's allocations count.
    group: Option<&'a Text>,
    pages: &'a [&'a NodePage],
    is_unique: bool,
    /// The number of each kind's value; of each slot's value if `is_unique`.
    known: Vec<u32>,
    numbers: HashMap<Text, u32>,
    values: Vec<Text>,
    uses: Vec<Use>,
}

/// Counts of one value.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// Allocations of the snapshot that are not terminal.
    existing: u32,
    /// Allocations that the plan places.
    proposed: u32,
    /// Allocations that the plan stops, whatever their status.
    cleared: u32,
}

impl Use {
    /// If a value is both cleared and proposed, one stop less counts, unless there is only one.
    fn count(self) -> u32 {
        let reused = self.proposed > 0 && self.cleared > 1;
        (self.existing + self.proposed).saturating_sub(self.cleared - u32::from(reused))
    }
}

/// A change of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountChange {
    /// The plan places an allocation.
    Proposed,
    /// The plan stops an allocation.
    Cleared,
    /// The plan does not stop an allocation after all.
    Restored,
}

impl<'a> Property<'a> {
    pub(crate) fn of(
        state: &'a State,
        pages: &'a [&'a NodePage],
        name: &'a str,
        group: Option<&'a Text>,
        job: (Index, &[AllocRef<'a>]),
    ) -> Self {
        let is_unique = escapes_class(name);
        let mut property = Self {
            state,
            name,
            side: Side::parse(name),
            group,
            pages,
            is_unique,
            known: vec![UNKNOWN; if is_unique { pages.len() * PAGE } else { state.node_kinds() }],
            numbers: HashMap::new(),
            values: Vec::new(),
            uses: Vec::new(),
        };
        let (create_index, allocs) = job;
        for alloc in allocs {
            let counts = !alloc.is_terminal()
                && alloc.common().job.create_index == create_index
                && property.counts_group(alloc.group_name());
            if counts && let Some(value) = property.value(alloc.node_slot()) {
                property.uses[value as usize].existing += 1;
            }
        }
        property
    }

    /// The property as the job specifies it.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// Whether the allocations of a group count.
    pub(crate) fn counts_group(&self, group: &Text) -> bool {
        self.group.is_none_or(|own| own == group)
    }

    /// The number of the value of the node in a slot.
    pub(crate) fn value(&mut self, slot: u32) -> Option<u32> {
        let kind = kind_of(self.pages, slot)?;
        let index = if self.is_unique { slot as usize } else { kind };
        if self.known[index] == UNKNOWN {
            let node = self.state.node_at(slot)?;
            self.known[index] = self.side.resolve(node).map_or(MISSING, |text| self.number(&text));
        }
        let number = self.known[index];
        (number != MISSING).then_some(number)
    }

    /// Whether nodes of one kind may have different values.
    pub(crate) fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// The text of a value.
    pub(crate) fn text(&self, value: u32) -> &Text {
        &self.values[value as usize]
    }

    /// Number of values found so far.
    pub(crate) fn values(&self) -> u32 {
        self.values.len() as u32
    }

    /// How often a value is used.
    pub(crate) fn used(&self, value: u32) -> u32 {
        self.uses[value as usize].count()
    }

    /// Whether a value has existing or proposed allocations, even if all of them are stopped.
    pub(crate) fn is_present(&self, value: u32) -> bool {
        let counted = self.uses[value as usize];
        counted.existing > 0 || counted.proposed > 0
    }

    /// Records a change on the node in a slot. Returns the value whose counts changed.
    pub(crate) fn note(&mut self, slot: u32, change: CountChange) -> Option<u32> {
        let value = self.value(slot)?;
        let counted = &mut self.uses[value as usize];
        match change {
            CountChange::Proposed => counted.proposed += 1,
            CountChange::Cleared => counted.cleared += 1,
            CountChange::Restored => counted.cleared -= 1,
        }
        Some(value)
    }

    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.values.len() as u32;
        self.numbers.insert(text.into(), number);
        self.values.push(text.into());
        self.uses.push(Use::default());
        number
    }
}

/// The kind of the node in a slot; `None` if the node was deleted.
pub(crate) fn kind_of(pages: &[&NodePage], slot: u32) -> Option<usize> {
    let (page, bit) = (pages[slot as usize / PAGE], slot as usize % PAGE);
    (page.known >> bit & 1 != 0).then(|| page.kind[bit] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_cleared_and_used_again_counts_one_stop_less() {
        let count = |existing, proposed, cleared| Use { existing, proposed, cleared }.count();
        assert_eq!(count(2, 0, 1), 1);
        assert_eq!(count(1, 0, 3), 0);
        assert_eq!(count(2, 1, 1), 2);
        assert_eq!(count(2, 1, 2), 2);
    }
}
