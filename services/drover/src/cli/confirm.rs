//! Confirmation prompts (`docs/rules/cli.md` 1.6).

use std::io::{BufRead as _, Write as _};

/// Whether the user answers `y`, on a terminal or through a pipe.
pub(crate) fn ask(question: &str) -> std::io::Result<bool> {
    let mut out = std::io::stdout();
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim_end() == "y")
}
