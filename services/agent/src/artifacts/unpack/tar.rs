//! Tar archives.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use model::text::quoted;
use tar::Archive;

use super::Sink;

/// The longest path in a message, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// Unpacks a tar archive. Devices and pipes are refused.
pub(super) fn unpack(packed: impl Read, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut archive = Archive::new(packed);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path_bytes().into_owned();
        let path = Path::new(OsStr::from_bytes(&name));
        let kind = entry.header().entry_type();
        // Old archives have directories as files with a slash at the end.
        if kind.is_dir() || kind.is_file() && name.ends_with(b"/") {
            sink.dir(path)?;
        } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            let mode = entry.header().mode()?;
            sink.file(path, mode, &mut entry)?;
        } else if kind.is_symlink() || kind.is_hard_link() {
            let target = entry.link_name_bytes().map(Cow::into_owned).unwrap_or_default();
            let target = Path::new(OsStr::from_bytes(&target));
            if kind.is_symlink() {
                sink.link(path, target)?;
            } else {
                sink.copy(path, target)?;
            }
        } else if !kind.is_pax_global_extensions() {
            let shown: String = path.to_string_lossy().chars().take(SHOWN_CHARS_MAX).collect();
            let shown = quoted(&shown);
            return Err(io::Error::other(format!("{shown} is neither a file, a directory nor a link")));
        }
    }
    Ok(())
}
