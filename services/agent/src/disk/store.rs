//! The agent's state on disk: small files, each written completely and put in place by a rename.
//!
//! A file begins with its format, its length and a checksum, so that one that was cut off, damaged or written by
//! another version is never taken for valid. A file that cannot be read is set aside by its owner as
//! `<name>.unreadable-<time>`; the owner then decides what happens to the task or allocation that the file described.
//! The meaning of the files is up to the modules that write them.
//!
//! | path | content |
//! |---|---|
//! | `client-id`, `secret-id`, `boot` | who the agent is, as text |
//! | `allocs/<id>/` | the files of an allocation |
//! | `allocs/<id>/tasks/<task>/` | the files of a task, and the directories of its driver |
//! | `allocs/<id>.unreadable-<time>/` | what could not be read, for people |
//!
//! Each task has a directory of its own, so that no two tasks share a file, whatever their names are.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::AllocId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use telemetry::{chain, clock};

/// The directory of the allocations' state, within the state directory.
const ALLOCS: &str = "allocs";
/// The directory of the tasks' state, within that of their allocation.
const TASKS: &str = "tasks";
/// Separates the name of a file that was set aside from the time at which that happened.
const UNREADABLE: &str = ".unreadable-";
/// Permissions of the state directory and everything in it.
const DIR_MODE: u32 = 0o700;
/// Permissions of state files. Some of them hold secrets.
const FILE_MODE: u32 = 0o600;
/// The beginning of a file: its format. It changes with the encoding of what follows.
const FORMAT: &[u8; 8] = b"drover-1";
/// The number of bytes of the length that follows the format, and of the checksum after it.
const LENGTH_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 8;

/// The state directory.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: PathBuf,
}

/// The crash that a file must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A crash of the agent.
    Process,
    /// A crash of the machine.
    Machine,
}

/// The outcome of reading a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Saved<T> {
    /// Its content.
    Read(T),
    /// It does not exist.
    Absent,
    /// It cannot be read.
    Unreadable,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The system refuses to read it.
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
    /// It does not begin with the format.
    #[error("another version of the agent wrote the file, or something else did")]
    Format,
    /// Its length or its checksum is wrong.
    #[error("the file was cut off or damaged")]
    Damaged,
    /// Its content is not what is expected.
    #[error("another version of the agent wrote the file")]
    Content(#[source] Box<dyn std::error::Error + Send + Sync>),
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

    /// The directory of a task's state. The name has been checked to name a directory.
    pub(crate) fn task(&self, id: AllocId, task: &str) -> PathBuf {
        self.alloc(id).join(TASKS).join(task)
    }

    /// The directories of all tasks of an allocation that have state.
    pub(crate) fn tasks(&self, id: AllocId) -> io::Result<Vec<PathBuf>> {
        directories(&self.alloc(id).join(TASKS))
    }

    /// The allocations that have a state directory.
    pub(crate) fn allocs(&self) -> io::Result<Vec<AllocId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(self.root.join(ALLOCS))? {
            let name = entry?.file_name();
            if name.to_string_lossy().contains(UNREADABLE) {
                continue;
            }
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

    /// Sets the whole state of an allocation aside.
    pub(crate) fn set_alloc_aside(&self, id: AllocId) -> io::Result<PathBuf> {
        set_aside(&self.alloc(id))
    }
}

/// The directories in a directory, in the order of their names; none if it does not exist.
pub(crate) fn directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a file; `None` if it does not exist. The file stays as it is.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReadError> {
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    decode(&bytes).map(Some)
}

/// Decodes the bytes of a file.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ReadError> {
    rmp_serde::from_slice(content(bytes)?).map_err(|error| ReadError::Content(error.into()))
}

/// Reads a file for its owner. One that cannot be read is set aside.
pub(crate) fn load<T: DeserializeOwned>(path: &Path) -> Saved<T> {
    found(path, read(path))
}

/// Reads a text file and parses its content, as [`load`] does.
///
/// # Errors
/// If the system refuses to read it.
pub(crate) fn load_text<T>(path: &Path) -> io::Result<Saved<T>>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let parse = |bytes: Vec<u8>| {
        let parsed = String::from_utf8_lossy(&bytes).trim().parse::<T>();
        parsed.map_err(|error| ReadError::Content(error.into()))
    };
    Ok(found(path, read_bytes(path)?.map(parse).transpose()))
}

fn found<T>(path: &Path, read: Result<Option<T>, ReadError>) -> Saved<T> {
    let error = match read {
        Ok(Some(value)) => return Saved::Read(value),
        Ok(None) => return Saved::Absent,
        Err(error) => error,
    };
    match set_aside(path) {
        Ok(aside) => tracing::error!(
            file = %path.display(), kept_as = %aside.display(), error = chain(&error), "cannot read a state file"
        ),
        Err(failed) => tracing::error!(
            file = %path.display(), error = chain(&error), aside = chain(&failed),
            "cannot read a state file, and cannot set it aside"
        ),
    }
    Saved::Unreadable
}

fn read_bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Renames a file or directory, so that it is kept and counts as absent.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{UNREADABLE}{}", clock::now().as_secs()));
    let aside = PathBuf::from(name);
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Puts format, length and checksum before the content of a file.
fn framed(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_le_bytes();
    [&FORMAT[..], &length, &checksum(content), content].concat()
}

/// The content of a file, after its format, length and checksum were checked.
fn content(bytes: &[u8]) -> Result<&[u8], ReadError> {
    let rest = bytes.strip_prefix(FORMAT).ok_or(ReadError::Format)?;
    let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(ReadError::Damaged)?;
    let (expected, content) = rest.split_first_chunk::<CHECKSUM_BYTES>().ok_or(ReadError::Damaged)?;
    let is_whole = u64::from_le_bytes(*length) == content.len() as u64 && *expected == checksum(content);
    if is_whole { Ok(content) } else { Err(ReadError::Damaged) }
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = [0; CHECKSUM_BYTES];
    checksum.copy_from_slice(&Sha256::digest(content)[..CHECKSUM_BYTES]);
    checksum
}

/// Writes a file completely or not at all.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T, durability: Durability) -> io::Result<()> {
    write_bytes(path, &encode(value)?, durability)
}

/// Encodes a value as the bytes of a file.
pub(crate) fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let content = rmp_serde::to_vec_named(value).map_err(io::Error::other)?;
    Ok(framed(&content))
}

/// Writes a text file completely or not at all. It survives a crash of the machine.
pub(crate) fn write_text(path: &Path, text: &str) -> io::Result<()> {
    write_bytes(path, text.as_bytes(), Durability::Machine)
}

fn write_bytes(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
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

/// Writes a file of an allocation on a thread that may block, and creates its directory if necessary.
pub(crate) async fn save<T: Serialize>(path: PathBuf, value: &T, durability: Durability) -> io::Result<()> {
    let bytes = encode(value)?;
    tokio::task::spawn_blocking(move || {
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
        }
        write_bytes(&path, &bytes, durability)
    })
    .await
    .map_err(io::Error::other)?
}

/// Writes a file of an allocation so that it survives a crash of the agent at once, and one of the machine soon. A crash of
/// the machine before that may leave a file that cannot be read.
pub(crate) async fn save_soon<T: Serialize>(path: PathBuf, value: &T) -> io::Result<()> {
    save(path.clone(), value, Durability::Process).await?;
    // The caller does not wait for the disk.
    tokio::task::spawn_blocking(move || match sync(&path) {
        Ok(()) => {}
        // The allocation has been removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(file = %path.display(), error = chain(&error), "cannot write a state file to the disk");
        }
    });
    Ok(())
}

/// Waits until a file and its place in its directory are on the disk.
fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The names of the files in a directory.
    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn written_files_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(load::<Vec<u32>>(&path), Saved::Absent);
        write(&path, &vec![1, 2], Durability::Machine).unwrap();
        write(&path, &vec![3], Durability::Process).unwrap();
        assert_eq!(load(&path), Saved::Read(vec![3]));
        assert_eq!(names(dir.path()), ["state"], "no partial file is left");
    }

    #[test]
    fn unreadable_files_are_set_aside_and_count_as_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        // Another type, as of another version of the agent.
        write(&path, &"text", Durability::Process).unwrap();
        assert!(matches!(read::<Vec<u32>>(&path), Err(ReadError::Content(_))));
        assert_eq!(load::<Vec<u32>>(&path), Saved::Unreadable);
        assert_eq!(load::<Vec<u32>>(&path), Saved::Absent);
        let kept = names(dir.path());
        assert!(kept.len() == 1 && kept[0].starts_with("state.unreadable-"), "{kept:?}");
        fs::write(&path, "x7").unwrap();
        assert_eq!(load_text::<u32>(&path).unwrap(), Saved::Unreadable);
        write_text(&path, "7\n").unwrap();
        assert_eq!(load_text(&path).unwrap(), Saved::Read(7));
    }

    proptest! {
        /// A file that was cut off, or in which a byte changed, is never taken for another valid one.
        #[test]
        fn a_truncated_or_damaged_file_is_noticed(
            numbers in prop::collection::vec(any::<u32>(), 0..20), at in any::<prop::sample::Index>(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("state");
            write(&path, &numbers, Durability::Process).unwrap();
            let whole = fs::read(&path).unwrap();
            let at = at.index(whole.len());
            fs::write(&path, &whole[..at]).unwrap();
            prop_assert!(read::<Vec<u32>>(&path).is_err());
            let mut changed = whole;
            changed[at] ^= 0x10;
            fs::write(&path, changed).unwrap();
            prop_assert!(read::<Vec<u32>>(&path).is_err());
        }
    }

    #[test]
    fn allocations_are_found_by_their_directories() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let [id, other] = [7, 8].map(|number| AllocId::from_bytes([number; 16]));
        for id in [id, other] {
            fs::create_dir(store.alloc(id)).unwrap();
        }
        fs::create_dir(dir.path().join(ALLOCS).join("lost+found")).unwrap();
        let aside = store.set_alloc_aside(other).unwrap();
        assert!(aside.is_dir());
        assert_eq!(store.allocs().unwrap(), [id]);
    }

    #[test]
    fn no_two_tasks_share_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let id = AllocId::from_bytes([7; 16]);
        let tasks = ["web", "web.partial", "web.unreadable-1", "tasks"].map(|name| store.task(id, name));
        for (number, task) in tasks.iter().enumerate() {
            DirBuilder::new().recursive(true).create(task).unwrap();
            write(&task.join("record"), &number, Durability::Process).unwrap();
        }
        for (number, task) in tasks.iter().enumerate() {
            assert_eq!(load(&task.join("record")), Saved::Read(number));
        }
        assert_eq!(store.tasks(id).unwrap().len(), tasks.len());
    }
}
