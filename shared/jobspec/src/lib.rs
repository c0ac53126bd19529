//! Job files: HCL2 text, or JSON, to the API's shape of a job.
//!
//! Syntax, evaluation and the shape of blocks are here. What a job means that leaves something out, and whether it is
//! valid, is `model`'s and `api`'s business. The language is described in `spec/jobspec.md`; sections in comments are
//! that page's.
//!
//! Pure: files are read by whoever calls, and what looks random follows from a seed.

mod decode;
mod error;
#[allow(clippy::wildcard_enum_match_arm, reason = "a name stands apart from every other form of expression")]
mod eval;
mod files;
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "a function takes some kinds of values and refuses every other"
)]
mod functions;
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "plain texts stand apart from every other form of expression"
)]
mod lint;
mod number;
mod source;
mod suggest;
#[allow(clippy::wildcard_enum_match_arm, reason = "a parser wants some tokens and refuses every other")]
mod syntax;
mod types;
mod value;
mod variables;

use std::{fmt, sync::Arc};

pub use error::{Diagnostic, Error, Place};
pub use files::Files;
pub use variables::{VARIABLE_PREFIX, Variables};

use crate::{
    decode::Decoder,
    error::{Faults, refused},
    eval::Evaluator,
    source::Source,
    syntax::Body,
};

/// Bytes of a job file, or of a file with values for its variables.
pub const SOURCE_BYTES_MAX: usize = 2 << 20;

/// What comes along with a job file.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name that positions in errors begin with.
    pub file_name: String,
    /// Values for the file's variables, of which later ones count.
    pub variables: Vec<Variables>,
    /// Whether values for variables that the file does not declare are wrong; they are ignored otherwise.
    pub strict: bool,
    /// What the file's functions see of the world.
    pub surroundings: Surroundings,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            file_name: "input.hcl".to_owned(),
            variables: Vec::new(),
            strict: false,
            surroundings: Surroundings::default(),
        }
    }
}

/// What functions see of the world.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// What `uuidv4` and `bcrypt` draw from; the same seed and file give the same values.
    pub seed: [u8; 16],
    /// The files that the file may read; without them the functions that do are refused.
    pub files: Option<Arc<dyn Files + Send + Sync>>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Surroundings { seed, files } = self;
        f.debug_struct("Surroundings").field("seed", seed).field("files", &files.is_some()).finish()
    }
}

/// Reads a job file. What it leaves out is unset in the job, apart from what §11 says is always filled in.
pub fn parse(source: &str, options: &Options) -> Result<api_types::Job, Error> {
    let mut sources = vec![Source::new(options.file_name.as_str(), source)];
    let body = syntax_tree(&sources[0]).map_err(|fault| refused(fault, &sources))?;
    let faults = Faults::default();
    let evaluator = Evaluator::new(&options.surroundings);
    let scope = variables::scope(&body, options, &evaluator, &faults, &mut sources)?;
    let job = decode::job_file(&body, scope, &Decoder { evaluator: &evaluator, faults: &faults });
    faults.settle(&sources)?;
    Ok(job.expect("a file without a job has been refused"))
}

/// As [`parse`], for a file that may be of any bytes.
pub fn parse_bytes(source: &[u8], options: &Options) -> Result<api_types::Job, Error> {
    match std::str::from_utf8(source) {
        Ok(text) => parse(text, options),
        Err(error) => {
            let valid = error.valid_up_to();
            let text = String::from_utf8_lossy(&source[..valid]);
            let sources = [Source::new(options.file_name.as_str(), &text)];
            let detail = "job files are UTF-8; this byte is not";
            Err(refused(error::Fault::new(valid..valid, "Invalid character encoding", detail), &sources))
        }
    }
}

/// Finds what no server accepts in a file that can be read, and says at which line: names that are used twice, ports and
/// volumes that nothing has, moments that are none.
///
/// # Errors
/// If there is any of that.
pub fn lint(source: &str, file_name: &str) -> Result<(), Error> {
    let sources = [Source::new(file_name, source)];
    let faults = Faults::default();
    if let Ok(body) = syntax_tree(&sources[0]) {
        lint::file(&body, &faults);
    }
    faults.settle(&sources)
}

/// A job as the parse route shows it: as everywhere, but for the addresses of its links, which are `URL` there.
pub fn shown(job: &api_types::Job) -> serde_json::Value {
    let mut json = serde_json::to_value(job).expect("jobs are JSON");
    let links = json.pointer_mut("/UI/Links").and_then(|links| links.as_array_mut());
    for link in links.into_iter().flatten().filter_map(|link| link.as_object_mut()) {
        if let Some(address) = link.remove("Url") {
            link.insert("URL".to_owned(), address);
        }
    }
    json
}

/// Lays a file out as everybody else's: the same text but for white space, or what is wrong with its syntax. Files in
/// JSON are left alone.
pub fn format(source: &str, file_name: &str) -> Result<String, Error> {
    let sources = [Source::new(file_name, source)];
    match syntax_tree(&sources[0]) {
        Ok(Body::Native(_)) => Ok(syntax::format::format(sources[0].text)),
        Ok(Body::Json(_)) => Ok(source.to_owned()),
        Err(fault) => Err(refused(fault, &sources)),
    }
}

fn syntax_tree(source: &Source<'_>) -> Result<Body, error::Fault> {
    if let Some(fault) = source.oversize() {
        return Err(fault);
    }
    let is_json = source.text.trim_start_matches(' ').starts_with('{');
    let tree = if is_json { syntax::json::file(source.text) } else { syntax::file(source.text) };
    tree.map_err(|fault| *fault)
}
