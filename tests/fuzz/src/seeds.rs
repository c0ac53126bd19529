//! Inputs to begin with, made of the recorded data (`tests/data`).

use std::path::{Path, PathBuf};

use serde_json::Value;
use tests::recorded::{cases_of, files_in};

/// Separates the parts of an input that has several. It occurs in no text that people write.
pub(crate) const SEPARATOR: char = '\u{1e}';

/// Maximum size of a seed, in bytes. Changes to a small input are more likely to matter.
const BYTES_MAX: usize = 16 << 10;

/// The directory of the recorded data.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data")
}

/// The cases in a file, or in all files of a directory.
pub(crate) fn cases(path: &str) -> impl Iterator<Item = Value> {
    files_in(&data().join(path)).into_iter().flat_map(|file| cases_of(&file)).map(|case| case.json)
}

/// The recorded job files.
pub(crate) fn job_files() -> impl Iterator<Item = String> {
    cases("jobspec").filter_map(|case| case["source"].as_str().map(str::to_owned))
}

/// The requests of the recorded conversations, each with its method and target, and its body if it has one.
pub(crate) fn requests() -> impl Iterator<Item = (String, Option<Value>)> {
    let steps = |scene: Value| scene["steps"].as_array().cloned().unwrap_or_default();
    let conversations = cases("scenes").chain(cases("http/plan.jsonl")).flat_map(steps);
    let steps = conversations.chain(cases("http/register-errors.jsonl"));
    steps.filter_map(|step| Some((step["do"].as_str()?.to_owned(), step.get("body").cloned())))
}

/// Texts as seeds, without those that are too large.
pub(crate) fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Vec<Vec<u8>> {
    let texts = texts.into_iter().map(|text| text.into().into_bytes());
    texts.filter(|text| text.len() <= BYTES_MAX).collect()
}
