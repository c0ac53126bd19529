//! The agent's state on disk: small files, each written completely and put in place by a rename.
//!
//! An unreadable file is renamed with a warning and counts as absent: its owner gets the data from the servers or starts
//! over. Only files that must survive a crash of the machine are synced, because tasks do not survive that either. The
//! meaning of the files is up to the modules that write them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::AllocId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use telemetry::chain;

/// The directory of the allocations' state, within the state directory.
const ALLOCS: &str = "allocs";
/// Permissions of the state directory and everything in it.
const DIR_MODE: u32 = 0o700;
/// Permissions of state files. Some of them hold secrets.
const FILE_MODE: u32 = 0o600;

/// The state directory.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: PathBuf,
}

/// What a file must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A crash of the agent.
    Process,
    /// A crash of the machine.
    Machine,
}

impl Store {
    /// Opens the state directory, and creates it if it does not exist.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(root.join(ALLOCS))?;
        Ok(Self { root: root.to_owned() })
    }

    /// The path of one of the agent's own files.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The directory of an allocation's state.
    pub(crate) fn alloc(&self, id: AllocId) -> PathBuf {
        self.root.join(ALLOCS).join(id.to_string())
    }

    /// The allocations that have a state directory.
    pub(crate) fn allocs(&self) -> io::Result<Vec<AllocId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(self.root.join(ALLOCS))? {
            let name = entry?.file_name();
            match name.to_str().map(str::parse) {
                Some(Ok(id)) => ids.push(id),
                Some(Err(_)) | None => {
                    tracing::warn!(?name, "unexpected entry in the directory of allocations' state")
                }
            }
        }
        ids.sort();
        Ok(ids)
    }
}

/// Reads a file. Returns `None` if it does not exist or is unreadable.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    match decode(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            set_aside(path, &error);
            Ok(None)
        }
    }
}

/// Decodes the bytes of a file.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    rmp_serde::from_slice(bytes)
}

/// Reads a text file and parses its content. Returns `None` as [`read`] does.
pub(crate) fn read_text<T>(path: &Path) -> io::Result<Option<T>>
where
    T: std::str::FromStr<Err: std::error::Error>,
{
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    match String::from_utf8_lossy(&bytes).trim().parse() {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            set_aside(path, &error);
            Ok(None)
        }
    }
}

fn read_bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn set_aside(path: &Path, error: &dyn std::error::Error) {
    let aside = path.with_added_extension("unreadable");
    let moved = fs::rename(path, &aside);
    tracing::warn!(
        file = %path.display(),
        kept_as = %aside.display(),
        moved = moved.is_ok(),
        error = chain(error),
        "cannot read a state file; continuing without it"
    );
}

/// Writes a file completely or not at all.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T, durability: Durability) -> io::Result<()> {
    write_bytes(path, &encode(value)?, durability)
}

/// Encodes a value as the bytes of a file.
pub(crate) fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    rmp_serde::to_vec_named(value).map_err(io::Error::other)
}

/// Writes bytes to a file completely or not at all.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let partial = path.with_added_extension("partial");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&partial)?;
    file.write_all(bytes)?;
    if durability == Durability::Machine {
        file.sync_all()?;
    }
    fs::rename(&partial, path)?;
    if durability == Durability::Machine
        && let Some(dir) = path.parent()
    {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Writes a file of an allocation on a thread that may block.
pub(crate) async fn save<T: Serialize>(path: PathBuf, value: &T) -> io::Result<()> {
    let bytes = encode(value)?;
    tokio::task::spawn_blocking(move || {
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
        }
        write_bytes(&path, &bytes, Durability::Process)
    })
    .await
    .map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(read::<Vec<u32>>(&path).unwrap(), None);
        write(&path, &vec![1, 2], Durability::Machine).unwrap();
        write(&path, &vec![3], Durability::Process).unwrap();
        assert_eq!(read(&path).unwrap(), Some(vec![3]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no partial file is left");
    }

    #[test]
    fn what_cannot_be_read_is_set_aside_and_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("task-web");
        fs::write(&path, [0xc1, 7, 7]).unwrap();
        assert_eq!(read::<Vec<u32>>(&path).unwrap(), None);
        assert!(!path.exists());
        assert!(dir.path().join("task-web.unreadable").exists());
        assert_eq!(read_text::<u32>(&path).unwrap(), None);
    }

    #[test]
    fn allocations_are_found_by_their_directories() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let id = AllocId::from_bytes([7; 16]);
        fs::create_dir(store.alloc(id)).unwrap();
        fs::create_dir(dir.path().join(ALLOCS).join("lost+found")).unwrap();
        assert_eq!(store.allocs().unwrap(), [id]);
    }
}
