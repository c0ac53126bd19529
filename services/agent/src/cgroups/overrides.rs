//! Groups that a job names instead of those that the agent makes (`cgroup_v1_override`, `cgroup_v2_override` of ). A
//! task enters them; whoever made them limits them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use model::text::quoted;

use super::hierarchy::Controller;
use super::partition::Version;
use super::task::{Group, TaskCgroup};

/// The groups that a job names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    /// With version 1: by controller.
    pub(crate) v1: BTreeMap<String, String>,
    /// With version 2.
    pub(crate) v2: Option<String>,
}

impl Overrides {
    /// Whether the job names none.
    pub(crate) fn is_empty(&self) -> bool {
        self.v1.is_empty() && self.v2.is_none()
    }
}

impl TaskCgroup {
    /// The groups of a task that enters those that its job names for the version of this node. With version 1, it keeps its
    /// own for controllers that the job does not name.
    ///
    /// # Errors
    /// If a group does not exist, or a controller is not known here.
    pub(crate) fn with_overrides(mut self, overrides: &Overrides) -> Result<Self, String> {
        let roots: Vec<PathBuf> = self.groups.iter().map(|group| root_of(group, &self.inner)).collect();
        match self.version {
            Version::V2 => {
                if let Some(path) = &overrides.v2 {
                    for (group, root) in self.groups.iter_mut().zip(&roots) {
                        replace(group, root, path).map_err(|error| format!("cgroup_v2_override: {error}"))?;
                    }
                }
            }
            Version::V1 => {
                for (name, path) in &overrides.v1 {
                    let is_named = |controller: &Controller| controller.as_str() == name;
                    let mut groups = self.groups.iter_mut().zip(&roots);
                    let found = groups.find(|(group, _)| group.controllers.iter().any(is_named));
                    let Some((group, root)) = found else {
                        let known = Controller::V1.map(Controller::as_str).join(", ");
                        return Err(format!(
                            "cgroup_v1_override: the agent uses no controller {} here; it can use {known}",
                            quoted(name)
                        ));
                    };
                    replace(group, root, path)
                        .map_err(|error| format!("cgroup_v1_override of {name}: {error}"))?;
                }
            }
        }
        Ok(self)
    }
}

/// Replaces a group by another one of the same hierarchy.
fn replace(group: &mut Group, root: &Path, path: &str) -> Result<(), String> {
    // The path may also begin with the directory where the hierarchy is mounted.
    let inner = Path::new(path).strip_prefix(root).unwrap_or(Path::new(path.trim_start_matches('/')));
    let is_plain = inner.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || inner.as_os_str().is_empty() {
        return Err(format!("{} is not the path of a cgroup", quoted(path)));
    }
    let dir = root.join(inner);
    if !dir.is_dir() {
        return Err(format!("there is no cgroup {}", dir.display()));
    }
    (group.dir, group.is_own) = (dir, false);
    Ok(())
}

/// The root of the hierarchy of a task's group.
fn root_of(group: &Group, inner: &Path) -> PathBuf {
    // A group that tasks share is the slice itself.
    let depth = inner.components().count() - usize::from(!group.is_own);
    group.dir.ancestors().nth(depth).unwrap_or(&group.dir).to_owned()
}
