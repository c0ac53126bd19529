//! [`Scope`]: which part of the cluster's state a process keeps.

use crate::tables::Table;

/// Which tables a state keeps, and whether also in the orders that lists are given in.
///
/// A service that never looks at a table is spared its memory, and the time to keep it. What is left out is as if there were
/// nothing; in a debug build, whoever looks at it nevertheless panics. What tells of jobs is kept beside them, and
/// allocations beside nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// A bit for each table.
    tables: u32,
    lists: bool,
}

impl Scope {
    /// Everything.
    pub const ALL: Self = Self { lists: true, ..Self::of(&Table::ALL) };

    /// These tables, without lists.
    pub const fn of(tables: &[Table]) -> Self {
        Self { tables: bits(tables), lists: false }
    }

    /// The same without these tables.
    #[must_use]
    pub const fn without(self, tables: &[Table]) -> Self {
        Self { tables: self.tables & !bits(tables), ..self }
    }

    /// The same without lists: no page of allocations, of evaluations, of deployments, or of jobs by their last change can be
    /// asked for.
    #[must_use]
    pub const fn without_lists(self) -> Self {
        Self { lists: false, ..self }
    }

    /// Whether a table is kept.
    pub const fn has(self, table: Table) -> bool {
        self.tables & bits(&[table]) != 0
    }

    /// Whether with each table there is also what its rows refer to.
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

    /// Whether what is kept is there in the orders of lists, too.
    pub const fn has_lists(self) -> bool {
        self.lists
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::ALL
    }
}

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
