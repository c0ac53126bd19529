//! Parser for job files: converts HCL2 text or JSON to the API's form of a job.
//!
//! The crate contains the syntax, the evaluation of expressions and the schema of blocks. `model` fills in defaults, and `api`
//! validates jobs. `docs/rules/jobspec.md` describes the language; section numbers in comments refer to that page.
//!
//! Pure: the caller reads files, and random values are derived from a seed.

mod decode;
mod environment;
mod error;
#[allow(clippy::wildcard_enum_match_arm, reason = "a name is treated differently from all other expressions")]
mod eval;
mod fault;
mod files;
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "a function accepts some kinds of values and refuses all others"
)]
mod functions;
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "constant texts are treated differently from all other expressions"
)]
mod lint;
mod members;
mod number;
mod position;
mod shown;
mod source;
mod suggest;
#[allow(clippy::wildcard_enum_match_arm, reason = "a parser accepts some tokens and refuses all others")]
mod syntax;
mod types;
mod value;
mod variables;

use std::{fmt, sync::Arc};

pub use error::{Diagnostic, Error};
pub use files::Files;
pub use position::Place;
pub use variables::{VARIABLE_PREFIX, Variables};

use crate::{
    decode::Decoder,
    error::{Faults, single_error},
    eval::Evaluator,
    fault::Fault,
    source::Source,
    syntax::Body,
};

/// Maximum size of a job file, or of a file with values for its variables, in bytes.
pub const SOURCE_BYTES_MAX: usize = 2 << 20;

/// Options of parsing a job file.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file name for positions in errors.
    pub file_name: String,
    /// Values for the file's variables, in ascending precedence.
    pub variables: Vec<Variables>,
    /// Whether values for undeclared variables are errors. Otherwise they are ignored.
    pub strict: bool,
    /// Inputs of the file's functions.
    pub function_inputs: FunctionInputs,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            file_name: "input.hcl".to_owned(),
            variables: Vec::new(),
            strict: false,
            function_inputs: FunctionInputs::default(),
        }
    }
}

/// Inputs of functions, apart from their arguments.
#[derive(Clone, Default)]
pub struct FunctionInputs {
    /// The seed of `uuidv4` and `bcrypt`. The same seed and file give the same values.
    pub seed: [u8; 16],
    /// Files that functions may read. If absent, functions that read files are refused.
    pub files: Option<Arc<dyn Files + Send + Sync>>,
}

impl fmt::Debug for FunctionInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FunctionInputs { seed, files } = self;
        f.debug_struct("FunctionInputs").field("seed", seed).field("files", &files.is_some()).finish()
    }
}

/// Parses a job file. Attributes that the file leaves out are unset in the job, except those that §11 always fills in.
pub fn parse(source: &str, options: &Options) -> Result<api_types::Job, Error> {
    let mut sources = vec![Source::new(options.file_name.as_str(), source)];
    let body = syntax_tree(&sources[0]).map_err(|fault| single_error(fault, &sources))?;
    let faults = Faults::default();
    let evaluator = Evaluator::new(&options.function_inputs);
    let scope = variables::scope(&body, options, &evaluator, &faults, &mut sources)?;
    let job = decode::job_file(&body, scope, &Decoder { evaluator: &evaluator, faults: &faults });
    faults.finish(&sources)?;
    Ok(job.expect("a file without a job is an error"))
}

/// The same as [`parse`] for a file that may not be valid UTF-8.
pub fn parse_bytes(source: &[u8], options: &Options) -> Result<api_types::Job, Error> {
    match std::str::from_utf8(source) {
        Ok(text) => parse(text, options),
        Err(error) => {
            let valid = error.valid_up_to();
            let text = String::from_utf8_lossy(&source[..valid]);
            let sources = [Source::new(options.file_name.as_str(), &text)];
            let detail = "job files are UTF-8; this byte is not";
            Err(single_error(Fault::new(valid..valid, "Invalid character encoding", detail), &sources))
        }
    }
}

/// Finds errors in a valid file that every server would refuse, and reports their lines: duplicate names, references to
/// unknown ports and volumes, and invalid cron expressions.
///
/// # Errors
/// If there are such errors.
pub fn lint(source: &str, file_name: &str) -> Result<(), Error> {
    let sources = [Source::new(file_name, source)];
    let faults = Faults::default();
    if let Ok(body) = syntax_tree(&sources[0]) {
        lint::file(&body, &faults);
    }
    faults.finish(&sources)
}

/// The attributes in the text of one or several files with values for variables: their names, and their texts such as
/// `count = 3`. The value of a name is in the last of its texts. `None` if the text contains anything but attributes in HCL.
pub fn assignments(text: &str) -> Option<Vec<(String, &str)>> {
    let attributes = syntax::repeatable_attributes(text).ok()?;
    let starts = attributes.iter().map(|attribute| attribute.name_at.start);
    let ends: Vec<usize> = starts.skip(1).chain([text.len()]).collect();
    let texts = attributes.iter().zip(ends).map(|(attribute, end)| {
        let text = &text[attribute.name_at.start..end];
        (attribute.name.clone(), text.trim_end())
    });
    Some(texts.collect())
}

/// A job as JSON in the form of the parse route, which is that of requests. It differs from other routes in the links,
/// whose addresses are `URL` there, in the addresses of gateways, which have their names there, and in the members that only
/// requests have: they are there even if they are not set (http-api, appendix A.1).
pub fn parse_route_json(job: &api_types::Job) -> serde_json::Value {
    let mut json = serde_json::to_value(job).expect("jobs are JSON");
    show_unset(&mut json, &["Migrate", "Reschedule"]);
    let links = json.pointer_mut("/UI/Links").and_then(|links| links.as_array_mut());
    for link in links.into_iter().flatten().filter_map(|link| link.as_object_mut()) {
        if let Some(address) = link.remove("Url") {
            link.insert("URL".to_owned(), address);
        }
    }
    let complete_service = |service: &mut serde_json::Value| {
        name_gateway_addresses(service);
        if let Some(proxy) = service.pointer_mut("/Connect/SidecarService/Proxy") {
            show_unset(proxy, &["ExposeConfig"]);
        }
        show_unset(service, &["CheckRestart"]);
        hide_unset(service, "Namespace");
    };
    let complete_network = |network: &mut serde_json::Value| {
        show_unset(network, &["CNI", "DNS", "DynamicPorts", "MBits", "ReservedPorts"])
    };
    for group in elements(&mut json, "/TaskGroups") {
        elements(group, "/Services").for_each(complete_service);
        elements(group, "/Networks").for_each(complete_network);
        for task in elements(group, "/Tasks") {
            elements(task, "/Services").for_each(complete_service);
            elements(task, "/Resources/Networks").for_each(complete_network);
            hide_unset(task, "CSIPluginConfig");
            for (block, member) in [("/LogConfig", "Enabled"), ("/Vault", "Policies")] {
                if let Some(block) = task.pointer_mut(block) {
                    show_unset(block, &[member]);
                }
            }
        }
    }
    json
}

/// Removes a member of an object that is not set.
fn hide_unset(object: &mut serde_json::Value, member: &str) {
    if let Some(object) = object.as_object_mut()
        && object.get(member).is_some_and(serde_json::Value::is_null)
    {
        object.remove(member);
    }
}

/// Adds members of an object that are absent because they are not set.
fn show_unset(object: &mut serde_json::Value, members: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        for member in members {
            object.entry(*member).or_insert(serde_json::Value::Null);
        }
    }
}

/// The elements of the list at a path; none if it is absent.
fn elements<'a>(
    json: &'a mut serde_json::Value,
    path: &str,
) -> impl Iterator<Item = &'a mut serde_json::Value> + use<'a> {
    json.pointer_mut(path).and_then(|list| list.as_array_mut()).into_iter().flatten()
}

fn name_gateway_addresses(service: &mut serde_json::Value) {
    let addresses = service.pointer_mut("/Connect/Gateway/Proxy/EnvoyGatewayBindAddresses");
    for (name, address) in addresses.and_then(|addresses| addresses.as_object_mut()).into_iter().flatten() {
        if let Some(address) = address.as_object_mut() {
            address.insert("Name".to_owned(), name.as_str().into());
        }
    }
}

/// Formats a file in the canonical style, which changes white space only. Fails if the syntax is invalid. JSON files stay
/// unchanged.
pub fn format(source: &str, file_name: &str) -> Result<String, Error> {
    let sources = [Source::new(file_name, source)];
    match syntax_tree(&sources[0]) {
        Ok(Body::Native(_)) => Ok(syntax::format::format(sources[0].text)),
        Ok(Body::Json(_)) => Ok(source.to_owned()),
        Err(fault) => Err(single_error(fault, &sources)),
    }
}

fn syntax_tree(source: &Source<'_>) -> Result<Body, Fault> {
    if let Some(fault) = source.oversize() {
        return Err(fault);
    }
    let is_json = source.text.trim_start_matches(' ').starts_with('{');
    let tree = if is_json { syntax::json::file(source.text) } else { syntax::file(source.text) };
    tree.map_err(|fault| *fault)
}
