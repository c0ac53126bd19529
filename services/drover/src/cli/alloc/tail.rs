//! Flags that select the part of a log or file to print.

use crate::cli::Output;

/// Number of lines that `-tail` prints by default.
const TAIL_LINES: usize = 10;
/// Assumed bytes per line, to estimate where the last lines begin.
const LINE_BYTES: u64 = 120;
/// The largest offset from the end that the server accepts, in bytes.
const BACK_BYTES_MAX: u64 = i64::MAX as u64;

/// The start of the output, and whether to follow the file.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct Tail {
    /// Keep printing new content as it is written.
    #[arg(short = 'f')]
    pub(super) follow: bool,
    /// Print only the end: the last 10 lines, unless -n or -c is given.
    #[arg(long)]
    tail: bool,
    /// Print only this many lines at the end.
    #[arg(short = 'n', value_name = "LINES")]
    lines: Option<usize>,
    /// Print only this many bytes at the end.
    #[arg(short = 'c', value_name = "BYTES", conflicts_with = "lines")]
    bytes: Option<u64>,
}

impl Tail {
    /// The first of these flags that is set.
    pub(super) fn given(&self) -> Option<&'static str> {
        let flags = [
            ("-f", self.follow),
            ("-tail", self.tail),
            ("-n", self.lines.is_some()),
            ("-c", self.bytes.is_some()),
        ];
        flags.into_iter().find_map(|(flag, is_set)| is_set.then_some(flag))
    }

    /// Whether the whole current content is printed.
    pub(super) fn is_whole(&self) -> bool {
        !self.follow && self.before_end().is_none()
    }

    /// The start: which end of the file, and the offset from it in bytes.
    pub(super) fn origin(&self) -> (&'static str, String) {
        match self.before_end() {
            Some(bytes) => ("end", bytes.to_string()),
            None => ("start", "0".to_owned()),
        }
    }

    /// The destination of the bytes.
    pub(super) fn sink(&self, output: Output) -> Sink {
        // The number of lines in the last bytes is known only at the end, so lines are not counted when a file is followed.
        let buffer = self.lines().filter(|_| !self.follow).map(|lines| (lines, Vec::new()));
        Sink { output, buffer, is_stderr: false }
    }

    fn lines(&self) -> Option<usize> {
        let is_default = self.tail && self.bytes.is_none();
        self.lines.or(is_default.then_some(TAIL_LINES))
    }

    fn before_end(&self) -> Option<u64> {
        let of_lines = |lines: usize| (lines as u64).saturating_mul(LINE_BYTES);
        self.bytes.or(self.lines().map(of_lines)).map(|bytes| bytes.min(BACK_BYTES_MAX))
    }
}

/// Prints bytes as they come, or buffers them to print only the last lines.
pub(super) struct Sink {
    output: Output,
    buffer: Option<(usize, Vec<u8>)>,
    is_stderr: bool,
}

impl Sink {
    /// Prints to standard error instead of standard output.
    pub(super) fn into_stderr(self) -> Self {
        Self { is_stderr: true, ..self }
    }

    pub(super) fn write(&mut self, piece: &[u8]) {
        match &mut self.buffer {
            Some((_, text)) => text.extend_from_slice(piece),
            None => print(self.output, self.is_stderr, piece),
        }
    }

    pub(super) fn finish(self) {
        if let Some((lines, text)) = self.buffer {
            print(self.output, self.is_stderr, last(lines, &text));
        }
    }
}

fn print(output: Output, is_stderr: bool, bytes: &[u8]) {
    if is_stderr { output.raw_error(bytes) } else { output.raw(bytes) }
}

/// The last lines of a text.
fn last(lines: usize, text: &[u8]) -> &[u8] {
    if lines == 0 {
        return &[];
    }
    let ends = text.iter().enumerate().rev().filter(|(at, byte)| **byte == b'\n' && at + 1 < text.len());
    let start = ends.map(|(at, _)| at + 1).nth(lines - 1).unwrap_or(0);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines() {
        let last = |lines, text: &'static str| std::str::from_utf8(last(lines, text.as_bytes())).unwrap();
        assert_eq!(last(2, "one\ntwo\nthree\n"), "two\nthree\n");
        assert_eq!(last(2, "one\ntwo\nthr"), "two\nthr");
        assert_eq!(last(9, "one\ntwo\n"), "one\ntwo\n");
        assert_eq!(last(0, "one\n"), "");
        assert_eq!(last(1, ""), "");
    }

    #[test]
    fn the_flags_say_how_far_before_the_end_to_start() {
        let whole = Tail::default();
        assert!(whole.is_whole());
        assert_eq!(whole.origin(), ("start", "0".to_owned()));
        let tail = Tail { tail: true, ..Tail::default() };
        assert!(!tail.is_whole());
        assert_eq!((whole.given(), tail.given()), (None, Some("-tail")));
        assert_eq!(tail.origin(), ("end", "1200".to_owned()));
        let bytes = Tail { tail: true, bytes: Some(7), ..Tail::default() };
        assert_eq!((bytes.origin(), bytes.lines()), (("end", "7".to_owned()), None));
        let many = Tail { lines: Some(usize::MAX), ..Tail::default() };
        assert_eq!(many.origin(), ("end", i64::MAX.to_string()));
    }
}
