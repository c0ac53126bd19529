//! Zip archives.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

use zip::ZipArchive;

use super::Sink;

/// The longest target of a link, in bytes.
const TARGET_BYTES_MAX: u64 = 4_096;
/// Permissions of a file whose archive says none.
const DEFAULT_MODE: u32 = 0o644;

/// Unpacks a zip archive.
pub(super) fn unpack(packed: BufReader<File>, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut archive = ZipArchive::new(packed).map_err(io::Error::other)?;
    for number in 0..archive.len() {
        let mut entry = archive.by_index(number).map_err(io::Error::other)?;
        let name = entry.name().map_err(io::Error::other)?.into_owned();
        let path = Path::new(&name);
        if entry.is_symlink() {
            let mut target = String::new();
            entry.by_ref().take(TARGET_BYTES_MAX).read_to_string(&mut target)?;
            sink.link(path, Path::new(&target))?;
        } else if entry.is_dir() {
            sink.dir(path)?;
        } else {
            let mode = entry.unix_mode().unwrap_or(DEFAULT_MODE);
            sink.file(path, mode, &mut entry)?;
        }
    }
    Ok(())
}
