//! What this form of the scheduler does not know yet, by name.
//!
//! A job that needs such a thing is not placed as if it had not asked: its evaluation fails and says what is missing
//! ([`crate::outcome`]). What is already there can always be stopped.

/// Something that is not built, as the evaluation's description names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unbuilt(pub(crate) &'static str);
