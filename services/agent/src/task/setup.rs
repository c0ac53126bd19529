//! What the hooks of an allocation have prepared for its tasks.

use std::sync::Arc;

use crate::networks::AllocNetwork;

/// What the hooks of an allocation have prepared for its tasks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AllocSetup {
    /// The allocation's network; `None` is the node's.
    pub(crate) network: Option<Arc<AllocNetwork>>,
}
