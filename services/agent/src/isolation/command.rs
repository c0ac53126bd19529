//! Finding the program of a task in its root. This process must be in the root already.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use model::text::quoted;

use super::root::open_own;

/// Where a task's own programs are looked for.
const OWN_DIRS: [&str; 2] = ["/local", "/"];

/// Finds a program: in `/local`, in the root, as an absolute path, then in the search path. A file of the task is made
/// executable.
pub(crate) fn find(command: &str, path: &str) -> Result<PathBuf, String> {
    let own = OWN_DIRS.iter().map(|dir| Path::new(dir).join(command)).find(|file| file.is_file());
    if let Some(own) = own {
        if !is_executable(&own) {
            make_executable(&own)
                .map_err(|error| format!("cannot make {} executable: {error}", own.display()))?;
        }
        return Ok(own);
    }
    find_in(command, path)
        .ok_or_else(|| format!("executable {} was not found in the task's root", quoted(command)))
}

/// Finds a program in a search path. A name with a slash is a path already.
pub(crate) fn find_in(command: &str, path: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(|file| is_executable(file));
    }
    let dirs = path.split(':').filter(|dir| !dir.is_empty());
    dirs.map(|dir| Path::new(dir).join(command)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn make_executable(file: &Path) -> std::io::Result<()> {
    let file = File::from(open_own(file)?);
    let mut permissions = file.metadata()?.permissions();
    permissions.set_mode(permissions.mode() | 0o111);
    file.set_permissions(permissions)
}
