//! Numbers for names that many objects share: computed classes, datacenters, node pools.
//!
//! Comparing numbers is what makes a scan over all nodes fast. They are this process's own and never leave it. A name
//! keeps its number for as long as the process runs; there are few enough names for that.

use model::Text;

use crate::btree::BTree;
use crate::chunked::Chunked;

/// Names with their numbers, both ways.
#[derive(Debug, Clone, Default)]
pub struct Names {
    numbers: BTree<Text, u32>,
    names: Chunked<Text>,
}

impl Names {
    /// The name's number, if it ever got one.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The name with that number.
    pub fn name(&self, number: u32) -> Option<&Text> {
        self.names.get(number as usize)
    }

    /// How many names there are; their numbers are those below.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn number_for(&mut self, name: &Text) -> u32 {
        if let Some(number) = self.number(name) {
            return number;
        }
        let number =
            u32::try_from(self.names.push(Text::clone(name))).expect("`Chunked` has at most u32::MAX rows");
        self.numbers.insert(Text::clone(name), number);
        number
    }
}
