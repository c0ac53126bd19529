//! [`Scope`]: the part of the state that a replica keeps.

use model::Table;

/// The tables that a state keeps, and whether it keeps the indexes for sorted lists.
///
/// A service does not spend memory and time on tables that it does not use. A table that is out of scope is empty, and a
/// debug build panics on access. Tables that refer to jobs need the table of jobs, and allocations need nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// One bit per table.
    tables: u32,
    lists: bool,
}

impl Scope {
    /// All tables, with lists.
    pub const ALL: Self = Self { lists: true, ..Self::of(&Table::ALL) };

    /// Only the given tables, without lists.
    pub const fn of(tables: &[Table]) -> Self {
        Self { tables: bits(tables), lists: false }
    }

    /// Removes the given tables.
    #[must_use]
    pub const fn without(self, tables: &[Table]) -> Self {
        Self { tables: self.tables & !bits(tables), ..self }
    }

    /// Removes the lists. Sorted pages of allocations, evaluations, deployments, and of jobs by last change are then not
    /// available.
    #[must_use]
    pub const fn without_lists(self) -> Self {
        Self { lists: false, ..self }
    }

    /// Whether the scope contains a table.
    pub const fn has(self, table: Table) -> bool {
        self.tables & bits(&[table]) != 0
    }

    /// Whether the scope contains every table that rows of its tables refer to.
    pub const fn is_whole(self) -> bool {
        let of_jobs = bits(&[
            Table::JobSubmissions,
            Table::JobSummaries,
            Table::Evals,
            Table::Deployments,
            Table::Allocs,
        ]);
        (self.tables & of_jobs == 0 || self.has(Table::Jobs))
            && (!self.has(Table::Allocs) || self.has(Table::Nodes))
    }

    /// Whether the scope contains the indexes for sorted lists.
    pub const fn has_lists(self) -> bool {
        self.lists
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::ALL
    }
}

const _: () = assert!(Table::ALL.len() <= u32::BITS as usize, "a scope has one bit per table");

const fn bits(tables: &[Table]) -> u32 {
    match tables {
        [] => 0,
        [first, rest @ ..] => 1 << *first as u32 | bits(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_what_it_was_made_of() {
        assert!(Table::ALL.into_iter().all(|table| Scope::ALL.has(table)) && Scope::ALL.has_lists());
        let few = Scope::of(&[Table::Jobs, Table::Unblocked]);
        let kept: Vec<Table> = Table::ALL.into_iter().filter(|table| few.has(*table)).collect();
        assert_eq!((kept, few.has_lists()), (vec![Table::Jobs, Table::Unblocked], false));
        let less = Scope::ALL.without(&[Table::Evals]);
        assert_eq!((less.has(Table::Evals), less.has(Table::Jobs), less.has_lists()), (false, true, true));
        assert!(!less.without_lists().has_lists());
    }

    #[test]
    fn a_scope_is_whole_with_what_its_rows_refer_to() {
        assert!(Scope::ALL.is_whole() && Scope::of(&[]).is_whole());
        assert!(!Scope::ALL.without(&[Table::Jobs]).is_whole());
        assert!(!Scope::ALL.without(&[Table::Nodes]).is_whole());
        assert!(Scope::ALL.without(&[Table::Nodes, Table::Allocs]).is_whole());
    }
}
