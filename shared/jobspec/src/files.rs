//! Access to files for functions in a job file (§14). The caller implements it.

use std::io;

/// The files that functions such as `file` can read. Paths are as in the job file.
pub trait Files {
    /// Reads a file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Whether the file exists. Fails if the path is not a regular file.
    fn exists(&self, path: &str) -> io::Result<bool>;
    /// Lists the files in a directory and its sub-directories, as paths relative to it.
    fn list_recursively(&self, directory: &str) -> io::Result<Vec<String>>;
    /// The absolute path.
    fn absolute(&self, path: &str) -> io::Result<String>;
    /// The path with a leading `~` replaced by the home directory.
    fn expand_home(&self, path: &str) -> io::Result<String>;
}
