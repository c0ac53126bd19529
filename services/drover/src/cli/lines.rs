//! The lines that are printed while something is followed (`docs/rules/cli.md` 2.8). Pure.

/// One line of output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The start or end of a step.
    Milestone(String),
    /// A change within a step.
    Progress(String),
    /// A change of a row of a block. Terminals draw the block instead.
    Row(String),
    /// A detail of the line before.
    Detail(String),
}
