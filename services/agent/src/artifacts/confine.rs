//! What the fetcher gives up before it opens a connection.

use std::io;
use std::path::{Path, PathBuf};

use nix::sys::prctl::set_no_new_privs;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, chdir, fchdir, geteuid, setgroups, setresgid, setresuid};
use serde::{Deserialize, Serialize};

use super::{Limits, WORK};
use crate::account::Account;
use crate::disk::tree::OpenDir;
use crate::isolation::capabilities::{CapabilitySet, Granted};
use crate::isolation::description::{Bind, Confinement, Namespaces, Root, Sharing, Source, User};
use crate::isolation::{confine, namespaces, root, support};

/// The paths of the node that the fetcher sees: programs and libraries, certificates, and how names are looked up.
const NODE_PATHS: [&str; 9] =
    ["/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr"];
/// The number of files that the fetcher and its children may have open.
const OPEN_FILES_MAX: u64 = 1_024;
/// The memory that the fetcher, and each of its children, may have, in bytes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// The user of the fetcher where the agent is root.
const USER: &str = "nobody";

/// What the fetcher gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sandbox {
    /// It has the staging directory as its root, another user, no capabilities, and a filter of system calls.
    Isolated {
        /// The user's id.
        uid: u32,
        /// The group's id.
        gid: u32,
        /// Whether the node's root is unmounted, and not only covered.
        pivot: bool,
    },
    /// It has another user and no capabilities: the node cannot isolate processes.
    User {
        /// The user's id.
        uid: u32,
        /// The group's id.
        gid: u32,
    },
    /// It has the agent's user, who is not root.
    Own,
}

impl Sandbox {
    /// The strictest that this process can give. Where the node's root cannot be unmounted, it is only covered
    /// (`no_pivot_root`).
    ///
    /// # Errors
    /// If this process is root, and the node has no other user for it.
    pub(crate) fn available(no_pivot_root: bool) -> Result<Self, String> {
        if !geteuid().is_root() {
            return Ok(Self::Own);
        }
        let Account { uid, gid, .. } = Account::find(USER)?;
        Ok(if support::check().is_ok() {
            Self::Isolated { uid, gid, pivot: !no_pivot_root }
        } else {
            Self::User { uid, gid }
        })
    }

    /// The user and group that the staging directory belongs to; `None` is the agent's own.
    pub(crate) fn owner(self) -> Option<(u32, u32)> {
        match self {
            Self::Isolated { uid, gid, .. } | Self::User { uid, gid } => Some((uid, gid)),
            Self::Own => None,
        }
    }
}

/// Confines this process. Its working directory is the one that it may write to.
pub(super) fn enter(sandbox: Sandbox, staging: &Path, limits: &Limits) -> io::Result<()> {
    limit(limits)?;
    match sandbox {
        Sandbox::Isolated { uid, gid, pivot } => {
            isolate(staging, User { uid, gid, groups: vec![gid] }, pivot)
        }
        Sandbox::User { uid, gid } => {
            fchdir(OpenDir::open(staging)?.dir(WORK)?)?;
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            setgroups(&[gid])?;
            setresgid(gid, gid, gid)?;
            setresuid(uid, uid, uid)?;
            Ok(set_no_new_privs()?)
        }
        Sandbox::Own => {
            fchdir(OpenDir::open(staging)?.dir(WORK)?)?;
            confine::set_umask();
            Ok(set_no_new_privs()?)
        }
    }
}

/// Sets the kernel's limits of this process and its children.
fn limit(limits: &Limits) -> io::Result<()> {
    let largest = limits.download_bytes.max(limits.unpacked_bytes).saturating_add(1);
    for (resource, wanted) in [
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_DATA, MEMORY_BYTES_MAX),
        (Resource::RLIMIT_FSIZE, largest),
        (Resource::RLIMIT_NOFILE, OPEN_FILES_MAX),
    ] {
        let (_, hard) = getrlimit(resource)?;
        let value = wanted.min(hard);
        setrlimit(resource, value, value)?;
    }
    Ok(())
}

/// Makes the staging directory the root of this process, and gives up all rights.
fn isolate(staging: &Path, user: User, pivot: bool) -> io::Result<()> {
    confine::hide()?;
    let namespaces = Namespaces { pid: false, ipc: false, network: None, cgroup: false };
    namespaces::enter_new(&namespaces, None)?;
    let no_place = || io::Error::other("the staging directory has no parent");
    let bind = |path: &&str| Bind {
        source: Source::Node(PathBuf::from(path)),
        target: PathBuf::from(path),
        read_only: true,
        optional: true,
        device: false,
        sharing: Sharing::Private,
    };
    let root = Root {
        alloc: staging.parent().ok_or_else(no_place)?.to_owned(),
        dir: staging.file_name().ok_or_else(no_place)?.into(),
        binds: NODE_PATHS.iter().map(bind).collect(),
        masked: Vec::new(),
        pivot,
    };
    root::enter(&root, &namespaces)?;
    chdir(&Path::new("/").join(WORK))?;
    confine::confine(&Confinement {
        user,
        capabilities: Granted {
            bounding: CapabilitySet::EMPTY,
            held: CapabilitySet::EMPTY,
            required: CapabilitySet::EMPTY,
        },
        may_trace: false,
        open_files: None,
    })
}
