//! Finds and reads configuration files. A path that is neither a file nor a directory is refused before it is
//! opened, because reading from a FIFO or a device may block forever.

use std::fs::{File, FileType, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// Maximum number of files that are read from a directory.
const FILES_MAX: usize = 1_000;
/// Maximum number of entries in a directory.
const ENTRIES_MAX: usize = 100_000;
/// Maximum total size of the files in a directory.
const DIRECTORY_BYTES_MAX: usize = 16 << 20;

/// A file and its content.
pub(super) type Source = (PathBuf, Vec<u8>);

/// Reads a file, or the files of a directory in the order of their names.
///
/// # Errors
/// Returns the path that cannot be used, and the reason.
pub(super) fn read(path: &Path) -> Result<Vec<Source>, (PathBuf, String)> {
    let refuse = |text: String| (path.to_owned(), text);
    let metadata = std::fs::metadata(path).map_err(|error| refuse(unreadable(&error)))?;
    if !metadata.is_dir() {
        return Ok(vec![(path.to_owned(), contents(path, &metadata).map_err(refuse)?)]);
    }
    let mut sources = Vec::new();
    let mut total = 0;
    for file in files_in(path).map_err(refuse)? {
        let text = std::fs::metadata(&file)
            .map_err(|error| unreadable(&error))
            .and_then(|metadata| contents(&file, &metadata))
            .map_err(|text| (file.clone(), text))?;
        total += text.len();
        if total > DIRECTORY_BYTES_MAX {
            return Err(refuse(format!("its files have more than {DIRECTORY_BYTES_MAX} bytes in total")));
        }
        sources.push((file, text));
    }
    Ok(sources)
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| unreadable(&error))?;
    let mut files = Vec::new();
    for (at, entry) in entries.enumerate() {
        if at >= ENTRIES_MAX {
            return Err(format!("the directory has more than {ENTRIES_MAX} entries"));
        }
        let entry = entry.map_err(|error| unreadable(&error))?;
        if !is_configuration(&entry.file_name().to_string_lossy()) || entry.path().is_dir() {
            continue;
        }
        files.push(entry.path());
        if files.len() > FILES_MAX {
            return Err(format!("the directory has more than {FILES_MAX} files that end in .hcl or .json"));
        }
    }
    files.sort();
    if files.is_empty() {
        Err("it contains no file that ends in .hcl or .json".to_owned())
    } else {
        Ok(files)
    }
}

/// Whether a file in a directory is read, judging by its name. Files that editors leave behind are not.
fn is_configuration(name: &str) -> bool {
    let is_named = name.ends_with(".hcl") || name.ends_with(".json");
    // `.#` marks a lock, `#…#` an autosave. Names that end with `~` or `#` have neither extension.
    is_named && !name.starts_with(".#") && !name.starts_with('#')
}

fn contents(path: &Path, metadata: &Metadata) -> Result<Vec<u8>, String> {
    check(metadata)?;
    // The path may have become another kind of file between the check and the opening, so the opened file is checked too.
    let flags = OFlag::O_NONBLOCK.bits();
    let file =
        File::options().read(true).custom_flags(flags).open(path).map_err(|error| unreadable(&error))?;
    check(&file.metadata().map_err(|error| unreadable(&error))?)?;
    let mut text = Vec::new();
    let limit = hcl1::BYTES_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    if text.len() > hcl1::BYTES_MAX { Err(too_large()) } else { Ok(text) }
}

/// Refuses special files and files that are too large.
fn check(metadata: &Metadata) -> Result<(), String> {
    let file_type = metadata.file_type();
    if !file_type.is_file() {
        return Err(format!("it is {}; expected a file or a directory", kind(file_type)));
    }
    if metadata.len() > hcl1::BYTES_MAX as u64 { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> String {
    format!("the file is larger than {} bytes", hcl1::BYTES_MAX)
}

fn unreadable(error: &std::io::Error) -> String {
    format!("cannot be read: {error}")
}

fn kind(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        "a directory"
    } else if file_type.is_fifo() {
        "a pipe"
    } else if file_type.is_char_device() || file_type.is_block_device() {
        "a device"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "not a regular file"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        let (file, text) = read(path).unwrap_err();
        assert!(file.starts_with(path), "{}", file.display());
        text
    }

    #[test]
    fn a_directory_is_read_in_the_order_of_names_without_what_editors_leave() {
        let directory = tempfile::tempdir().unwrap();
        for name in
            ["b.hcl", "a.json", "c.hcl", ".#b.hcl", "#c.hcl", "d.hcl~", "e.hcl#", "notes.txt", "c.hcl.bak"]
        {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        std::fs::create_dir(directory.path().join("sub.hcl")).unwrap();
        std::fs::write(directory.path().join("sub.hcl/z.hcl"), "").unwrap();
        // A volume of Kubernetes contains such links.
        std::os::unix::fs::symlink("c.hcl", directory.path().join("link.hcl")).unwrap();
        let sources = read(directory.path()).unwrap();
        let names = sources.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["a.json", "b.hcl", "c.hcl", "link.hcl"]);
        assert_eq!(sources[3].1, b"c.hcl");
    }

    #[test]
    fn pipes_and_devices_are_refused_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe.hcl");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(refusal(&pipe), "it is a pipe; expected a file or a directory");
        assert_eq!(refusal(directory.path()), "it is a pipe; expected a file or a directory");
        assert_eq!(refusal(Path::new("/dev/zero")), "it is a device; expected a file or a directory");
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(refusal(&socket), "it is a socket; expected a file or a directory");
        assert_eq!(
            refusal(&directory.path().join("none")),
            "cannot be read: No such file or directory (os error 2)"
        );
        // A symbolic link to itself.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        assert!(refusal(&link).starts_with("cannot be read: "), "{}", refusal(&link));
    }

    #[test]
    fn sizes_and_numbers_of_files_have_limits() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(refusal(directory.path()), "it contains no file that ends in .hcl or .json");
        let large = directory.path().join("large");
        // A sparse file takes no space on the disk.
        File::create(&large).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(refusal(&large), "the file is larger than 1048576 bytes");
        for number in 0..=FILES_MAX {
            File::create(directory.path().join(format!("{number}.hcl"))).unwrap();
        }
        assert_eq!(
            refusal(directory.path()),
            "the directory has more than 1000 files that end in .hcl or .json"
        );
    }

    #[test]
    fn files_of_a_directory_have_a_limit_together() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..=DIRECTORY_BYTES_MAX / hcl1::BYTES_MAX {
            let file = File::create(directory.path().join(format!("{number}.hcl"))).unwrap();
            file.set_len(hcl1::BYTES_MAX as u64).unwrap();
        }
        assert_eq!(refusal(directory.path()), "its files have more than 16777216 bytes in total");
    }
}
