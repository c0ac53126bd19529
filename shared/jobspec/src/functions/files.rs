//! Functions on files. They are available where the job file is, but not on a server (§14).

use std::{io, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use globset::GlobBuilder;

use super::{Context, Failure, FunctionResult, bad_argument, fail, text_of};
use crate::{Files, types::set, value::Value};

/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: usize = 16 << 20;

fn files(context: &Context<'_>) -> Result<Arc<dyn Files + Send + Sync>, Failure> {
    match &context.environment.function_inputs.files {
        Some(files) => Ok(Arc::clone(files)),
        None => fail("file functions work only where the job file is, not on a server"),
    }
}

fn done<T>(result: io::Result<T>, path: &str) -> Result<T, Failure> {
    result.or_else(|error| fail(format!("{path:?}: {error}")))
}

fn content(context: &Context<'_>, path: &str) -> Result<Vec<u8>, Failure> {
    let content = done(files(context)?.read(path), path)?;
    if content.len() > FILE_BYTES_MAX {
        return fail(format!("{path:?} has more than {FILE_BYTES_MAX} bytes"));
    }
    context.reserve(content.len())?;
    Ok(content)
}

pub(super) fn abspath(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let path = text_of(&arguments[0]);
    done(files(context)?.absolute(path), path).map(Value::text)
}

pub(super) fn pathexpand(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let path = text_of(&arguments[0]);
    done(files(context)?.expand_home(path), path).map(Value::text)
}

/// The last part of a path.
pub(super) fn basename(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    files(context)?;
    let path = text_of(&arguments[0]);
    let trimmed = path.trim_end_matches('/');
    let base = match (path, trimmed) {
        ("", _) => ".",
        (_, "") => "/",
        _ => trimmed.rsplit('/').next().unwrap_or(trimmed),
    };
    Ok(Value::text(base))
}

/// The path without its last part.
pub(super) fn dirname(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    files(context)?;
    let directory = match text_of(&arguments[0]).rsplit_once('/') {
        Some((directory, _)) => clean(directory, true),
        None => ".".to_owned(),
    };
    Ok(Value::text(directory))
}

/// A path without empty parts, `.` and `..`, as far as possible.
fn clean(path: &str, from_root: bool) -> String {
    let is_absolute = path.starts_with('/') || (from_root && path.is_empty());
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if is_absolute => {}
            _ => parts.push(part),
        }
    }
    match (is_absolute, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

/// The text of a file.
pub(super) fn file(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let path = text_of(&arguments[0]);
    match String::from_utf8(content(context, path)?) {
        Ok(text) => Ok(Value::text(text)),
        Err(_) => fail(format!("{path:?} is not UTF-8 text; for binary files use filebase64")),
    }
}

pub(super) fn filebase64(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::text(BASE64_STANDARD.encode(content(context, text_of(&arguments[0]))?)))
}

pub(super) fn fileexists(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let path = text_of(&arguments[0]);
    done(files(context)?.exists(path), path).map(Value::Bool)
}

/// The files below a directory whose relative paths match a pattern such as `conf/*.txt`.
pub(super) fn fileset(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (directory, pattern) = (text_of(&arguments[0]), text_of(&arguments[1]));
    let matcher = GlobBuilder::new(pattern).literal_separator(true).build();
    let matcher = matcher.or_else(|error| bad_argument(1, error.to_string()))?.compile_matcher();
    let found = done(files(context)?.list_recursively(directory), directory)?;
    Ok(set(found.into_iter().filter(|path| matcher.is_match(path)).map(Value::text).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_what_leads_nowhere() {
        assert_eq!(clean("a//b/./c/..", false), "a/b");
        assert_eq!(clean("/../a", false), "/a");
        assert_eq!(clean("../a", false), "../a");
        assert_eq!(clean(".", false), ".");
    }
}
