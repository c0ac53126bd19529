//! The servers' use of the host: users, directories, ports, random bytes.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, lchown, symlink},
    path::{Path, PathBuf},
};

use dir_lock::DirLock;
use nix::{
    fcntl::OFlag,
    unistd::{Uid, User},
};

use crate::error::Error;

/// Below Linux's ephemeral ports. Otherwise an outgoing connection might get the port of a killed server while that
/// server is down, for instance a client's connection to that very port.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Maximum number of ports to try. So many occupied ports in a row mean that something else is wrong.
const PORTS_TRIED_MAX: u32 = 100;
/// A directory that keeps its files over a reboot, and that every user may enter.
const SHARED_DIR: &str = "/var/tmp";
/// Maximum size of the end of a server's log in an error, in bytes.
const LOG_TAIL: usize = 4096;

/// The user that runs PostgreSQL if this process is root; otherwise `None`.
pub(crate) fn postgres_user() -> Result<Option<User>, Error> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let known = |name| User::from_name(name).ok().flatten();
    known("postgres").or_else(|| known("nobody")).map(Some).ok_or(Error::NoUser)
}

/// Returns the directory `name` in `dir`, and creates it if necessary, with `user` as its owner. If `user` cannot reach
/// `dir`, the directory is created elsewhere, and `dir/name` links to it.
pub(crate) fn server_dir(dir: &Path, name: &str, user: Option<&User>) -> Result<PathBuf, Error> {
    fs::create_dir_all(dir).map_err(Error::file("create", dir))?;
    let dir = dir.canonicalize().map_err(Error::file("find", dir))?;
    let home = dir.join(name);
    if home.is_dir() {
        return home.canonicalize().map_err(Error::file("find", home));
    }
    if fs::symlink_metadata(&home).is_ok() {
        // A link whose target was removed.
        fs::remove_file(&home).map_err(Error::file("remove", &home))?;
    }
    if user.is_none_or(|user| may_enter(user, &dir)) {
        create_private_dir(&home, user)?;
        return Ok(home);
    }
    let elsewhere = Path::new(SHARED_DIR).join(unique_name(name)?);
    create_private_dir(&elsewhere, user)?;
    symlink(&elsewhere, &home).map_err(Error::file("create the link", &home))?;
    Ok(elsewhere)
}

/// A path for a temporary directory that does not exist yet and that `user` can reach. It is in `parent`, or in the
/// system's directory for temporary files.
pub(crate) fn temporary_path(
    name: &str,
    user: Option<&User>,
    parent: Option<&Path>,
) -> Result<PathBuf, Error> {
    let parent = parent.map_or_else(env::temp_dir, Path::to_owned);
    let parent = parent.canonicalize().map_err(Error::file("find", parent))?;
    let reachable = user.is_none_or(|user| may_enter(user, &parent));
    let parent = if reachable { parent } else { PathBuf::from(SHARED_DIR) };
    Ok(parent.join(unique_name(name)?))
}

fn unique_name(name: &str) -> Result<String, Error> {
    Ok(format!("drover-{name}-{}", &password()?[..16]))
}

/// Creates a directory that only `user` may enter. It must not exist: in a directory that every user may write to, an
/// existing directory may belong to another user.
pub(crate) fn create_private_dir(path: &Path, user: Option<&User>) -> Result<(), Error> {
    DirBuilder::new().mode(0o700).create(path).map_err(Error::file("create", path))?;
    change_owner(path, user)
}

/// Makes `user` the owner of a file or directory.
pub(crate) fn change_owner(path: &Path, user: Option<&User>) -> Result<(), Error> {
    let Some(user) = user else { return Ok(()) };
    lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
        .map_err(Error::file("change the owner of", path))
}

/// Writes a file that only `user` may read. It follows no link: this process may be root, and the directory may belong
/// to `user`.
pub(crate) fn write_private(path: &Path, content: &str, user: Option<&User>) -> Result<(), Error> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .map_err(Error::file("write", path))?;
    change_owner(path, user)
}

/// Removes a file if it exists.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Whether `user` may enter every directory on the way to `path`, which must be absolute and without links.
fn may_enter(user: &User, path: &Path) -> bool {
    path.ancestors().all(|directory| {
        let Ok(metadata) = fs::metadata(directory) else { return false };
        let bit = match (metadata.uid(), metadata.gid()) {
            (owner, _) if owner == user.uid.as_raw() => 0o100,
            (_, group) if group == user.gid.as_raw() => 0o010,
            _ => 0o001,
        };
        metadata.mode() & bit != 0
    })
}

/// Locks a server's directory for this process.
pub(crate) fn lock(home: &Path) -> Result<DirLock, Error> {
    DirLock::try_acquire(home).map_err(|error| match error {
        dir_lock::Error::InUse { .. } => Error::InUse { path: home.to_owned() },
        dir_lock::Error::Io { source, .. } => Error::file("lock", home)(source),
    })
}

/// A port on 127.0.0.1 that was free a moment ago.
pub(crate) fn free_port(server: &'static str) -> Result<u16, Error> {
    let mut port = PORTS.start;
    for _ in 0..PORTS_TRIED_MAX {
        let [high, low] = random()?;
        port = PORTS.start + u16::from_be_bytes([high, low]) % (PORTS.end - PORTS.start);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::PortTaken { server, port })
}

/// 128 random bits as hexadecimal digits, which need no escaping in a URL.
pub(crate) fn password() -> Result<String, Error> {
    Ok(random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::file("read", "/dev/urandom"))?;
    Ok(bytes)
}

/// Renames the log of an earlier run, so that logs do not grow forever.
pub(crate) fn rotate_log(log: &Path) -> Result<(), Error> {
    match fs::rename(log, log.with_extension("log.1")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("rename", log)(error)),
        _ => Ok(()),
    }
}

/// The end of a log, for an error.
pub(crate) fn log_tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let from = bytes.len().saturating_sub(LOG_TAIL);
    String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
}

/// Whether a server's log reports that its port was in use.
pub(crate) fn port_was_taken(log: &str) -> bool {
    log.to_ascii_lowercase().contains("address already in use")
}
