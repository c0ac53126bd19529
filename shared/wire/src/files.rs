//! Messages between the API and an agent about the files and logs of its allocations, on
//! [`Subject::AgentFiles`](crate::Subject::AgentFiles).
//!
//! Files are pulled: every request gives the start and the maximum number of bytes, and gets one response (`docs/architecture/agents.md`).
//! A reader that follows a file or a log sends another request from the end of the last response, with a time to wait
//! for new data.
//!
//! Paths are relative to the allocation's directory, with or without a leading `/`. A missing file is refused as
//! `NotFound`. Refused as `Invalid` are paths that lead out of the directory, also through a link, directories where a
//! file is expected, unknown tasks, and secrets. Messages of refusals to read secrets contain [`PROHIBITED`].

use bytes::Bytes;
use model::{AllocId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Maximum number of bytes of a file in one response.
pub const FILE_BYTES_MAX: u32 = 256 << 10;
/// Maximum number of directory entries in one response; names have at most 255 bytes.
pub const LISTED_MAX: usize = 2_000;
/// Maximum time that a response waits for more data at the end of a file, in milliseconds. Longer waits are shortened
/// to this.
pub const WAIT_MS_MAX: u32 = 10_000;
/// Part of the message of every refusal to read a task's secrets. By it, the API distinguishes them from other
/// refusals (http-api §13).
pub const PROHIBITED: &str = "file prohibited";

/// Requests the entries of a directory, sorted by name. The response is [`FileList`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListFiles {
    /// The allocation.
    pub alloc: AllocId,
    /// Path of the directory.
    pub path: Text,
    /// Continues after this name: [`FileList::next`] of a previous response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Bytes>,
}

/// Entries of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileList {
    /// The entries, sorted by name, at most [`LISTED_MAX`].
    pub files: Vec<FileInfo>,
    /// The name after which the entries continue, if there are more. It is what the file system has: names are bytes, and
    /// [`FileInfo::name`] only shows them. Each response continues behind the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Bytes>,
}

/// Requests the metadata of a file or directory. The response is [`FileInfo`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatFile {
    /// The allocation.
    pub alloc: AllocId,
    /// Path of the file.
    pub path: Text,
}

/// A file or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Name, without directories.
    pub name: Text,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Size, in bytes.
    pub size: u64,
    /// Type and permissions as text, such as `-rw-r--r--`.
    pub mode: Text,
    /// Time of the last modification.
    pub modified: Timestamp,
    /// MIME type of its contents; only in responses to [`StatFile`], and only for files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Text>,
}

/// Requests a part of a file. The response is [`FileChunk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFile {
    /// The allocation.
    pub alloc: AllocId,
    /// Path of the file.
    pub path: Text,
    /// Start of the part.
    pub from: Origin,
    /// Maximum number of bytes in the response; limited to [`FILE_BYTES_MAX`].
    pub bytes_max: u32,
    /// How long to wait for more data at the end of the file, in milliseconds; 0 does not wait.
    #[serde(default)]
    pub wait_ms: u32,
}

/// Start of a read, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Offset from the beginning.
    Start(u64),
    /// Distance from the end. If it exceeds the size, the read starts at the beginning.
    End(u64),
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChunk {
    /// Offset in the file.
    pub offset: u64,
    /// The bytes; empty at the end of the file.
    pub data: Bytes,
    /// Current size of the file. It is less than [`Self::offset`] if the file was truncated meanwhile.
    pub size: u64,
}

/// Requests a part of a task's log, which spans all of its rotated files. The response is [`LogChunk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLogs {
    /// The allocation.
    pub alloc: AllocId,
    /// The task.
    pub task: Text,
    /// Which output stream of the task.
    pub stream: LogStream,
    /// Start of the part.
    pub from: LogPosition,
    /// Maximum number of bytes in the response; limited to [`FILE_BYTES_MAX`].
    pub bytes_max: u32,
    /// How long to wait for more data at the end, in milliseconds; 0 does not wait.
    #[serde(default)]
    pub wait_ms: u32,
}

/// An output stream of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, derive_more::Display)]
pub enum LogStream {
    /// Its standard output.
    #[display("stdout")]
    Stdout,
    /// Its standard error.
    #[display("stderr")]
    Stderr,
}

/// Start of a read in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogPosition {
    /// A position in the whole log, as if it were one file.
    Origin(Origin),
    /// The end of a previous response.
    Cursor(LogCursor),
}

/// A position in a task's log. If the file was deleted, reading continues with the oldest file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCursor {
    /// The number at the end of the file's name.
    pub file: u64,
    /// Offset in that file, in bytes.
    pub offset: u64,
}

/// A part of a task's log, from one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChunk {
    /// Path of that file.
    pub path: Text,
    /// The bytes; empty at the end of the newest file.
    pub data: Bytes,
    /// Start of the next part: the same file, and the offset after this part. At the end of a rotated file, the next
    /// request continues with the next file.
    pub next: LogCursor,
    /// Whether the task had ended for good before this was read. Then there will be no data after the end of the newest
    /// file.
    #[serde(default)]
    pub ended: bool,
}

kinds! {
    ListFiles => "files.list",
    FileList => "files.listed",
    StatFile => "files.stat",
    FileInfo => "files.info",
    ReadFile => "files.read",
    FileChunk => "files.chunk",
    ReadLogs => "files.read-logs",
    LogChunk => "files.log-chunk",
}
