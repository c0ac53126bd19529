//! Standard output and standard error, with colours on terminals (`docs/rules/cli.md` §2).

use std::io::{IsTerminal as _, Write as _};

use super::page::Page;

/// When output has colours.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Colours {
    Always,
    Never,
    /// If standard output is a terminal, and the environment does not ask for plain text.
    OnTerminals,
}

/// Writes results to standard output, and errors to standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    colours: bool,
    /// Whether standard output is a terminal.
    is_terminal: bool,
}

const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

impl Output {
    pub(crate) fn new(colours: Colours) -> Self {
        let colours = match colours {
            Colours::Always => true,
            Colours::Never => false,
            Colours::OnTerminals => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Self { colours, is_terminal: std::io::stdout().is_terminal() }
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(self) -> bool {
        self.is_terminal
    }

    pub(crate) fn page(self, page: &Page) {
        self.raw(self.styled(page).as_bytes());
    }

    /// The text of a page as it is written: with colours if there are colours, those of statuses on terminals only
    /// (`docs/rules/cli.md` 2.7).
    pub(crate) fn styled(self, page: &Page) -> String {
        match self.colours && self.is_terminal {
            true => page.text_with_statuses(),
            false => page.text(self.colours),
        }
    }

    pub(crate) fn line(self, text: &str) {
        self.raw(format!("{text}\n").as_bytes());
    }

    /// Writes bytes unchanged. Ends the process if standard output is closed.
    pub(crate) fn raw(self, bytes: &[u8]) {
        let mut out = std::io::stdout();
        if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    }

    /// Writes bytes to standard error unchanged.
    pub(crate) fn raw_error(self, bytes: &[u8]) {
        let mut error = std::io::stderr();
        // A failure to write them is ignored.
        let _ = error.write_all(bytes).and_then(|()| error.flush());
    }

    /// Prints an error that brings its own colours.
    pub(crate) fn report(self, text: impl FnOnce(bool) -> String) {
        let colours = self.colours && std::io::stderr().is_terminal();
        // A failure to write the error is ignored.
        let _ = writeln!(std::io::stderr(), "{}", text(colours));
    }

    /// Prints an error.
    pub(crate) fn error(self, text: &str) {
        let colours = self.colours && std::io::stderr().is_terminal();
        let text = if colours { format!("{RED}{text}{PLAIN}") } else { text.to_owned() };
        // A failure to write the error is ignored.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}
