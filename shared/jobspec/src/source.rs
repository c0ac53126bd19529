//! The text of a file: its syntax tree, and lines and columns for offsets in it.

use std::ops::Range;

use hcl_edit::{Span, structure::Body};

use crate::{
    DEFINITIONS_MAX, SOURCE_BYTES_MAX,
    error::{Diagnostic, Error},
};

/// A file with its name.
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(name: &'a str, text: &'a str) -> Result<Source<'a>, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let source = Source { name, text, line_starts: std::iter::once(0).chain(ends).collect() };
        if text.len() > SOURCE_BYTES_MAX {
            let detail = format!("it has {} bytes, and at most {SOURCE_BYTES_MAX} are read", text.len());
            return Err(source.refused(0, 0, "File too large", detail));
        }
        let definitions = text.bytes().filter(|byte| matches!(byte, b'=' | b':')).count();
        if definitions > DEFINITIONS_MAX {
            let detail = format!(
                "it has {definitions} signs that define something, and at most {DEFINITIONS_MAX} are read"
            );
            return Err(source.refused(0, 0, "File too large", detail));
        }
        Ok(source)
    }

    pub(crate) fn parse(&self) -> Result<Body, Error> {
        if self.text.trim_start_matches(' ').starts_with('{') {
            let detail = "job files in JSON syntax cannot be read yet".to_owned();
            return Err(self.refused(1, 1, "Not built yet", detail));
        }
        hcl_edit::parser::parse_body(self.text).map_err(|error| {
            let (line, column) = self.position(error.location().offset());
            self.refused(line, column, "Invalid syntax", error.message().replace('\n', "; "))
        })
    }

    fn refused(&self, line: usize, column: usize, summary: &str, detail: String) -> Error {
        let file = self.name.to_owned();
        Error { diagnostics: vec![Diagnostic { file, line, column, summary: summary.to_owned(), detail }] }
    }

    /// Line and column of an offset in bytes, both from 1, the column in characters.
    pub(crate) fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }

    pub(crate) fn slice(&self, span: Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }
}

/// Where in its source something is that the parser made.
pub(crate) fn span(of: &impl Span) -> Range<usize> {
    of.span().unwrap_or_default()
}
