//! Fails a deployment at a user's request (N-15).

use wire::command::{Done, FailDeployment};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

const MARKED: &str = "Deployment marked as failed";

pub(super) fn fail_deployment(work: &mut Work<'_>, command: FailDeployment) -> Result<Done, Refusal> {
    let Some(deployment) = work.state().deployment(command.id).cloned() else {
        return Err(refusal(RefusalKind::NotFound, "deployment not found"));
    };
    if deployment.status.is_terminal() {
        return Err(refusal(RefusalKind::Invalid, "can't fail terminal deployment"));
    }
    work.fail_deployment(&deployment, MARKED)?;
    Ok(Done { object_index: work.index(), ..Done::default() })
}
