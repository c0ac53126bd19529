//! Features that this scheduler does not implement.
//!
//! A job that needs such a feature is not placed without it: its evaluation fails, and the status description names the
//! feature ([`crate::outcome`]). Its existing allocations can always be stopped.

/// The name of a feature that is not implemented, as it appears in the status description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unbuilt(pub(crate) &'static str);
