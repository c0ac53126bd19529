//! Job files: HCL2 text to the API's shape of a job.
//!
//! The syntax tree and its positions come from `hcl-edit`; values, their evaluation and the shape of the blocks are
//! here. What a job means that leaves something out, and whether it is valid, is `model`'s business. The language is
//! described in `spec/jobspec.md`.
//!
//! Not built yet, and refused with their position: calls of functions, job files in JSON syntax, and numbers of more
//! than 37 digits or without a decimal form (`1 / 3`). Text is not brought into a normal form of Unicode.

mod decode;
mod error;
mod eval;
mod number;
mod source;
mod types;
mod value;
mod variables;

pub use error::{Diagnostic, Error};

use crate::{decode::Decoder, error::Faults, eval::Evaluator, source::Source};

/// Bytes of a job file, or of the values for its variables.
pub const SOURCE_BYTES_MAX: usize = 1 << 20;
/// Equals signs and colons in a file. The syntax parser compares the keys of an object pair by pair, so that this many
/// take it a second or two.
pub const DEFINITIONS_MAX: usize = 30_000;

/// What comes along with a job file.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name that positions in errors begin with.
    pub file_name: String,
    /// Values for the file's variables, as attributes in HCL: `count = 2`. Those that the file does not declare are
    /// ignored.
    pub variables: String,
}

impl Default for Options {
    fn default() -> Options {
        Options { file_name: "input.hcl".to_owned(), variables: String::new() }
    }
}

/// Reads a job file. What it leaves out is unset in the job, apart from what §11 says is always filled in.
pub fn parse(source: &str, options: &Options) -> Result<api_types::Job, Error> {
    let source = Source::new(&options.file_name, source)?;
    let given = Source::new(&options.file_name, &options.variables)?;
    let body = source.parse()?;
    let values = given.parse()?;
    let faults = Faults::default();
    let evaluator = Evaluator::new(&source);
    let scope = variables::scope(&body, &source, (&values, &given), &evaluator, &faults)?;
    let job = decode::job_file(&body, scope, &Decoder { evaluator: &evaluator, faults: &faults });
    faults.settle(&source)?;
    Ok(job.expect("a file without a job has been refused"))
}
