//! Mounts the group's host volumes into a task. A volume that the node does not have fails the start.

use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use model::job::{PropagationMode, VolumeKind, VolumeMount, VolumeRequest};
use model::text::quoted;

use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::driver::start::{Mount, Propagation};
use crate::task::interpolation::Interpolator;

/// The hook.
pub(super) struct Volumes;

#[async_trait]
impl TaskHook for Volumes {
    fn name(&self) -> &'static str {
        "volumes"
    }

    async fn prestart(&self, run: &TaskRun, draft: &mut StartDraft) -> Result<(), HookError> {
        let (group, task) = run.job_parts()?;
        for mount in &task.volume_mounts {
            let mut interpolator = Interpolator::new(&run.context.node);
            let mut filled = |text: &str| {
                let filled = interpolator.fill(text, &draft.env);
                filled.map_err(|error| HookError::unrecoverable(format!("volume_mount {error}")))
            };
            let (volume, destination) = (filled(&mount.volume)?, filled(&mount.destination)?);
            let Some(request) = group.volumes.get(&*volume) else {
                let text = format!("the group has no volume {}", quoted(&volume));
                return Err(HookError::unrecoverable(text));
            };
            let bound = bound(run, request, mount, &destination)?;
            draft.mounts.push(bound);
        }
        Ok(())
    }
}

/// The mount of a host volume that the node has.
fn bound(
    run: &TaskRun,
    request: &VolumeRequest,
    mount: &VolumeMount,
    destination: &str,
) -> Result<Mount, HookError> {
    if request.kind != VolumeKind::Host {
        return Err(HookError::unrecoverable("volumes of CSI plugins are not built into this agent"));
    }
    // A volume of each allocation has the allocation's index in its name.
    let name = match request.per_alloc {
        true => format!("{}[{}]", request.source, run.spec.work.name_index.unwrap_or_default()),
        false => request.source.to_string(),
    };
    let Some(volume) = run.context.volumes.named(&name) else {
        return Err(HookError::recoverable(format!("no host volume {} on this node", quoted(&name))));
    };
    if !Path::new(&*volume.path).exists() {
        let text = format!("host volume {} is not there: {}", quoted(&name), quoted(&volume.path));
        return Err(HookError::recoverable(text));
    }
    Ok(Mount {
        source: PathBuf::from(&*volume.path),
        target: target(destination).map_err(HookError::unrecoverable)?,
        read_only: request.read_only || mount.read_only || volume.read_only,
        propagation: match mount.propagation_mode {
            None | Some(PropagationMode::Private) => Propagation::Private,
            Some(PropagationMode::HostToTask) => Propagation::HostToTask,
            Some(PropagationMode::Bidirectional) => Propagation::Bidirectional,
        },
        selinux_label: mount.selinux_label.to_string(),
    })
}

/// The path in the task. A relative one begins at the task's root.
fn target(destination: &str) -> Result<PathBuf, String> {
    let mut target = PathBuf::from("/");
    for part in Path::new(destination).components() {
        match part {
            Component::Normal(name) => target.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(format!("volume_mount destination {} must not contain ..", quoted(destination)));
            }
        }
    }
    if target.parent().is_none() {
        return Err(format!("volume_mount destination {} names no directory", quoted(destination)));
    }
    Ok(target)
}

#[cfg(test)]
mod tests;
