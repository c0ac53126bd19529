//! The names of the built-in node pools, which always exist and cannot be changed.

/// The pool of all nodes.
pub(crate) const ALL_NODES: &str = "all";
/// The pool of nodes that do not name one.
const DEFAULT: &str = "default";

/// Whether a pool is built in.
pub(crate) fn is_built_in_pool(name: &str) -> bool {
    matches!(name, ALL_NODES | DEFAULT)
}
