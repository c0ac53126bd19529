//! Entry points for fuzz targets: how the command line and the agent handle texts from outside, without files and
//! output.

use serde_json::Value;

use crate::cli;

/// Formats an object by a Go template, as `-t` does. The error is the text that the command prints.
pub fn template(template: &str, object: &Value) -> Result<String, String> {
    cli::object::format_with_template(template, object).map_err(|error| format!("{error:#}"))
}

/// The errors in a job file as the command line prints them: with source lines and colours, and as JSON.
pub fn job_file_errors(error: &jobspec::Error) -> (String, Value) {
    (cli::job::file::render(error, true), cli::job::file::as_json(error))
}

/// The validation errors in a server's text, each by itself.
pub fn validation_errors(text: &str) -> Vec<String> {
    cli::job::validate::problems::flat(text)
}

/// The problems of an agent's configuration file: as lines, and as JSON.
pub fn configuration(text: &[u8]) -> (String, Value) {
    cli::config::problems_of_text(text)
}
