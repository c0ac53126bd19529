//! Compares job files with recordings: a folder of `<case>.hcl`, each with a `<case>.json` that holds the reference's
//! result.
//!
//! Members that are null or `{}` are dropped, innermost first, before jobs are compared. If a file has errors, the line
//! of the first error is compared; if the reference reports errors in no fixed order, the line of any of them. A case
//! with a `quirk` is an intended difference: it may differ, but must not crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api_types::Job;
use jobspec::{Files, FunctionInputs, Options, VARIABLE_PREFIX, Variables};
use model::RegistrationDefaults;
use serde_json::{Map, Value};

/// Cases without a `quirk` that show behaviour of the reference from which the spec deviates.
const BY_INTENT: &[(&str, &str)] = &[("realistic-45", "jobspec.md §1: a task's own secrets come twice")];

/// The result of comparing a folder of cases.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of cases that agree.
    pub passed: usize,
    /// The differences, by the name of the case.
    pub failed: BTreeMap<String, String>,
    /// Cases that may differ and do, by name, with the rule.
    pub by_intent: BTreeMap<String, String>,
}

impl Report {
    /// Number of all cases.
    pub fn total(&self) -> usize {
        self.passed + self.failed.len() + self.by_intent.len()
    }
}

/// Prints the differences, case by case, and how many cases passed.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, difference) in &self.failed {
            writeln!(f, "{name}:\n  {}", difference.replace('\n', "\n  "))?;
        }
        for (name, rule) in &self.by_intent {
            writeln!(f, "{name} differs by intent: {rule}")?;
        }
        let accepted = self.passed + self.by_intent.len();
        write!(f, "passed {accepted} of {}", self.total())
    }
}

/// Returns the folder that holds job files: the given one, or its `cases`.
pub fn cases_in(folder: &Path) -> Option<PathBuf> {
    [folder.to_owned(), folder.join("cases")].into_iter().find(|folder| {
        let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.any(|file| file.path().extension().is_some_and(|ending| ending == "hcl"))
    })
}

/// Compares every case of a folder.
pub fn compare(folder: &Path) -> io::Result<Report> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "hcl") {
            names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
        }
    }
    let mut report = Report::default();
    for name in names {
        let source = fs::read(folder.join(format!("{name}.hcl")))?;
        let recorded: Value = serde_json::from_slice(&fs::read(folder.join(format!("{name}.json")))?)?;
        let known = BY_INTENT.iter().find(|(case, _)| *case == name).map(|(_, rule)| *rule);
        match (difference(&source, &recorded), recorded["quirk"].as_str().or(known)) {
            (None, _) => report.passed += 1,
            (Some(_), Some(rule)) => {
                report.by_intent.insert(name, rule.to_owned());
            }
            (Some(difference), None) => {
                report.failed.insert(name, difference);
            }
        }
    }
    Ok(report)
}

/// Returns the difference, if any.
fn difference(source: &[u8], recorded: &Value) -> Option<String> {
    let parsed = jobspec::parse_bytes(source, &options(&recorded["options"]));
    match (parsed, recorded.get("error").and_then(Value::as_str)) {
        (Ok(job), None) => {
            let mut differences = Vec::new();
            let mut check = |what: &str, ours: Value| {
                if let Some(expected) = recorded.get(what) {
                    collect_differences(what, &ours, &without_absent(expected), &mut differences);
                }
            };
            check("parse", job_json(&job));
            let mut canonical = job.clone();
            model::canonicalise(&mut canonical);
            check("canonical", job_json(&canonical));
            if let Some(expected) = recorded.get("registered") {
                match registered(job) {
                    Ok(ours) => collect_differences(
                        "registered",
                        &without_server_fields(ours),
                        &without_server_fields(without_absent(expected)),
                        &mut differences,
                    ),
                    Err(invalid) => differences.push(format!("the job cannot be registered: {invalid}")),
                }
            }
            (!differences.is_empty()).then(|| differences.join("\n"))
        }
        (Ok(_), Some(error)) => Some(format!("the file is accepted but should be refused: {error}")),
        (Err(error), None) => Some(format!("the file is refused but should be accepted: {error}")),
        (Err(error), Some(expected)) => {
            let line = error.diagnostics[0].place.as_ref().map(|place| place.line);
            let lines: Vec<Option<usize>> = match recorded["unordered"].as_bool() {
                Some(true) => {
                    let diagnostics = recorded["diagnostics"].as_array().into_iter().flatten();
                    diagnostics.map(line_of).collect()
                }
                _ => vec![line_of(recorded)],
            };
            let fits = lines.iter().any(|expected| expected.is_none() || *expected == line);
            (!fits).then(|| {
                format!("the first error is at another line:\n  ours: {error}\n  theirs: {expected}")
            })
        }
    }
}

fn line_of(json: &Value) -> Option<usize> {
    json["line"].as_u64().and_then(|line| usize::try_from(line).ok())
}

fn options(recorded: &Value) -> Options {
    let texts = |member: &str| {
        let texts = recorded[member].as_array().cloned().unwrap_or_default();
        texts.into_iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let files: BTreeMap<String, String> =
        serde_json::from_value(recorded["files"].clone()).unwrap_or_default();
    let mut variables = Vec::new();
    for variable in texts("env") {
        let pair = variable.strip_prefix(VARIABLE_PREFIX).and_then(|variable| variable.split_once('='));
        variables.extend(
            pair.map(|(name, value)| Variables::Environment {
                name: name.to_owned(),
                value: value.to_owned(),
            }),
        );
    }
    for name in texts("var_files") {
        let text = files.get(&name).cloned().unwrap_or_default();
        variables.push(Variables::File { name, text });
    }
    if let Some(text) = recorded["variables"].as_str() {
        variables.push(Variables::File { name: "input.hcl".to_owned(), text: text.to_owned() });
    }
    for flag in texts("vars") {
        if let Some((name, value)) = flag.split_once('=') {
            variables.push(Variables::Flag { name: name.to_owned(), value: value.to_owned() });
        }
    }
    let folder = Folder(files);
    Options {
        variables,
        strict: recorded["strict"].as_bool().unwrap_or_default(),
        function_inputs: FunctionInputs {
            files: recorded["allow_fs"].as_bool().unwrap_or_default().then(|| Arc::new(folder) as _),
            ..FunctionInputs::default()
        },
        ..Options::default()
    }
}

/// The files of a case.
struct Folder(BTreeMap<String, String>);

impl Files for Folder {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let content = self.0.get(path.trim_start_matches("./"));
        content.map(|content| content.clone().into_bytes()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        Ok(self.read(path).is_ok())
    }

    fn list_recursively(&self, directory: &str) -> io::Result<Vec<String>> {
        let directory = directory.trim_start_matches("./").trim_matches(['.', '/']);
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        Ok(self.0.keys().filter_map(|path| path.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    fn absolute(&self, path: &str) -> io::Result<String> {
        Ok(format!("/job/{path}"))
    }

    fn expand_home(&self, path: &str) -> io::Result<String> {
        Ok(path.replacen('~', "/root", 1))
    }
}

/// A job as the API shows it.
fn job_json(job: &Job) -> Value {
    without_absent(&jobspec::parse_route_json(job))
}

/// A job as reads show it once it is registered.
fn registered(mut job: Job) -> Result<Value, String> {
    let defaults = RegistrationDefaults { priority: 50, node_pool: "default" };
    model::canonicalise_for_registration(&mut job, defaults);
    let stored = model::job::Job::from_api(job).map_err(|invalid| invalid.to_string())?;
    Ok(without_absent(&serde_json::to_value(stored.to_api()).expect("a job can be encoded as JSON")))
}

/// A registered job without the members that the server sets.
fn without_server_fields(mut job: Value) -> Value {
    if let Some(members) = job.as_object_mut() {
        members.retain(|name, _| !SERVER_FIELDS.contains(&name.as_str()));
    }
    without_scaling_ids(&mut job);
    job
}

const SERVER_FIELDS: &[&str] =
    &["Status", "SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex", "NodePool", "Version"];

const SCALING_FIELDS: &[&str] = &["ID", "Target", "CreateIndex", "ModifyIndex"];

fn without_scaling_ids(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.contains_key("Policy") || members.contains_key("Max") {
                members.retain(|name, _| !SCALING_FIELDS.contains(&name.as_str()));
            }
            members.values_mut().for_each(without_scaling_ids);
        }
        Value::Array(items) => items.iter_mut().for_each(without_scaling_ids),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A value without absent members, from the inside out.
fn without_absent(value: &Value) -> Value {
    let is_absent = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), without_absent(value)));
            Value::Object(members.filter(|(_, value)| !is_absent(value)).collect())
        }
        Value::Array(items) => items.iter().map(without_absent).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Collects all places where two values differ.
fn collect_differences(path: &str, ours: &Value, theirs: &Value, differences: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for name in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
                let path = format!("{path}.{name}");
                let member = |members: &Map<String, Value>| members.get(name).cloned().unwrap_or(Value::Null);
                collect_differences(&path, &member(ours), &member(theirs), differences);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                collect_differences(&format!("{path}[{at}]"), ours, theirs, differences);
            }
        }
        (Value::Number(a), Value::Number(b)) if a == b || a.as_f64() == b.as_f64() => {}
        _ if ours == theirs => {}
        _ => differences.push(format!("{path}: {ours}, expected {theirs}")),
    }
}
