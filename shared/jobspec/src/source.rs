//! The text of a file, and the lines and columns of offsets in it.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    SOURCE_BYTES_MAX,
    fault::Fault,
    position::{At, Place},
};

/// Maximum size of an excerpt, in bytes. Generated files may have very long lines.
const EXCERPT_BYTES_MAX: usize = 1024;
/// Number of bytes at the start of a line in which grapheme clusters are counted. Beyond them, code points are counted, which
/// is much faster.
const CLUSTERED_BYTES_MAX: usize = 16 << 10;

/// A file with its name.
pub(crate) struct Source<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) text: &'a str,
}

impl<'a> Source<'a> {
    /// A source. Removes the byte order mark that some editors put before the text.
    pub(crate) fn new(name: impl Into<Cow<'a, str>>, text: &'a str) -> Source<'a> {
        Source { name: name.into(), text: text.strip_prefix('\u{feff}').unwrap_or(text) }
    }

    /// An error if the source is too large.
    pub(crate) fn oversize(&self) -> Option<Fault> {
        let detail =
            format!("the file has {} bytes, more than the maximum of {SOURCE_BYTES_MAX}", self.text.len());
        let fault = Fault { at: None, ..Fault::new(0..0, "File too large", detail) };
        (self.text.len() > SOURCE_BYTES_MAX).then_some(fault)
    }

    /// The lines and columns of a range.
    pub(crate) fn place(&self, at: At) -> Place {
        let start = self.floor(at.start);
        let end = self.floor(at.end.max(start));
        let (line, column) = self.position(start);
        let (end_line, end_column) = self.position(end);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let rest = &self.text[line_start..];
        let length = rest.find('\n').unwrap_or(rest.len()).min(EXCERPT_BYTES_MAX);
        let excerpt = rest[..floor(rest, length)].trim_end_matches('\r').to_owned();
        let marked_start = (start - line_start).min(excerpt.len());
        let marked = marked_start..(end - line_start).clamp(marked_start, excerpt.len());
        Place { line, column, end_line, end_column, excerpt, marked }
    }

    /// The line and column of an offset, both from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        (line, columns(&before[line_start..]) + 1)
    }

    fn floor(&self, offset: usize) -> usize {
        floor(self.text, offset)
    }
}

/// The number of columns that a part of a line takes.
fn columns(text: &str) -> usize {
    let (start, rest) = text.split_at(floor(text, CLUSTERED_BYTES_MAX));
    let clusters = if start.is_ascii() { start.len() } else { start.graphemes(true).count() };
    clusters + rest.chars().count()
}

/// The last character boundary at or before an offset.
fn floor(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters() {
        let text = "a\n\u{65}\u{301}x";
        let source = Source::new("f", text);
        assert_eq!(source.position(text.len() - 1), (2, 2));
        let long = format!("{}é", "a".repeat(CLUSTERED_BYTES_MAX));
        assert_eq!(Source::new("f", &long).position(long.len()), (1, CLUSTERED_BYTES_MAX + 2));
    }
}
