//! The output of tasks on disk, in files `<task>.<stream>.<number>` that are rotated when they are full. The
//! executor of a task writes them; `requests::files` reads them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use wire::files::LogStream;

/// How far before the end of a full file a line end is searched, in bytes.
const NEWLINE_SCAN_BYTES: usize = 32 << 10;
/// The maximum number of bytes that are read from a stream at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Permissions of log files: all users that may enter the directory may read them.
const FILE_MODE: u32 = 0o644;

/// Where a task's output goes, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogFiles {
    /// The allocation's log directory.
    pub(crate) dir: PathBuf,
    /// The task's name.
    pub(crate) task: String,
    /// The number of files of each stream that are kept; at least 1.
    pub(crate) files_max: u64,
    /// The maximum size of a file, in bytes; at least 1.
    pub(crate) file_bytes_max: u64,
}

/// The name of a log file.
pub(crate) fn file_name(task: &str, stream: LogStream, number: u64) -> String {
    format!("{task}.{stream}.{number}")
}

/// The numbers of a stream's files, in ascending order.
pub(crate) fn numbers(dir: &Path, task: &str, stream: LogStream) -> io::Result<Vec<u64>> {
    let prefix = format!("{task}.{stream}.");
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(&prefix)).map(str::parse);
        if let Some(Ok(number)) = number {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Writes one stream of a task. It continues the newest existing file.
#[derive(Debug)]
pub(crate) struct Rotator {
    files: LogFiles,
    stream: LogStream,
    number: u64,
    file: File,
    written: u64,
}

impl Rotator {
    /// Opens the newest file of the stream, or the first one.
    pub(crate) fn open(files: LogFiles, stream: LogStream) -> io::Result<Self> {
        let number = numbers(&files.dir, &files.task, stream)?.last().copied().unwrap_or(0);
        let (file, written) = open(&files, stream, number)?;
        Ok(Self { files, stream, number, file, written })
    }

    /// Writes all bytes, to several files if necessary.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.files.file_bytes_max.saturating_sub(self.written);
            let (fits, rest) = bytes.split_at(fitting(bytes, room));
            self.file.write_all(fits)?;
            self.written += fits.len() as u64;
            if !rest.is_empty() {
                self.rotate()?;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.number += 1;
        (self.file, self.written) = open(&self.files, self.stream, self.number)?;
        let kept_from = (self.number + 1).saturating_sub(self.files.files_max);
        let all = numbers(&self.files.dir, &self.files.task, self.stream)?;
        for old in all.into_iter().filter(|number| *number < kept_from) {
            fs::remove_file(self.files.dir.join(file_name(&self.files.task, self.stream, old)))?;
        }
        Ok(())
    }

    /// Writes the contents of `source` until it ends. Bytes that cannot be written are lost, so that the task does not
    /// block on a full disk. The first write error is returned at the end.
    pub(crate) fn drain(mut self, mut source: impl Read) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut outcome = Ok(());
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return outcome,
                Ok(length) => {
                    let written = self.write(&buffer[..length]);
                    outcome = outcome.and(written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn open(files: &LogFiles, stream: LogStream, number: u64) -> io::Result<(File, u64)> {
    let path = files.dir.join(file_name(&files.task, stream, number));
    // The directory belongs to the tasks, too: a link in it must not redirect what is written.
    let flags = OFlag::O_NOFOLLOW.bits();
    let file = OpenOptions::new().append(true).create(true).mode(FILE_MODE).custom_flags(flags).open(path)?;
    let written = file.metadata()?.len();
    Ok((file, written))
}

/// The number of bytes that go into a file with `room` bytes left: all of them, or those up to the last line end that fits,
/// or as many as fit.
fn fitting(bytes: &[u8], room: u64) -> usize {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if bytes.len() <= room {
        return bytes.len();
    }
    let scan_start = room.saturating_sub(NEWLINE_SCAN_BYTES);
    let line_end = bytes[scan_start..room].iter().rposition(|byte| *byte == b'\n');
    line_end.map_or(room, |position| scan_start + position + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn files(dir: &Path, files_max: u64, file_bytes_max: u64) -> LogFiles {
        LogFiles { dir: dir.to_owned(), task: "web".into(), files_max, file_bytes_max }
    }

    fn contents(dir: &Path) -> Vec<(u64, String)> {
        let numbers = numbers(dir, "web", LogStream::Stdout).unwrap().into_iter();
        let read =
            |number| fs::read_to_string(dir.join(file_name("web", LogStream::Stdout, number))).unwrap();
        numbers.map(|number| (number, read(number))).collect()
    }

    fn entry(number: u64, text: &str) -> (u64, String) {
        (number, text.to_owned())
    }

    #[test]
    fn a_full_file_ends_with_a_line_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Rotator::open(files(dir.path(), 2, 10), LogStream::Stdout).unwrap();
        log.write(b"one\ntwo\nthree\n").unwrap();
        assert_eq!(contents(dir.path()), [entry(0, "one\ntwo\n"), entry(1, "three\n")]);
        log.write(b"four five six\n").unwrap();
        assert_eq!(contents(dir.path()), [entry(1, "three\nfour"), entry(2, " five six\n")]);
    }

    #[test]
    fn writing_goes_on_in_the_newest_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("web.stdout.10"), "abc").unwrap();
        fs::write(dir.path().join("web.stdout.9"), "").unwrap();
        fs::write(dir.path().join("web.stdout.x"), "").unwrap();
        let mut log = Rotator::open(files(dir.path(), 5, 5), LogStream::Stdout).unwrap();
        log.write(b"defg").unwrap();
        assert_eq!(contents(dir.path()), [entry(9, ""), entry(10, "abcde"), entry(11, "fg")]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_file_is_too_large(
            writes in prop::collection::vec("[ab\n]{0,30}", 0..12), file_bytes_max in 1u64..20,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut log = Rotator::open(files(dir.path(), 1_000, file_bytes_max), LogStream::Stdout).unwrap();
            for text in &writes {
                log.write(text.as_bytes()).unwrap();
            }
            let contents = contents(dir.path());
            prop_assert!(contents.iter().all(|(_, text)| text.len() as u64 <= file_bytes_max));
            let all: String = contents.into_iter().map(|(_, text)| text).collect();
            prop_assert_eq!(all, writes.concat());
        }
    }
}
