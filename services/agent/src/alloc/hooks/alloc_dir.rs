//! Creates the allocation's directory.

use async_trait::async_trait;

use super::{AllocHook, AllocRun, AllocSetup, HookError};
use crate::task::check_name;

/// The hook.
pub(super) struct AllocDir;

#[async_trait]
impl AllocHook for AllocDir {
    fn name(&self) -> &'static str {
        "alloc_dir"
    }

    async fn prerun(&self, alloc: &AllocRun, _: &mut AllocSetup) -> Result<(), HookError> {
        for task in &alloc.group()?.tasks {
            check_name(&task.name).map_err(HookError::unrecoverable)?;
        }
        let built = alloc.dirs().build();
        built.map_err(|error| {
            HookError::unrecoverable(format!("cannot create the allocation's directory: {error}"))
        })
    }
}
