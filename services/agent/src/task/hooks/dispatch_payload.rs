//! Writes the input of a dispatched job into the task's `local` directory.

use std::io::{self, Write as _};
use std::path::{Component, Path};

use async_trait::async_trait;

use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::disk::dirs::TaskDirs;
use crate::disk::store::{self, Durability};

/// Permissions of a dispatch payload, and of directories that are made for it.
const PAYLOAD_MODE: u32 = 0o644;
const PAYLOAD_DIR_MODE: u32 = 0o755;

/// The hook.
pub(super) struct DispatchPayload;

#[async_trait]
impl TaskHook for DispatchPayload {
    fn name(&self) -> &'static str {
        "dispatch_payload"
    }

    async fn prestart(&self, run: &TaskRun, _: &mut StartDraft) -> Result<(), HookError> {
        let (_, task) = run.job_parts()?;
        if let (Some(target), Some(payload)) = (&task.dispatch_payload, &run.spec.job.spec.payload) {
            // From the first start on, the file belongs to the task.
            let done = run.file(self.name());
            if done.exists() {
                return Ok(());
            }
            write_payload(&run.dirs, payload_file(&target.file)?, &payload.0)?;
            store::save(done, &true, Durability::Process).await?;
        }
        Ok(())
    }
}

/// The path of a dispatch payload in the task's `local` directory. A path that leads out of it is refused.
fn payload_file(name: &str) -> Result<&Path, HookError> {
    let file = Path::new(name);
    let plain = file.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !plain {
        return Err(HookError::invalid("dispatch payload: file escapes the task's directory"));
    }
    Ok(file)
}

/// Writes the payload. What a write that was interrupted has left is replaced.
fn write_payload(dirs: &TaskDirs, file: &Path, payload: &[u8]) -> io::Result<()> {
    let mut dir = dirs.open_local()?;
    for part in file.parent().into_iter().flatten() {
        dir = dir.make(part, PAYLOAD_DIR_MODE)?;
    }
    let name = file.file_name().unwrap_or_default();
    let mut file = match dir.create_new(name, PAYLOAD_MODE) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            dir.remove_file(name)?;
            dir.create_new(name, PAYLOAD_MODE)?
        }
        created => created?,
    };
    file.write_all(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_goes_into_the_tasks_directory_only() {
        for name in ["", "../x", "/etc/passwd", "a/../../x"] {
            assert!(payload_file(name).is_err(), "{name}");
        }
        let parent = tempfile::tempdir().unwrap();
        let allocation = crate::disk::dirs::AllocDirs::new(parent.path().join("7"));
        allocation.build().unwrap();
        let dirs = allocation.task("web");
        dirs.build(&crate::testing::secrets()).unwrap();
        let write =
            |name, text: &str| write_payload(&dirs, payload_file(name).ok().unwrap(), text.as_bytes());
        write("in/put", "first").unwrap();
        write("in/put", "second").unwrap();
        assert_eq!(std::fs::read_to_string(dirs.local.join("in/put")).unwrap(), "second");
        std::os::unix::fs::symlink(parent.path(), dirs.local.join("away")).unwrap();
        write("away/put", "third").unwrap_err();
        assert!(!parent.path().join("put").exists());
    }
}
