//! [`Table`]: the tables of the state.

macro_rules! tables {
    (
        { $($table:ident),+ $(,)? }
        $( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+
    ) => {
        /// The tables of the state. Every change concerns one of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is named after the objects that it contains")]
        pub enum Table {
            $( $table, )+
            $( $small, )+
        }

        impl Table {
            /// All tables.
            pub const ALL: [Self; [$( Table::$table, )+ $( Table::$small, )+].len()] =
                [$( Self::$table, )+ $( Self::$small, )+];
        }
    };
}

crate::for_each_small_object! {
    tables {
        Jobs,
        JobSubmissions,
        JobSummaries,
        Evals,
        Allocs,
        Deployments,
        Nodes,
        SchedulerConfig,
        Leases,
        Unblocked,
    }
}
