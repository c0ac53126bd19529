//! The files that functions in a job file can read.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jobspec::Files;

/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of files below a directory.
const FILES_MAX: usize = 100_000;
/// Maximum depth of nested directories.
const DEPTH_MAX: usize = 64;

/// Reads files by their paths relative to a directory.
pub(super) struct Disk(PathBuf);

impl Disk {
    /// Resolves paths relative to the directory of a job file, or to the current directory if the job file is not a local file.
    pub(super) fn relative_to(job_file: &str) -> Disk {
        let is_local = job_file != "-" && !job_file.contains("://");
        let directory = Path::new(job_file).parent().filter(|_| is_local);
        Disk(directory.unwrap_or(Path::new("")).to_owned())
    }

    fn path(&self, path: &str) -> io::Result<PathBuf> {
        Ok(self.0.join(self.expand_home(path)?))
    }
}

impl Files for Disk {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        fs::File::open(self.path(path)?)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
        if content.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("the file has more than {FILE_BYTES_MAX} bytes")));
        }
        Ok(content)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        match fs::metadata(self.path(path)?) {
            Ok(found) if found.is_file() => Ok(true),
            Ok(_) => Err(io::Error::other("it is not a regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn list_recursively(&self, directory: &str) -> io::Result<Vec<String>> {
        let root = self.path(directory)?;
        let (mut found, mut pending) = (Vec::new(), vec![(root.clone(), 0)]);
        while let Some((directory, depth)) = pending.pop() {
            for entry in fs::read_dir(&directory)? {
                let path = entry?.path();
                if path.is_dir() && depth < DEPTH_MAX {
                    pending.push((path, depth + 1));
                } else if path.is_file() {
                    let from_root = path.strip_prefix(&root).unwrap_or(&path);
                    found.push(from_root.to_string_lossy().into_owned());
                }
                if found.len() + pending.len() > FILES_MAX {
                    return Err(io::Error::other(format!("the directory has more than {FILES_MAX} files")));
                }
            }
        }
        Ok(found)
    }

    fn absolute(&self, path: &str) -> io::Result<String> {
        Ok(std::path::absolute(self.path(path)?)?.to_string_lossy().into_owned())
    }

    fn expand_home(&self, path: &str) -> io::Result<String> {
        let Some(rest) = path.strip_prefix('~') else { return Ok(path.to_owned()) };
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(io::Error::other("only the home directory of the current user can be used: ~/"));
        }
        let home = std::env::var("HOME").map_err(|_| io::Error::other("HOME is not set"))?;
        Ok(format!("{home}{rest}"))
    }
}
