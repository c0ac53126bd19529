//! The agent's configuration files (`docs/rules/agent.md` A-33, `docs/rules/http-api.md` C.2 to C.5): this module finds and parses them,
//! checks their keys, and merges them into [`Settings`].
//!
//! A known key is a setting, has no effect here for a stated reason, or is not built yet. An unknown key or an invalid value
//! is a [`Fault`]. `drover agent -config` starts only without faults; `drover config validate` prints them.

mod block;
mod checks;
mod docker;
mod keys;
mod networks;
mod reader;
mod schema;
mod settings;
mod size;
mod sources;
mod values;

use std::fmt;
use std::path::{Path, PathBuf};

use hcl1::{Position, Syntax};

use block::Block;
pub(crate) use checks::{
    addresses_missing, conflicts, dynamic_ports, missing, option_names, raw_exec_option, without_server,
};
pub(crate) use networks::networks;
pub(crate) use settings::{
    Artifact, Bytes, Client, Consul, Dns, HostVolume, Millis, Nats, Postgres, Settings, Template,
};

/// The settings of configuration files, and the report on them.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    pub(crate) report: Report,
}

/// All findings in configuration files, in their order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The errors. If there are any, the settings are incomplete.
    pub(crate) faults: Vec<Fault>,
    /// Documented keys that this program does not support yet. An agent does not start with them.
    pub(crate) not_built: Vec<Finding>,
    /// Documented keys that have no effect here.
    pub(crate) no_effect: Vec<Finding>,
}

/// An error in a file, or a file that cannot be read.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) file: PathBuf,
    /// The position in the file, if the error has one.
    pub(crate) at: Option<Position>,
    /// The notation of the file, if the error is one of notation or of a value's type.
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

/// A known key that is not used.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    pub(crate) at: Position,
    /// The key, preceded by the keys of the enclosing blocks.
    pub(crate) key: String,
    /// The message about the key.
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: At {}: {}", self.file.display(), self.at, self.text)
    }
}

/// Reads files, and the files in directories. Later files add to earlier ones, booleans by *or*.
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
        merged.add_file(parse(file, text, &mut report));
    }
    Loaded { settings: Settings::of(&merged), report }
}

/// Parses one file, and adds its errors to the report.
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

/// Parses a text as the file `a.hcl`, for tests.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn of_text(text: impl AsRef<[u8]>) -> Loaded {
    let mut report = Report::default();
    let block = parse(Path::new("a.hcl"), text.as_ref(), &mut report);
    Loaded { settings: Settings::of(&block), report }
}

#[cfg(test)]
pub(crate) mod tests;
