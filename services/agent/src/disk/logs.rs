//! The output of tasks on disk, in files `<task>.<stream>.<number>` that are rotated when they are full. The
//! executor of a task writes them; `requests::files` reads them.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use wire::files::LogStream;

use super::dirs::LOGS;
use super::tree::{Links, OpenDir};

/// How far before the end of a full file a line end is searched, in bytes.
const NEWLINE_SCAN_BYTES: usize = 32 << 10;
/// The maximum number of bytes that are read from a stream at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Permissions of log files: all users that may enter the directory may read them.
const FILE_MODE: u32 = 0o644;

/// Where a task's output goes, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogFiles {
    /// The allocation's root directory.
    pub(crate) alloc: PathBuf,
    /// The task's name.
    pub(crate) task: String,
    /// The number of files of each stream that are kept; at least 1.
    pub(crate) files_max: u64,
    /// The maximum size of a file, in bytes; at least 1.
    pub(crate) file_bytes_max: u64,
}

/// A place in a stream's files: where a write ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The number of the file.
    pub(crate) file: u64,
    /// The position in the file.
    pub(crate) bytes: u64,
}

/// The name of a log file.
pub(crate) fn file_name(task: &str, stream: LogStream, number: u64) -> String {
    format!("{task}.{stream}.{number}")
}

/// The numbers of a stream's files in the log directory, in ascending order.
pub(crate) fn numbers(dir: &OpenDir, task: &str, stream: LogStream) -> io::Result<Vec<u64>> {
    let prefix = format!("{task}.{stream}.");
    let mut numbers = Vec::new();
    for entry in dir.entries()? {
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
    /// The log directory. It stays the same when a task moves it away and puts a link in its place.
    dir: OpenDir,
    files: LogFiles,
    stream: LogStream,
    number: u64,
    file: File,
    written: u64,
}

impl Rotator {
    /// Opens the newest file of the stream, or the first one.
    pub(crate) fn open(files: LogFiles, stream: LogStream) -> io::Result<Self> {
        let dir = OpenDir::open(&files.alloc)?.dir(LOGS)?;
        let number = numbers(&dir, &files.task, stream)?.last().copied().unwrap_or(0);
        let (file, written) = open(&dir, &files.task, stream, number)?;
        Ok(Self { dir, files, stream, number, file, written })
    }

    /// Where the next write begins.
    pub(crate) fn place(&self) -> Place {
        Place { file: self.number, bytes: self.written }
    }

    /// The number of bytes that have been written since a place. Those in files that were removed meanwhile do not count.
    pub(crate) fn written_since(&self, place: Place) -> io::Result<u64> {
        let mut sum = 0;
        for number in place.file..=self.number {
            let name = file_name(&self.files.task, self.stream, number);
            let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
            let length = match self.dir.open_beneath(name.as_ref(), flags, Links::Refused) {
                Ok(file) => file.metadata()?.len(),
                Err(Errno::ENOENT) => 0,
                Err(error) => return Err(error.into()),
            };
            let skipped = if number == place.file { place.bytes } else { 0 };
            sum += length.saturating_sub(skipped);
        }
        Ok(sum)
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
        (self.file, self.written) = open(&self.dir, &self.files.task, self.stream, self.number)?;
        let kept_from = (self.number + 1).saturating_sub(self.files.files_max);
        let all = numbers(&self.dir, &self.files.task, self.stream)?;
        for old in all.into_iter().filter(|number| *number < kept_from) {
            self.dir.remove_file(file_name(&self.files.task, self.stream, old))?;
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

fn open(dir: &OpenDir, task: &str, stream: LogStream, number: u64) -> io::Result<(File, u64)> {
    let file = dir.append(file_name(task, stream, number), FILE_MODE)?;
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
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;
    use crate::disk::dirs::AllocDirs;

    /// An allocation's directory.
    struct Scene(tempfile::TempDir);

    impl Scene {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            AllocDirs::new(dir.path().join("7")).build().unwrap();
            Self(dir)
        }

        fn alloc(&self) -> PathBuf {
            self.0.path().join("7")
        }

        fn path(&self, name: &str) -> PathBuf {
            self.alloc().join(LOGS).join(name)
        }

        fn open(&self, files_max: u64, file_bytes_max: u64) -> io::Result<Rotator> {
            let files = LogFiles { alloc: self.alloc(), task: "web".into(), files_max, file_bytes_max };
            Rotator::open(files, LogStream::Stdout)
        }

        fn contents(&self) -> Vec<(u64, String)> {
            let dir = OpenDir::open(&self.path("")).unwrap();
            let read = |number| {
                let path = self.path(&file_name("web", LogStream::Stdout, number));
                (number, fs::read_to_string(path).unwrap())
            };
            numbers(&dir, "web", LogStream::Stdout).unwrap().into_iter().map(read).collect()
        }
    }

    fn entry(number: u64, text: &str) -> (u64, String) {
        (number, text.to_owned())
    }

    #[test]
    fn a_full_file_ends_with_a_line_and_the_oldest_goes() {
        let scene = Scene::new();
        let mut log = scene.open(2, 10).unwrap();
        log.write(b"one\ntwo\nthree\n").unwrap();
        assert_eq!(scene.contents(), [entry(0, "one\ntwo\n"), entry(1, "three\n")]);
        log.write(b"four five six\n").unwrap();
        assert_eq!(scene.contents(), [entry(1, "three\nfour"), entry(2, " five six\n")]);
    }

    #[test]
    fn writing_goes_on_in_the_newest_file() {
        let scene = Scene::new();
        fs::write(scene.path("web.stdout.10"), "abc").unwrap();
        fs::write(scene.path("web.stdout.9"), "").unwrap();
        fs::write(scene.path("web.stdout.x"), "").unwrap();
        let mut log = scene.open(5, 5).unwrap();
        log.write(b"defg").unwrap();
        assert_eq!(scene.contents(), [entry(9, ""), entry(10, "abcde"), entry(11, "fg")]);
    }

    #[test]
    fn what_was_written_since_a_place_is_counted_over_files() {
        let scene = Scene::new();
        let mut log = scene.open(5, 5).unwrap();
        log.write(b"ab").unwrap();
        let place = log.place();
        assert_eq!((place, log.written_since(place).unwrap()), (Place { file: 0, bytes: 2 }, 0));
        log.write(b"cdefghijkl").unwrap();
        assert_eq!(scene.open(5, 5).unwrap().written_since(place).unwrap(), 10);
        fs::remove_file(scene.path("web.stdout.1")).unwrap();
        assert_eq!(scene.open(5, 5).unwrap().written_since(place).unwrap(), 5);
    }

    /// A task may replace the directory of its logs at any time, before and after it is opened.
    #[test]
    fn output_does_not_follow_links_of_tasks() {
        let scene = Scene::new();
        let outside = scene.0.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let mut log = scene.open(2, 3).unwrap();
        fs::rename(scene.path(""), scene.alloc().join("alloc/moved")).unwrap();
        symlink(&outside, scene.alloc().join(LOGS)).unwrap();
        log.write(b"a\nb\nc\nd\n").unwrap();
        scene.open(2, 3).unwrap_err();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(fs::read_dir(scene.alloc().join("alloc/moved")).unwrap().count() > 0);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_file_is_too_large(
            writes in prop::collection::vec("[ab\n]{0,30}", 0..12), file_bytes_max in 1u64..20,
        ) {
            let scene = Scene::new();
            let mut log = scene.open(1_000, file_bytes_max).unwrap();
            for text in &writes {
                log.write(text.as_bytes()).unwrap();
            }
            let contents = scene.contents();
            prop_assert!(contents.iter().all(|(_, text)| text.len() as u64 <= file_bytes_max));
            let all: String = contents.into_iter().map(|(_, text)| text).collect();
            prop_assert_eq!(all, writes.concat());
        }
    }
}
