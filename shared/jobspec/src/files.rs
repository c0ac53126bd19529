//! Files that a job file's functions look at (§14). Reading them is left to whoever has a disk.

use std::io;

/// A directory of files, as functions such as `file` see it. Paths are those that the job file names.
pub trait Files {
    /// The bytes of a file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Whether there is such a file; something else of that name is an error.
    fn exists(&self, path: &str) -> io::Result<bool>;
    /// The files below a directory, also those in directories of it, as paths from there.
    fn below(&self, directory: &str) -> io::Result<Vec<String>>;
    /// The path from the root.
    fn absolute(&self, path: &str) -> io::Result<String>;
    /// The path with a leading `~` replaced by the home directory.
    fn expanded(&self, path: &str) -> io::Result<String>;
}
