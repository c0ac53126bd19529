//! Reading and writing the files of control groups. The kernel takes each write as one value, and names the cause in the
//! error number only, so every error here says which file it is about.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Writes a value to a file that exists.
pub(super) fn write(dir: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = dir.join(file);
    let mut opened = open(&path).map_err(|error| explained(&path, &error))?;
    opened.write_all(value.as_bytes()).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: cannot set {value:?}: {error}", path.display()))
    })
}

/// Opens a file that exists, for writing.
pub(super) fn open(path: &Path) -> io::Result<File> {
    // The files of the kernel ignore the truncation. Those of tests are ordinary ones.
    OpenOptions::new().write(true).truncate(true).open(path)
}

/// Reads a file.
pub(super) fn read(dir: &Path, file: &str) -> io::Result<String> {
    let path = dir.join(file);
    fs::read_to_string(&path).map_err(|error| explained(&path, &error))
}

/// Reads a file; `None` if it does not exist, because the kernel is older than the file, or the group is gone.
pub(super) fn read_existing(dir: &Path, file: &str) -> io::Result<Option<String>> {
    match read(dir, file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names of the groups directly in a group, in order. A group that does not exist has none.
pub(super) fn children(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(explained(dir, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            // Names of groups that are not UTF-8 are not ours.
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort();
    Ok(names)
}

/// Creates a group unless it exists. Returns whether it is new.
pub(super) fn make(dir: &Path) -> io::Result<bool> {
    match fs::create_dir(dir) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(explained(dir, &error)),
    }
}

/// Adds the path to an error, and keeps its kind.
pub(super) fn explained(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The number that a file holds as its only content, such as `4096`. A limit that is not set, `max`, is `None`.
pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number after a key at the start of a line, as in `oom_kill 3`.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix(key)?.strip_prefix(' ')?))
}
