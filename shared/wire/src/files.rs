//! Between the API and an agent: the files and logs of its allocations, on
//! [`Subject::AgentFiles`](crate::Subject::AgentFiles).
//!
//! Files are pulled: every request says where to begin and how much it takes, and gets one answer (design §6). Whoever
//! follows a file or a log asks again from where the last answer ended, with a time to wait for more.
//!
//! Paths are relative to the allocation's directory, with `/` in front or not. What is not there is refused as
//! `NotFound`; a path that leads out of the directory, also by a link, a directory where a file is meant, an unknown
//! task and secrets as `Invalid`. Sentences about secrets contain [`PROHIBITED`].

use bytes::Bytes;
use model::{AllocId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// The most bytes of a file that one answer carries.
pub const FILE_BYTES_MAX: u32 = 256 << 10;
/// The most entries of a directory that one answer carries; names have at most 255 bytes.
pub const LISTED_MAX: usize = 2_000;
/// The longest that an answer waits for more at the end of a file, in milliseconds; longer waits are cut.
pub const WAIT_MS_MAX: u32 = 10_000;
/// Part of every refusal to read a task's secrets, which the API tells from other refusals (http-api §13).
pub const PROHIBITED: &str = "file prohibited";

/// Asks for a directory's entries, sorted by name. Answered by [`FileList`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListFiles {
    /// The allocation.
    pub alloc: AllocId,
    /// The directory.
    pub path: Text,
    /// Goes on after this name, the last of an answer that had no room for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Text>,
}

/// Entries of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileList {
    /// At most [`LISTED_MAX`], by name.
    pub files: Vec<FileInfo>,
    /// Whether there are more.
    #[serde(default)]
    pub more: bool,
}

/// Asks what a file or directory is. Answered by [`FileInfo`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatFile {
    /// The allocation.
    pub alloc: AllocId,
    /// The file.
    pub path: Text,
}

/// A file or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its name, without directories.
    pub name: Text,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Its size, in bytes.
    pub size: u64,
    /// Kind and permissions as text, such as `-rw-r--r--`.
    pub mode: Text,
    /// When it was written last.
    pub modified: Timestamp,
    /// What is in it, as a MIME type; only in answers to [`StatFile`], and only of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Text>,
}

/// Asks for a piece of a file. Answered by [`FileChunk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFile {
    /// The allocation.
    pub alloc: AllocId,
    /// The file.
    pub path: Text,
    /// Where the piece begins.
    pub from: Origin,
    /// How many bytes to answer at most; more than [`FILE_BYTES_MAX`] are not.
    pub bytes_max: u32,
    /// How long to wait for more at the end of the file, in milliseconds; 0 is not at all.
    #[serde(default)]
    pub wait_ms: u32,
}

/// Where reading begins, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// So many after the beginning.
    Start(u64),
    /// So many before the end; at the beginning if there are not so many.
    End(u64),
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChunk {
    /// Where it begins in the file.
    pub offset: u64,
    /// The bytes; none at the end of the file.
    pub data: Bytes,
    /// How many bytes the file has now; less than [`Self::offset`] if it was cut meanwhile.
    pub size: u64,
}

/// Asks for a piece of what a task has written, over all the files that are kept of it. Answered by [`LogChunk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLogs {
    /// The allocation.
    pub alloc: AllocId,
    /// The task.
    pub task: Text,
    /// Which of its streams.
    pub stream: LogStream,
    /// Where the piece begins.
    pub from: LogPosition,
    /// How many bytes to answer at most; more than [`FILE_BYTES_MAX`] are not.
    pub bytes_max: u32,
    /// How long to wait for more at the end, in milliseconds; 0 is not at all.
    #[serde(default)]
    pub wait_ms: u32,
}

/// What a task writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, derive_more::Display)]
pub enum LogStream {
    /// Its standard output.
    #[display("stdout")]
    Stdout,
    /// Its standard error.
    #[display("stderr")]
    Stderr,
}

/// Where reading of logs begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogPosition {
    /// In all that is kept, as if it were one file.
    Origin(Origin),
    /// Where an earlier answer ended.
    Cursor(LogCursor),
}

/// A place in a task's logs. If its file is not kept any more, reading goes on with the oldest one that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCursor {
    /// The number at the end of the file's name.
    pub file: u64,
    /// The offset in that file, in bytes.
    pub offset: u64,
}

/// A piece of what a task has written; of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChunk {
    /// That file's path.
    pub path: Text,
    /// The bytes; none at the end of the newest file.
    pub data: Bytes,
    /// Where the next piece begins. The file is that of this piece and the offset the one after it, also at a file's
    /// end: the next request goes on with the next file.
    pub next: LogCursor,
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
