//! The files of templates, in the directory of their allocation. Tasks can replace what is there at any time, so everything
//! is done relative to open directories, and nothing is written through a link.

use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, fchown};
use std::path::Path;

use nix::fcntl::OFlag;

use super::plan::Plan;
use crate::disk::tree::{Links, OpenDir, explained};

/// Permissions of directories that are made for a file.
const DIR_MODE: u32 = 0o755;
/// Permissions of a file until it is complete.
const PARTIAL_MODE: u32 = 0o600;
/// The end of the name of a file until it is complete.
const PARTIAL: &str = ".drover-partial";
/// How files are opened: a pipe does not wait for a writer, and a terminal is not taken over.
const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);

/// Writes the file of a template completely, or not at all.
pub(super) fn write(alloc: &OpenDir, plan: &Plan, text: &str) -> io::Result<()> {
    let place = &plan.destination;
    let name = place.file_name().ok_or_else(|| io::Error::other("the destination has no name"))?;
    let mut parents = place.parent().into_iter().flatten();
    let Some(first) = parents.next() else { return write_in(alloc, name.as_ref(), plan, text) };
    let mut dir = alloc.make(first, DIR_MODE)?;
    for part in parents {
        dir = dir.make(part, DIR_MODE)?;
    }
    write_in(&dir, name.as_ref(), plan, text)
}

fn write_in(dir: &OpenDir, name: &Path, plan: &Plan, text: &str) -> io::Result<()> {
    let mut partial = name.as_os_str().to_owned();
    partial.push(PARTIAL);
    let mut file = match dir.create_new(&partial, PARTIAL_MODE) {
        // A write was interrupted.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            dir.remove_file(&partial)?;
            dir.create_new(&partial, PARTIAL_MODE)?
        }
        created => created?,
    };
    let written = file.write_all(text.as_bytes()).and_then(|()| finish(&file, plan));
    match written.and_then(|()| dir.rename(&partial, name)) {
        Ok(()) => Ok(()),
        Err(error) => {
            // The error of the write is the one to report.
            let _ = dir.remove_file(&partial);
            Err(error)
        }
    }
}

fn finish(file: &File, plan: &Plan) -> io::Result<()> {
    if plan.uid.is_some() || plan.gid.is_some() {
        fchown(file, plan.uid, plan.gid)?;
    }
    file.set_permissions(Permissions::from_mode(plan.perms))
}

/// Reads a text file of the allocation. Links are followed if they stay inside.
///
/// # Errors
/// If it is not a file, is too long, or is no text.
pub(super) fn read(alloc: &OpenDir, place: &Path, bytes_max: usize) -> Result<String, String> {
    let opened = alloc.open_beneath(place, READ, Links::Inside);
    let file = opened.map_err(|errno| explained(place, errno).to_string())?;
    read_text(file, bytes_max)
}

/// Reads a text file of the node.
///
/// # Errors
/// As with [`read`].
pub(super) fn read_of_node(path: &Path, bytes_max: usize) -> Result<String, String> {
    let opened = nix::fcntl::open(path, READ | OFlag::O_CLOEXEC, nix::sys::stat::Mode::empty());
    let file = opened.map_err(|errno| io::Error::from(errno).to_string())?;
    read_text(File::from(file), bytes_max)
}

fn read_text(file: File, bytes_max: usize) -> Result<String, String> {
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > bytes_max {
        return Err(format!("it is longer than {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not a text in UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::super::plan::{Mode, Source};
    use super::*;
    use crate::node::templates::Wait;

    fn to(destination: &str) -> Plan {
        Plan {
            source: Source::Inline("x".into()),
            destination: PathBuf::from(destination),
            shown: destination.to_owned(),
            delimiters: ("{{".into(), "}}".into()),
            error_on_missing_key: false,
            perms: 0o640,
            uid: None,
            gid: None,
            env: false,
            once: false,
            mode: Mode::Noop,
            splay: Duration::ZERO,
            wait: Wait::default(),
        }
    }

    #[test]
    fn a_file_is_replaced_completely() {
        let dir = tempfile::tempdir().unwrap();
        let alloc = OpenDir::open(dir.path()).unwrap();
        // What a write that was interrupted has left.
        fs::create_dir_all(dir.path().join("web/local/in")).unwrap();
        fs::write(dir.path().join("web/local/in/a.drover-partial"), "cut off").unwrap();
        for text in ["first", "second"] {
            write(&alloc, &to("web/local/in/a"), text).unwrap();
            let file = dir.path().join("web/local/in/a");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
        }
        assert_eq!(fs::read_dir(dir.path().join("web/local/in")).unwrap().count(), 1);
        write(&alloc, &to("web/new/b"), "third").unwrap();
        assert_eq!(read(&alloc, Path::new("web/new/b"), 5), Ok("third".to_owned()));
        assert_eq!(read(&alloc, Path::new("web/new/b"), 4), Err("it is longer than 4 bytes".to_owned()));
    }

    #[test]
    fn nothing_is_written_or_read_outside() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["alloc/web", "outside"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let outside = dir.path().join("outside");
        fs::write(outside.join("secret"), "s").unwrap();
        symlink(&outside, dir.path().join("alloc/web/away")).unwrap();
        symlink(outside.join("secret"), dir.path().join("alloc/web/file")).unwrap();
        let alloc = OpenDir::open(&dir.path().join("alloc")).unwrap();
        write(&alloc, &to("web/away/a"), "x").unwrap_err();
        // A link is replaced, and not followed.
        write(&alloc, &to("web/file"), "x").unwrap();
        assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "s");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        read(&alloc, Path::new("web/away/secret"), 10).unwrap_err();
        assert_eq!(read(&alloc, Path::new("web"), 10), Err("it is not a file".to_owned()));
    }
}
