//! Pauses a deployment, or continues it, at a user's request (N-15, R-7.99).

use model::deployment::{DeploymentStatus, DeploymentUpdate, description};
use wire::Refusal;
use wire::command::{Done, Handler, PauseDeployment};

use super::work::Work;

/// Either restarts the clock of the progress deadlines (N-13.2). A paused deployment needs no evaluation: it goes no further.
impl Handler<PauseDeployment> for Work<'_> {
    fn handle(&mut self, command: PauseDeployment) -> Result<Done, Refusal> {
        let PauseDeployment { id, pause } = command;
        let (status, description, forbidden) = match pause {
            true => (DeploymentStatus::Paused, description::PAUSED, "can't pause terminal deployment"),
            false => (DeploymentStatus::Running, description::RUNNING, "can't resume terminal deployment"),
        };
        let deployment = self.active_deployment(id, forbidden)?;
        self.set_deployment_status(&DeploymentUpdate { id, status, description: description.into() })?;
        if !pause {
            self.evaluate_deployment(&deployment)?;
        }
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
