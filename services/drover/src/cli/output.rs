//! Standard output and standard error. Colours are for terminals (`spec/cli.md` §2).

use std::io::{IsTerminal as _, Write as _};

use super::flags::Api;
use super::page::Page;

/// Standard output, and standard error for what went wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    colours: bool,
}

const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

impl Output {
    pub(crate) fn new(flags: &Api) -> Self {
        let terminal = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { colours: flags.force_color || (terminal && !flags.no_color) }
    }

    /// For a command that has none of the API's flags: colours on a terminal only.
    pub(crate) fn for_terminals() -> Self {
        Self { colours: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    pub(crate) fn page(self, page: &Page) {
        self.raw(page.text(self.colours).as_bytes());
    }

    pub(crate) fn line(self, text: &str) {
        self.raw(format!("{text}\n").as_bytes());
    }

    /// Bytes as they are; whoever stopped reading has read enough.
    pub(crate) fn raw(self, bytes: &[u8]) {
        let mut out = std::io::stdout();
        if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    }

    /// What went wrong, in colours of its own.
    pub(crate) fn report(self, text: impl FnOnce(bool) -> String) {
        let colours = self.colours && std::io::stderr().is_terminal();
        // If nobody reads errors, there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{}", text(colours));
    }

    /// What went wrong.
    pub(crate) fn error(self, text: &str) {
        let colours = self.colours && std::io::stderr().is_terminal();
        let text = if colours { format!("{RED}{text}{PLAIN}") } else { text.to_owned() };
        // If nobody reads errors, there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}
