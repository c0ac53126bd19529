//! What paths of a job mean in the directory of its allocation. Pure.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::disk::dirs::SHARED;
use crate::task::env::Env;

/// The error of a path that leaves the allocation's directory.
pub(super) const ESCAPES: &str = "Path escapes the alloc directory";

/// The place that a path of the job means, relative to the allocation's directory: a path below a directory as the task
/// sees it, or one relative to the task's directory.
///
/// # Errors
/// If it leads out of the allocation's directory, or is that directory.
pub(super) fn place(task: &str, env: &Env, path: &str) -> Result<PathBuf, String> {
    let path = Path::new(path);
    let own = Path::new(task);
    let dirs = [
        ("NOMAD_ALLOC_DIR", PathBuf::from(SHARED)),
        ("NOMAD_TASK_DIR", own.join("local")),
        ("NOMAD_SECRETS_DIR", own.join("secrets")),
    ];
    let seen = dirs.into_iter().find_map(|(variable, dir)| {
        let seen = env.get(variable).filter(|seen| !seen.is_empty())?;
        Some((dir, path.strip_prefix(seen).ok()?))
    });
    let (dir, rest) = seen.unwrap_or_else(|| (own.to_owned(), path));
    let mut parts: Vec<&OsStr> = Vec::new();
    for part in dir.components().chain(rest.components()) {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::ParentDir => {
                parts.pop().ok_or(ESCAPES)?;
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    if parts.is_empty() || path.as_os_str().is_empty() {
        return Err(ESCAPES.to_owned());
    }
    Ok(parts.into_iter().collect())
}
