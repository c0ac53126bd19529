//! How often each value of a node's property is in use by a job or one of its groups (`spec/scheduling.md`,
//! what `distinct_property` and spreads count.

use std::collections::HashMap;

use model::{Index, Text};
use state::{AllocRef, NodePage, PAGE, State};

use super::condition::{Side, escapes_class};

/// Stands for a node that was not asked yet.
const UNKNOWN: u32 = u32::MAX;
/// Stands for a node that does not have the property.
const MISSING: u32 = u32::MAX - 1;

/// A property of nodes, with the allocations that count for it.
#[derive(Debug)]
pub(crate) struct Property<'a> {
    state: &'a State,
    name: &'a str,
    side: Side<'a>,
    /// The group whose allocations count; `None` is all of the job's.
    group: Option<&'a Text>,
    pages: &'a [&'a NodePage],
    is_unique: bool,
    /// The number of each kind's value; of each slot's, where the property is a node's alone.
    known: Vec<u32>,
    numbers: HashMap<Text, u32>,
    values: Vec<Text>,
    uses: Vec<Use>,
}

/// What counts for one value.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// Allocations of the snapshot that are not terminal.
    existing: u32,
    /// What the plan places.
    proposed: u32,
    /// What the plan stops, whatever its state.
    cleared: u32,
}

impl Use {
    /// A value that is cleared and proposed again counts one of its stops less, if there are several.
    fn count(self) -> u32 {
        let reused = self.proposed > 0 && self.cleared > 1;
        (self.existing + self.proposed).saturating_sub(self.cleared - u32::from(reused))
    }
}

/// A change of what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The plan places one.
    Proposed,
    /// The plan stops one.
    Cleared,
    /// It does not stop it after all.
    Kept,
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

    /// The property as the job writes it.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// Whether the allocations of a group count.
    pub(crate) fn counts_group(&self, group: &Text) -> bool {
        self.group.is_none_or(|own| own == group)
    }

    /// The number of the value that the node in a slot has.
    pub(crate) fn value(&mut self, slot: u32) -> Option<u32> {
        let kind = kind_of(self.pages, slot)?;
        let place = if self.is_unique { slot as usize } else { kind };
        if self.known[place] == UNKNOWN {
            let node = self.state.node_at(slot)?;
            self.known[place] = self.side.resolve(node).map_or(MISSING, |text| self.number(&text));
        }
        let number = self.known[place];
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

    /// How many values were seen so far.
    pub(crate) fn values(&self) -> u32 {
        self.values.len() as u32
    }

    /// How often a value is in use.
    pub(crate) fn used(&self, value: u32) -> u32 {
        self.uses[value as usize].count()
    }

    /// Whether a value is or was in use, be it that all of it is stopped.
    pub(crate) fn is_present(&self, value: u32) -> bool {
        let counted = self.uses[value as usize];
        counted.existing > 0 || counted.proposed > 0
    }

    /// Notes what happens on the node in a slot; the value that it concerns.
    pub(crate) fn note(&mut self, slot: u32, change: Counted) -> Option<u32> {
        let value = self.value(slot)?;
        let counted = &mut self.uses[value as usize];
        match change {
            Counted::Proposed => counted.proposed += 1,
            Counted::Cleared => counted.cleared += 1,
            Counted::Kept => counted.cleared -= 1,
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

/// The kind of the node in a slot; `None` where there is none any more.
pub(crate) fn kind_of(pages: &[&NodePage], slot: u32) -> Option<usize> {
    let (page, place) = (pages[slot as usize / PAGE], slot as usize % PAGE);
    (page.known >> place & 1 != 0).then(|| page.kind[place] as usize)
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
