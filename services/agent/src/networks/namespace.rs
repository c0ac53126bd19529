//! Network namespaces that outlive the processes in them: each is mounted on a file.
//!
//! A thread that unshares its network namespace makes a new one and mounts it; the thread then ends. There is no process
//! that holds the namespace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{FsType, statfs};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;

use super::netlink;

/// The namespace of the thread that reads the link.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";
/// The type of the kernel's file system of namespaces.
const NSFS: FsType = FsType(0x6e73_6673);
/// Permissions of the file that a namespace is mounted on.
const FILE_MODE: u32 = 0o600;

/// Makes a namespace with a loopback interface, and mounts it on a file. Whatever was there before is removed.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    remove(path)?;
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    let target = path.to_owned();
    in_new_namespace(move || {
        netlink::start_loopback()?;
        let none = None::<&str>;
        Ok(mount(Some(OWN_NAMESPACE), target.as_path(), none, MsFlags::MS_BIND, none)?)
    })
}

/// Mounts a namespace on a file that somebody else has made. Whatever was there before is removed.
pub(crate) fn adopt(path: &Path, made: &Path) -> io::Result<()> {
    remove(path)?;
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    let none = None::<&str>;
    Ok(mount(Some(made), path, none, MsFlags::MS_BIND, none)?)
}

/// Whether the namespace that is mounted on a file is this one.
pub(crate) fn is_same(path: &Path, made: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    exists(path) && id(path).is_some_and(|found| Some(found) == id(made))
}

/// Whether a namespace is mounted on a file. The files stay when the machine starts again, but the namespaces do not.
pub(crate) fn exists(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == NSFS)
}

/// Unmounts a namespace and removes its file, if they exist. The namespace ends with the last process in it.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    loop {
        match umount2(path, MntFlags::MNT_DETACH) {
            // There may be another mount below it.
            Ok(()) => {}
            // Nothing is mounted there, or this process may mount nothing.
            Err(Errno::EINVAL | Errno::ENOENT | Errno::EPERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Whether the kernel makes bridges for this process.
pub(crate) fn has_bridges() -> io::Result<()> {
    in_new_namespace(netlink::add_bridge)
}

/// Makes a TCP socket in the namespace that is mounted on a file, for connections to an address. The socket belongs to that
/// namespace, whatever thread uses it. The namespace is entered by a thread that ends with the work.
pub(crate) async fn tcp_socket(path: &Path, address: SocketAddr) -> io::Result<TcpSocket> {
    let path = path.to_owned();
    let (made, socket) = oneshot::channel();
    thread::Builder::new().name("netns".into()).spawn(move || {
        let socket = File::open(&path).and_then(|namespace| {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))
        });
        // Fails if the caller has stopped waiting.
        let _ = made.send(socket);
    })?;
    let socket = socket.await.map_err(|_| io::Error::other("the thread that made a socket panicked"))??;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

/// Runs a function on a thread of its own, in a namespace that ends with the thread, unless it is mounted.
fn in_new_namespace(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("netns".into()).spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        work()
    })?;
    thread.join().map_err(|_| io::Error::other("the thread that made a network namespace panicked"))?
}
