//! [`Names`]: interned names of computed classes, datacenters and node pools.
//!
//! A scan over all nodes compares numbers instead of names, which makes it fast. The numbers are local to the process. A
//! name keeps its number as long as the process runs, because there are few names.

use model::Text;

use crate::btree::BTree;
use crate::chunked::Chunked;

/// A mapping from names to numbers and back.
#[derive(Debug, Clone, Default)]
pub struct Names {
    numbers: BTree<Text, u32>,
    names: Chunked<Text>,
}

impl Names {
    /// The number of a name, if it has one.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The name with a number.
    pub fn name(&self, number: u32) -> Option<&Text> {
        self.names.get(number as usize)
    }

    /// The count of names. All their numbers are below it.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of a name. Assigns one if it has none.
    pub(crate) fn intern(&mut self, name: &Text) -> u32 {
        if let Some(number) = self.number(name) {
            return number;
        }
        let number =
            u32::try_from(self.names.push(Text::clone(name))).expect("`Chunked` has at most u32::MAX rows");
        self.numbers.insert(Text::clone(name), number);
        number
    }
}
