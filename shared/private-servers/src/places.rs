//! What the servers need of the machine: users, directories, ports, chance.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, lchown, symlink},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{Flock, FlockArg, OFlag},
    unistd::{Uid, User},
};

use crate::error::Error;

/// Below Linux's ephemeral ports: while a killed server is down, no outgoing connection may be given its port, a
/// client's connection to that very port least of all.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// More are never taken in a row unless something else is wrong.
const PORTS_TRIED: u32 = 100;
/// Keeps its files over a reboot, and everybody may enter it.
const FOR_EVERYBODY: &str = "/var/tmp";
/// Of a server's log in an error, in bytes.
const LOG_TAIL: usize = 4096;

/// Who runs PostgreSQL when this process is root; nobody else when it is not.
pub(crate) fn postgres_user() -> Result<Option<User>, Error> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let known = |name| User::from_name(name).ok().flatten();
    known("postgres").or_else(|| known("nobody")).map(Some).ok_or(Error::NoUser)
}

/// A directory for `name` in `dir`, made if need be and owned by `user`. Where `dir` is out of that user's reach, the
/// directory is elsewhere and `dir/name` a link to it.
pub(crate) fn home(dir: &Path, name: &str, user: Option<&User>) -> Result<PathBuf, Error> {
    fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
    let dir = dir.canonicalize().map_err(Error::file("find", dir))?;
    let home = dir.join(name);
    if home.is_dir() {
        return home.canonicalize().map_err(Error::file("find", home));
    }
    if fs::symlink_metadata(&home).is_ok() {
        // A link whose directory was cleaned away.
        fs::remove_file(&home).map_err(Error::file("remove", &home))?;
    }
    if user.is_none_or(|user| may_enter(user, &dir)) {
        make_private(&home, user)?;
        return Ok(home);
    }
    let elsewhere = Path::new(FOR_EVERYBODY).join(unique_name(name)?);
    make_private(&elsewhere, user)?;
    symlink(&elsewhere, &home).map_err(Error::file("make the link", &home))?;
    Ok(elsewhere)
}

/// A path for a temporary directory that nothing has yet and `user` can reach.
pub(crate) fn temporary(name: &str, user: Option<&User>) -> Result<PathBuf, Error> {
    let within = env::temp_dir();
    let within = within.canonicalize().map_err(Error::file("find", within))?;
    let reachable = user.is_none_or(|user| may_enter(user, &within));
    let within = if reachable { within } else { PathBuf::from(FOR_EVERYBODY) };
    Ok(within.join(unique_name(name)?))
}

fn unique_name(name: &str) -> Result<String, Error> {
    Ok(format!("drover-{name}-{}", &password()?[..16]))
}

/// Makes a directory that only `user` may enter. It must be new: in a place that everybody may write to, what is
/// already there is somebody else's.
pub(crate) fn make_private(path: &Path, user: Option<&User>) -> Result<(), Error> {
    DirBuilder::new().mode(0o700).create(path).map_err(Error::file("make", path))?;
    give(path, user)
}

/// Hands a file or directory to `user`.
pub(crate) fn give(path: &Path, user: Option<&User>) -> Result<(), Error> {
    let Some(user) = user else { return Ok(()) };
    lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(Error::file("hand over", path))
}

/// Writes a file that only `user` may read. In a directory of that user's we follow no link, who may be root.
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
    give(path, user)
}

/// Removes a file if it is there.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Whether `user` may pass through every directory down to `path`, which is absolute and free of links.
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

/// Held while this process may run a server in a directory; the system lets go of it when the process dies.
pub(crate) fn lock(home: &Path) -> Result<Flock<File>, Error> {
    let path = home.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(Error::file("open", path))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| Error::InUse { path: home.to_owned() })
}

/// A port on 127.0.0.1 that nobody listened on a moment ago.
pub(crate) fn free_port(server: &'static str) -> Result<u16, Error> {
    let mut port = PORTS.start;
    for _ in 0..PORTS_TRIED {
        let [high, low] = random()?;
        port = PORTS.start + u16::from_be_bytes([high, low]) % (PORTS.end - PORTS.start);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::PortTaken { server, port })
}

/// 128 bits of chance, in hexadecimal digits: they need no escaping in a URL.
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

/// Puts the log of an earlier run aside, so that logs do not grow for ever.
pub(crate) fn turn_log(log: &Path) -> Result<(), Error> {
    match fs::rename(log, log.with_extension("log.1")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("rename", log)(error)),
        _ => Ok(()),
    }
}

/// The last lines of a log, for an error.
pub(crate) fn log_tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let from = bytes.len().saturating_sub(LOG_TAIL);
    String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
}

/// Whether a server's log says that its port was another's.
pub(crate) fn port_was_taken(log: &str) -> bool {
    log.to_ascii_lowercase().contains("address already in use")
}
