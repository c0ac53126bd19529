//! Describes the isolation of a task. Pure: the executor carries the description out.
//!
//! What a task sees of the node is mounted, not copied or linked: a mount costs nothing, is always up to date, cannot be
//! written to, and gives no rights by its programs (set-uid bits have no effect in it).

use std::path::{Path, PathBuf};

use model::text::quoted;

use super::config::{Mode, Settings, Wanted};
use crate::account::Account;
use crate::disk::dirs::{LOGS, SHARED};
use crate::driver::start::{Device, Mount, Propagation, Start};
use crate::isolation::capabilities::Granted;
use crate::isolation::description::{Bind, Confinement, Isolation, Namespaces, Root, Sharing, Source, User};

/// Where a task sees the directory that it shares with the other tasks of its allocation, and its logs.
const SHARED_TARGET: &str = "/alloc";
const LOGS_TARGET: &str = "/alloc/logs";
/// The agent's own directory in that of the task.
const PRIVATE_TARGET: &str = "/private";
/// The files by which names are looked up.
const HOSTS: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Files of the node that hold secrets, and that no task sees, also if it may read everything.
const SECRET_PATHS: &[&str] = &[
    "/etc/drover",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssl/private",
    "/run/credentials",
];

/// The number of files that a process of a task may have open.
const OPEN_FILES: u64 = 65_536;

/// The isolation of a task.
///
/// # Errors
/// If the task asks for what it cannot have.
pub(super) fn describe(
    settings: &Settings,
    wanted: &Wanted,
    start: &Start,
    account: &Account,
) -> Result<Isolation, String> {
    let capabilities = Granted::of(settings.allow_caps, &wanted.cap_add, &wanted.cap_drop, account.uid == 0)?;
    let network = start.network.as_deref();
    let has_own_processes = wanted.pid_mode == Mode::Private;
    Ok(Isolation {
        namespaces: Namespaces {
            pid: has_own_processes,
            ipc: wanted.ipc_mode == Mode::Private,
            network: network.map(|network| network.namespace.clone()),
            cgroup: start.cgroup.is_some(),
        },
        hostname: network.and_then(|network| network.hostname.clone()),
        root: Root {
            alloc: start.dirs.alloc.clone(),
            dir: start.dirs.task.file_name().map(PathBuf::from).unwrap_or_default(),
            binds: binds(settings, start)?,
            masked: masked(settings),
            pivot: !settings.no_pivot_root,
        },
        confinement: Confinement {
            user: User { uid: account.uid, gid: account.gid, groups: account.groups.clone() },
            capabilities,
            may_trace: has_own_processes,
            open_files: Some((OPEN_FILES, OPEN_FILES)),
        },
    })
}

/// What is mounted into the root. The task's other directories are in it already.
fn binds(settings: &Settings, start: &Start) -> Result<Vec<Bind>, String> {
    let mut of_node: Vec<_> = settings.paths.iter().collect();
    // A directory comes before what is mounted in it.
    of_node.sort_by_key(|(_, target)| *target);
    let mut binds: Vec<Bind> = of_node
        .into_iter()
        .map(|(source, target)| Bind { optional: true, ..read_only(source.clone(), target) })
        .collect();
    if let Some(network) = start.network.as_deref() {
        let files = [(&network.hosts_file, HOSTS), (&network.resolv_conf, RESOLV_CONF)];
        let given = files.into_iter().filter_map(|(file, target)| Some((file.clone()?, target)));
        binds.extend(given.map(|(file, target)| read_only(file, Path::new(target))));
    }
    let own = |path: &str, target: &str, read_only| Bind {
        source: Source::Alloc(path.into()),
        target: target.into(),
        read_only,
        optional: false,
        device: false,
        sharing: Sharing::Private,
    };
    binds.extend([own(SHARED, SHARED_TARGET, false), own(LOGS, LOGS_TARGET, true)]);
    binds.extend(start.mounts.iter().map(mounted));
    for device in &start.devices {
        binds.push(of_device(device)?);
    }
    Ok(binds)
}

fn read_only(source: PathBuf, target: &Path) -> Bind {
    Bind {
        source: Source::Node(source),
        target: target.to_owned(),
        read_only: true,
        optional: false,
        device: false,
        sharing: Sharing::Private,
    }
}

fn mounted(mount: &Mount) -> Bind {
    Bind {
        read_only: mount.read_only,
        sharing: match mount.propagation {
            Propagation::Private => Sharing::Private,
            Propagation::HostToTask => Sharing::FromNode,
            Propagation::Bidirectional => Sharing::Both,
        },
        ..read_only(mount.source.clone(), &mount.target)
    }
}

fn of_device(device: &Device) -> Result<Bind, String> {
    let permits = |permission: char| device.permissions.contains(permission);
    if !(permits('r') && permits('w')) {
        return Err(format!(
            "device {}: the driver cannot take the right to read or to write from a task; use the permissions \
             \"rw\" or \"rwm\", not {}",
            device.source.display(),
            quoted(&device.permissions)
        ));
    }
    Ok(Bind { device: true, read_only: false, ..read_only(device.source.clone(), &device.target) })
}

/// The paths in the root that are covered: the agent's own, and secrets of the node where a path that the task sees
/// contains them.
fn masked(settings: &Settings) -> Vec<PathBuf> {
    let hidden = || SECRET_PATHS.iter().map(Path::new).chain([settings.data_dir.as_path()]);
    let inside = settings.paths.iter().flat_map(|(source, target)| {
        let relative = hidden().filter_map(move |path| path.strip_prefix(source).ok());
        relative.map(move |path| if path.as_os_str().is_empty() { target.clone() } else { target.join(path) })
    });
    [PathBuf::from(PRIVATE_TARGET)].into_iter().chain(inside).collect()
}

#[cfg(test)]
mod tests;
