//! Describes files and lists directories.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use bytes::Bytes;
use model::{Nanos, Timestamp};
use nix::errno::Errno;
use wire::Refusal;
use wire::files::{FileInfo, FileList, LISTED_MAX};

use super::alloc_root::{self, AllocRoot};
use super::{io_refusal, sniff};

/// The number of bytes of a file from which its content type is guessed.
const SNIFFED_BYTES: u64 = 512;

/// Lists a directory's entries after a name, as many as one answer may contain. Entries that disappear meanwhile are left
/// out. Names are compared as bytes, as the file system has them; they need not be readable text.
pub(super) fn list(alloc_root: &AllocRoot, path: &str, after: Option<&[u8]>) -> Result<FileList, Refusal> {
    let failed = |error| io_refusal(path, &error);
    let dir = alloc_root.entry(path, "open")?;
    if !dir.file.metadata().map_err(failed)?.is_dir() {
        return Err(alloc_root::failed("open", &dir.place, Errno::ENOTDIR));
    }
    // The entries of the page, and the one after it.
    let mut page: BTreeMap<OsString, DirEntry> = BTreeMap::new();
    for entry in fs::read_dir(dir.by_descriptor()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if after.is_none_or(|after| name.as_os_str() > OsStr::from_bytes(after)) {
            page.insert(name, entry);
            if page.len() > LISTED_MAX + 1 {
                page.pop_last();
            }
        }
    }
    let has_more = page.len() > LISTED_MAX;
    if has_more {
        page.pop_last();
    }
    let last = page.last_key_value().filter(|_| has_more).map(|(name, _)| name.clone());
    let info =
        |(name, entry): (OsString, DirEntry)| Some(info(&name.to_string_lossy(), &entry.metadata().ok()?));
    let files = page.into_iter().filter_map(info).collect();
    Ok(FileList { files, next: last.map(|name| Bytes::from(name.into_vec())) })
}

/// Describes the file or directory at a path.
pub(super) fn stat(alloc_root: &AllocRoot, path: &str) -> Result<FileInfo, Refusal> {
    let entry = alloc_root.entry(path, "stat")?;
    let metadata = entry.file.metadata().map_err(|error| io_refusal(path, &error))?;
    // The root has the name of its directory, which is the allocation's id.
    let name = entry.place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut info = info(&name, &metadata);
    if metadata.is_file() {
        let mut start = Vec::new();
        entry.file.take(SNIFFED_BYTES).read_to_end(&mut start).map_err(|error| io_refusal(path, &error))?;
        info.content_type = Some(content_type(&name, &start).into());
    }
    Ok(info)
}

fn info(name: &str, metadata: &Metadata) -> FileInfo {
    FileInfo {
        name: name.into(),
        is_dir: metadata.is_dir(),
        size: metadata.len(),
        mode: mode(metadata).into(),
        modified: Timestamp::from_secs(metadata.mtime()) + Nanos(metadata.mtime_nsec()),
        content_type: None,
    }
}

/// The type and permissions as the API writes them, such as `drwxr-xr-x`.
fn mode(metadata: &Metadata) -> String {
    const STICKY: u32 = 0o1000;
    const SET_GROUP: u32 = 0o2000;
    const SET_USER: u32 = 0o4000;
    let (kind, bits) = (metadata.file_type(), metadata.mode());
    let letters = [
        ('d', kind.is_dir()),
        ('L', kind.is_symlink()),
        ('D', kind.is_block_device() || kind.is_char_device()),
        ('p', kind.is_fifo()),
        ('S', kind.is_socket()),
        ('u', bits & SET_USER != 0),
        ('g', bits & SET_GROUP != 0),
        ('c', kind.is_char_device()),
        ('t', bits & STICKY != 0),
    ];
    let mut text: String = letters.into_iter().filter(|(_, set)| *set).map(|(letter, _)| letter).collect();
    if text.is_empty() {
        text.push('-');
    }
    for (bit, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if bits & (1 << (8 - bit)) != 0 { letter } else { '-' });
    }
    text
}

/// The content type of a file: JSON by its name, anything else by its first bytes (http-api §13).
fn content_type(name: &str, start: &[u8]) -> &'static str {
    if name.ends_with(".json") { "application/json" } else { sniff::content_type(start) }
}
