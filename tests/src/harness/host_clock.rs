//! A wall clock of its own for a process, which can jump while the process runs. libfaketime stands between the process
//! and the clock of this machine. The monotonic clock is left alone.

use std::path::{Path, PathBuf};
use std::{fs, process};

/// Where packages put libraries.
const LIBRARIES: &str = "/usr/lib";
/// The library, in [`LIBRARIES`] or in one of its directories.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// A wall clock, whose offset is in a file.
#[derive(Debug)]
pub struct HostClock {
    library: PathBuf,
    file: PathBuf,
}

impl HostClock {
    /// A clock that is right. Returns `None` if libfaketime is not installed.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn new(file: PathBuf) -> Option<Self> {
        let clock = Self { library: library()?, file };
        clock.set(0);
        Some(clock)
    }

    /// Sets the clock ahead of this machine's by so many seconds, or behind it. The process notices within a second.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn set(&self, ahead_secs: i64) {
        // The process must never read half of a line.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{ahead_secs:+}\n"))
            .and_then(|()| fs::rename(&new, &self.file))
            .expect("the clock's file can be written");
    }

    /// The environment of the process.
    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        let variables = [
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file)),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ];
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn library() -> Option<PathBuf> {
    let parents = fs::read_dir(LIBRARIES).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut places = std::iter::once(PathBuf::from(LIBRARIES)).chain(parents).map(|dir| dir.join(LIBRARY));
    places.find(|path| path.is_file())
}

/// Removes the shared memory that libfaketime leaves when its process is killed. The next process of that id would not
/// start otherwise.
pub(crate) fn forget(killed: &process::Child) {
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        // A process whose clock is this machine's leaves nothing.
        let _ = fs::remove_file(format!("/dev/shm/{name}{}", killed.id()));
    }
}
