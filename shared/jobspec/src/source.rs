//! The text of a file, and lines and columns for offsets in it.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    SOURCE_BYTES_MAX,
    error::{Fault, Place},
    syntax::At,
};

/// The longest excerpt in bytes; what a machine wrote on one line nobody reads.
const EXCERPT_BYTES_MAX: usize = 1024;

/// A file with its name.
pub(crate) struct Source<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) text: &'a str,
}

impl<'a> Source<'a> {
    /// Without the mark that some editors put before the text.
    pub(crate) fn new(name: impl Into<Cow<'a, str>>, text: &'a str) -> Source<'a> {
        Source { name: name.into(), text: text.strip_prefix('\u{feff}').unwrap_or(text) }
    }

    /// What is wrong with its size, if something is.
    pub(crate) fn oversize(&self) -> Option<Fault> {
        let detail = format!("it has {} bytes, and at most {SOURCE_BYTES_MAX} are read", self.text.len());
        let fault = Fault { at: None, ..Fault::new(0..0, "File too large", detail) };
        (self.text.len() > SOURCE_BYTES_MAX).then_some(fault)
    }

    /// Lines and columns of a part of the text.
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

    /// Line and column of an offset, both from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        (line, before[line_start..].graphemes(true).count() + 1)
    }

    fn floor(&self, offset: usize) -> usize {
        floor(self.text, offset)
    }
}

/// The last boundary of characters up to an offset.
fn floor(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}
