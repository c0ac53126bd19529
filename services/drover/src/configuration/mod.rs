//! The agent's configuration files (`spec/agent.md` A-33, `spec/http-api.md` C.2 to C.5): found, parsed, compared with
//! the keys that are known, and merged into [`Settings`].
//!
//! Every key is used, has no effect here for a stated reason, or is not built yet. What a file has beyond that, and what
//! does not fit, is a [`Fault`]. `drover agent -config` starts without faults only; `drover config validate` shows them.

mod checks;
mod fit;
mod keys;
mod reader;
mod settings;
mod size;
mod sources;

use std::fmt;
use std::path::{Path, PathBuf};

use hcl1::{Position, Syntax};

pub(crate) use checks::{addresses_missing, dynamic_ports, missing, unfit};
use reader::Block;
pub(crate) use settings::{Millis, Nats, Postgres, Settings};

/// What files say, and what there is to say about them.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    pub(crate) report: Report,
}

/// Everything that was noticed in files, in their order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// What is wrong. The settings are incomplete if there is any.
    pub(crate) faults: Vec<Fault>,
    /// Documented keys that this program does not support yet. An agent does not start with them.
    pub(crate) not_built: Vec<Finding>,
    /// Documented keys that have no effect here.
    pub(crate) no_effect: Vec<Finding>,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) file: PathBuf,
    /// Where in the file, if it is one place.
    pub(crate) at: Option<Position>,
    /// The notation of the file, if its text is no such, or a value cannot be decoded from it.
    syntax: Option<Syntax>,
    pub(crate) text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        write!(f, "Error loading configuration from {file}: ")?;
        if let Some(syntax) = self.syntax {
            write!(f, "failed to decode {syntax} file {file}: ")?;
        }
        if let Some(at) = self.at {
            write!(f, "At {at}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// A key that is known and not used.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    pub(crate) at: Position,
    /// The key, after the keys of the blocks around it.
    pub(crate) key: String,
    /// What to know about it.
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: At {}: {}", self.file.display(), self.at, self.text)
    }
}

/// Reads files, and those of directories; later ones add to earlier ones.
pub(crate) fn load(paths: &[PathBuf]) -> Loaded {
    let mut files = Vec::new();
    let mut report = Report::default();
    for path in paths {
        match sources::read(path) {
            Ok(read) => files.extend(read),
            Err((file, text)) => report.faults.push(Fault { file, at: None, syntax: None, text }),
        }
    }
    let mut merged = Block::default();
    for (file, text) in &files {
        merged.merge(parse(file, text, &mut report));
    }
    Loaded { settings: Settings::of(&merged), report }
}

/// What one file says; what is wrong with it goes into the report.
fn parse(file: &Path, text: &[u8], report: &mut Report) -> Block {
    let syntax = Syntax::of(&file.to_string_lossy(), text);
    match hcl1::parse(text, syntax) {
        Ok(body) => reader::read(file, syntax, &body, report),
        Err(error) => {
            report.faults.push(Fault {
                file: file.to_owned(),
                at: Some(error.at),
                syntax: Some(syntax),
                text: error.text,
            });
            Block::default()
        }
    }
}

/// What a text says as the file `a.hcl`, for tests.
#[cfg(test)]
pub(crate) fn of_text(text: &str) -> Loaded {
    let mut report = Report::default();
    let block = parse(Path::new("a.hcl"), text.as_bytes(), &mut report);
    Loaded { settings: Settings::of(&block), report }
}

#[cfg(test)]
mod tests;
