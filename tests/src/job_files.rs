//! Recorded job files: a folder of `<case>.hcl`, with `<case>.json` beside each that says what the reference made of it.
//!
//! Members that are null or `{}` are dropped, from the inside out, before jobs are compared. Of errors the line of the
//! first counts; where the reference knows no order, that of any. Cases with a `quirk`, where we do otherwise by intent,
//! are to be read or refused, but may differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api_types::Job;
use jobspec::{Files, Options, Surroundings, VARIABLE_PREFIX, Variables};
use model::RegistrationDefaults;
use serde_json::{Map, Value};

/// Cases that show what the reference does where the spec has us do otherwise, although they do not say so.
const BY_INTENT: &[(&str, &str)] = &[("realistic-45", "jobspec.md §1: a task's own secrets come twice")];

/// What became of a folder of cases.
#[derive(Debug, Default)]
pub struct Report {
    /// Cases that agree.
    pub passed: usize,
    /// What differs, by the name of the case.
    pub failed: BTreeMap<String, String>,
    /// Cases that may differ and do, by name, with the rule.
    pub by_intent: BTreeMap<String, String>,
}

impl Report {
    /// All cases.
    pub fn total(&self) -> usize {
        self.passed + self.failed.len() + self.by_intent.len()
    }
}

/// What differs, case by case, and how many passed.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, difference) in &self.failed {
            writeln!(f, "{name}:\n  {}", difference.replace('\n', "\n  "))?;
        }
        for (name, rule) in &self.by_intent {
            writeln!(f, "{name} differs by intent: {rule}")?;
        }
        let as_wanted = self.passed + self.by_intent.len();
        write!(f, "passed {as_wanted} of {}", self.total())
    }
}

/// Whether a folder holds cases of this kind, itself or in `cases`.
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

/// What differs, or nothing.
fn difference(source: &[u8], recorded: &Value) -> Option<String> {
    let parsed = jobspec::parse_bytes(source, &options(&recorded["options"]));
    match (parsed, recorded.get("error").and_then(Value::as_str)) {
        (Ok(job), None) => {
            let mut differences = Vec::new();
            let mut check = |what: &str, ours: Value| {
                if let Some(expected) = recorded.get(what) {
                    note_differences(what, &ours, &present(expected), &mut differences);
                }
            };
            check("parse", shown(&job));
            let mut canonical = job.clone();
            model::canonicalise(&mut canonical);
            check("canonical", shown(&canonical));
            if let Some(expected) = recorded.get("registered") {
                match registered(job) {
                    Ok(ours) => note_differences(
                        "registered",
                        &specified(ours),
                        &specified(present(expected)),
                        &mut differences,
                    ),
                    Err(invalid) => differences.push(format!("it cannot be registered: {invalid}")),
                }
            }
            (!differences.is_empty()).then(|| differences.join("\n"))
        }
        (Ok(_), Some(error)) => Some(format!("it is read, and should be refused: {error}")),
        (Err(error), None) => Some(format!("it is refused, and should be read: {error}")),
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
        surroundings: Surroundings {
            files: recorded["allow_fs"].as_bool().unwrap_or_default().then(|| Arc::new(folder) as _),
            ..Surroundings::default()
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

    fn below(&self, directory: &str) -> io::Result<Vec<String>> {
        let directory = directory.trim_start_matches("./").trim_matches(['.', '/']);
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        Ok(self.0.keys().filter_map(|path| path.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    fn absolute(&self, path: &str) -> io::Result<String> {
        Ok(format!("/job/{path}"))
    }

    fn expanded(&self, path: &str) -> io::Result<String> {
        Ok(path.replacen('~', "/root", 1))
    }
}

/// A job as the API shows it.
fn shown(job: &Job) -> Value {
    present(&jobspec::shown(job))
}

/// A job as reads show it once it is registered.
fn registered(mut job: Job) -> Result<Value, String> {
    let defaults = RegistrationDefaults { priority: 50, node_pool: "default" };
    model::canonicalise_for_registration(&mut job, defaults);
    let stored = model::job::Job::from_api(job).map_err(|invalid| invalid.to_string())?;
    Ok(present(&serde_json::to_value(stored.to_api()).expect("jobs are JSON")))
}

/// What somebody specified of a registered job, without what the server says of it.
fn specified(mut job: Value) -> Value {
    if let Some(members) = job.as_object_mut() {
        members.retain(|name, _| !OF_THE_SERVER.contains(&name.as_str()));
    }
    without_scaling_ids(&mut job);
    job
}

const OF_THE_SERVER: &[&str] =
    &["Status", "SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex", "NodePool", "Version"];

const OF_SCALING: &[&str] = &["ID", "Target", "CreateIndex", "ModifyIndex"];

fn without_scaling_ids(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.contains_key("Policy") || members.contains_key("Max") {
                members.retain(|name, _| !OF_SCALING.contains(&name.as_str()));
            }
            members.values_mut().for_each(without_scaling_ids);
        }
        Value::Array(items) => items.iter_mut().for_each(without_scaling_ids),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A value without members that are absent, from the inside out.
fn present(value: &Value) -> Value {
    let is_absent = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), present(value)));
            Value::Object(members.filter(|(_, value)| !is_absent(value)).collect())
        }
        Value::Array(items) => items.iter().map(present).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Every place where two values differ.
fn note_differences(path: &str, ours: &Value, theirs: &Value, differences: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for name in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
                let path = format!("{path}.{name}");
                let member = |members: &Map<String, Value>| members.get(name).cloned().unwrap_or(Value::Null);
                note_differences(&path, &member(ours), &member(theirs), differences);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                note_differences(&format!("{path}[{at}]"), ours, theirs, differences);
            }
        }
        (Value::Number(a), Value::Number(b)) if a == b || a.as_f64() == b.as_f64() => {}
        _ if ours == theirs => {}
        _ => differences.push(format!("{path}: {ours}, expected {theirs}")),
    }
}
