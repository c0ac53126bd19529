//! A file system of its own for a process, which can become full.

use std::path::Path;

use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

use super::processes::run;

/// The size, in MiB: more than any process writes. The system keeps in memory only what was written.
const SIZE_MIB: u64 = 4096;
/// How often filling is tried, because the process may write meanwhile.
const ATTEMPTS_MAX: u32 = 100;

/// A file system in memory. It is unmounted when this value is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    /// Mounts a file system.
    ///
    /// # Errors
    /// What this machine lacks, in words of the program that failed.
    ///
    /// # Panics
    /// If no temporary directory can be created.
    pub fn mount() -> Result<Self, String> {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        // Every user may use it, because PostgreSQL does not run as root.
        let options = format!("size={SIZE_MIB}m,mode=1777");
        let disk = Self { directory };
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", disk.path_text()])?;
        Ok(disk)
    }

    /// The root of the file system.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    fn path_text(&self) -> &str {
        self.path().to_str().expect("the path of temporary directories is UTF-8")
    }

    /// Takes away all free space.
    ///
    /// # Panics
    /// If the system refuses it.
    pub fn fill(&self) {
        let mut refused = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let now = statvfs(self.path()).expect("the file system is mounted");
            let used = (now.blocks() - now.blocks_free()) * now.fragment_size();
            match self.resize(&used.to_string()) {
                Ok(()) => return,
                Err(error) => refused = error,
            }
        }
        panic!("the disk cannot be filled: {refused}");
    }

    /// Gives the free space back.
    ///
    /// # Panics
    /// If the system refuses it.
    pub fn free(&self) {
        self.resize(&format!("{SIZE_MIB}m")).unwrap_or_else(|error| panic!("{error}"));
    }

    fn resize(&self, size: &str) -> Result<(), String> {
        run("mount", &["-o", &format!("remount,size={size}"), self.path_text()])
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Processes that are about to end may still use it; it vanishes with them.
        let _ = run("umount", &["--lazy", self.path_text()]);
    }
}
