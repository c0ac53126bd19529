//! The agent's own place in the hierarchies: the group that contains those of all tasks, with the controllers that they
//! need.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use telemetry::chain;

use super::files::{explained, make, read, write};
use super::hierarchy::Controller;
use super::partition::{RESERVE, SHARE};

/// The group of the agent's own processes, where they may not stay in the group above.
const AGENT: &str = "agent";

const CONTROLLERS: &str = "cgroup.controllers";
const SUBTREE_CONTROL: &str = "cgroup.subtree_control";
const PROCESSES: &str = "cgroup.procs";
/// Every group has this file but the root of the machine.
const TYPE: &str = "cgroup.type";

/// The place for the groups of tasks in a hierarchy of version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The parent of the slices.
    pub(super) parent: PathBuf,
    /// The controllers that groups of tasks have.
    pub(super) controllers: Vec<Controller>,
}

/// Whether a hierarchy of version 2 has controllers. If version 1 is mounted beside it, that may have all of them.
pub(super) fn has_controllers(mount: &Path) -> bool {
    read(mount, CONTROLLERS).is_ok_and(|list| Controller::V2.iter().any(|controller| has(&list, *controller)))
}

/// Makes the place below the root of the hierarchy or, if this process may not write there, below its own group, which a
/// service manager may have delegated to it.
pub(super) fn prepare_v2(mount: &Path, own: Option<&Path>, name: &Path) -> io::Result<Place> {
    let at_root = prepare_below(mount, name);
    match (at_root, own.filter(|own| !own.as_os_str().is_empty())) {
        (Err(error), Some(own)) if is_forbidden(&error) => {
            // An earlier agent of the same service has made a group for itself, or systemd has (`DelegateSubgroup`).
            let own = if own.ends_with(AGENT) { own.parent().unwrap_or(own) } else { own };
            prepare_below(&mount.join(own), name).map_err(|delegated| {
                io::Error::new(delegated.kind(), format!("{error}; in the agent's own group: {delegated}"))
            })
        }
        (outcome, _) => outcome,
    }
}

/// Whether this process may not write there. Another place may do.
pub(super) fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn prepare_below(base: &Path, name: &Path) -> io::Result<Place> {
    let parent = base.join(name);
    for slice in [SHARE, RESERVE] {
        let dir = parent.join(slice);
        fs::create_dir_all(&dir).map_err(|error| explained(&dir, &error))?;
    }
    // Each group can pass on what the one above has passed on to it.
    let list = read(base, CONTROLLERS)?;
    let mut controllers: Vec<_> =
        Controller::V2.into_iter().filter(|controller| has(&list, *controller)).collect();
    let slices = [parent.join(SHARE), parent.join(RESERVE)];
    let mut levels: Vec<&Path> = parent.ancestors().take_while(|dir| *dir != base).collect();
    levels.push(base);
    levels.reverse();
    levels.extend(slices.iter().map(PathBuf::as_path));
    for dir in levels {
        controllers = pass_on(dir, &controllers, dir == base)?;
    }
    Ok(Place { parent, controllers })
}

/// Lets the groups below a group have controllers. Returns those that they have.
fn pass_on(dir: &Path, controllers: &[Controller], is_base: bool) -> io::Result<Vec<Controller>> {
    let passed = read(dir, SUBTREE_CONTROL)?;
    let mut available = Vec::new();
    for controller in controllers {
        let enabled = if has(&passed, *controller) { Ok(()) } else { enable(dir, *controller, is_base) };
        match enabled {
            Ok(()) => available.push(*controller),
            Err(error) => tracing::warn!(
                controller = controller.as_str(),
                dir = %dir.display(),
                error = chain(&error),
                "a controller cannot be passed on to the cgroups of tasks"
            ),
        }
    }
    Ok(available)
}

fn enable(dir: &Path, controller: Controller, is_base: bool) -> io::Result<()> {
    let value = format!("+{}", controller.as_str());
    match write(dir, SUBTREE_CONTROL, &value) {
        // A group that passes on controllers may have no processes, except for the root of the machine, whose processes
        // stay where they are.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && is_base && dir.join(TYPE).exists() => {
            vacate(dir)?;
            write(dir, SUBTREE_CONTROL, &value)
        }
        outcome => outcome,
    }
}

/// Moves the processes of the agent's own group, or of the root of its container, into a group below.
fn vacate(dir: &Path) -> io::Result<()> {
    let agent = dir.join(AGENT);
    make(&agent)?;
    for pid in read(dir, PROCESSES)?.lines() {
        match write(&agent, PROCESSES, pid) {
            Ok(()) => {}
            // It has ended.
            Err(_) if !holds(dir, pid) => {}
            Err(error) => return Err(error),
        }
    }
    tracing::info!(cgroup = %agent.display(), "moved the processes of this service into a cgroup of their own");
    Ok(())
}

/// Whether a process is still in a group.
fn holds(dir: &Path, pid: &str) -> bool {
    read(dir, PROCESSES).is_ok_and(|list| list.lines().any(|line| line == pid))
}

/// Makes the place in every hierarchy of version 1. Returns the parents of the slices; a hierarchy in which it cannot be
/// made is left out.
pub(super) fn prepare_v1(
    mounts: &BTreeMap<Controller, PathBuf>,
    name: &Path,
) -> io::Result<BTreeMap<Controller, PathBuf>> {
    let mut parents = BTreeMap::new();
    let mut failure = None;
    for (controller, mount) in mounts {
        let parent = mount.join(name);
        let made = [SHARE, RESERVE].into_iter().try_for_each(|slice| {
            let dir = parent.join(slice);
            fs::create_dir_all(&dir).map_err(|error| explained(&dir, &error))
        });
        match made {
            Ok(()) => {
                parents.insert(*controller, parent);
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if parents.is_empty() => Err(error),
        Some(error) => {
            tracing::warn!(error = chain(&error), "some hierarchies of cgroups cannot be used");
            Ok(parents)
        }
        None => Ok(parents),
    }
}

fn has(list: &str, controller: Controller) -> bool {
    list.split_whitespace().any(|name| name == controller.as_str())
}
