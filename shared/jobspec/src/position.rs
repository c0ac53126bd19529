//! Positions in a file: byte ranges, and lines and columns.

use std::ops::Range;

/// A range of bytes in the source.
pub(crate) type At = Range<usize>;

/// A range in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The line of the start, from 1.
    pub line: usize,
    /// The column of the start in grapheme clusters, from 1.
    pub column: usize,
    /// The line of the end.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
    /// The text of the first line.
    pub excerpt: String,
    /// The range within the excerpt, in bytes.
    pub marked: Range<usize>,
}
