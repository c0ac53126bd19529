//! Fails a deployment: at a user's request (N-15), or because something else requires it. The job may return to its latest
//! stable version (N-14.9, R-7.97).

use std::sync::Arc;

use model::deployment::{Deployment, DeploymentStatus, DeploymentUpdate, description};
use model::job::Job;
use state::State;
use wire::Refusal;
use wire::command::{Done, FailDeployment, Handler};

use super::submissions::NewSource;
use super::work::Work;

impl Handler<FailDeployment> for Work<'_> {
    fn handle(&mut self, command: FailDeployment) -> Result<Done, Refusal> {
        let deployment = self.active_deployment(command.id, "can't fail terminal deployment")?;
        let reverts = deployment.groups.values().any(|group| group.auto_revert);
        let reverted_version = self.fail_deployment(&deployment, description::MARKED, reverts)?;
        Ok(Done { object_index: self.index(), reverted_version, ..Done::default() })
    }
}

impl Work<'_> {
    /// Fails a deployment and evaluates its job (N-14.9). If `reverts`, the job returns to its latest stable version, if
    /// there is one; the answer is the number of that version.
    pub(super) fn fail_deployment(
        &mut self,
        deployment: &Deployment,
        why: &str,
        reverts: bool,
    ) -> Result<Option<u64>, Refusal> {
        let (addition, version) = if reverts { self.roll_back(deployment)? } else { (String::new(), None) };
        let (id, status) = (deployment.id, DeploymentStatus::Failed);
        let description = format!("{why}{addition}").into();
        self.set_deployment_status(&DeploymentUpdate { id, status, description })?;
        self.evaluate_deployment(deployment)?;
        Ok(version)
    }

    /// Registers the latest stable version of the job of a failed deployment again, as a new version. Returns what this adds
    /// to the deployment's description (N-12.5), and the number of the stable version if it was registered.
    ///
    /// Nothing happens if a user has stopped the job, or has registered another version since: the deployment is not that of
    /// the current version any more.
    fn roll_back(&mut self, deployment: &Deployment) -> Result<(String, Option<u64>), Refusal> {
        let current = self.state().job(&deployment.job.job);
        let current = current.filter(|job| job.version_key() == deployment.job && !job.spec.stop).cloned();
        let Some(current) = current else { return Ok((String::new(), None)) };
        let Some(stable) = latest_stable(self.state(), &current).cloned() else {
            return Ok((description::NO_STABLE_VERSION.to_owned(), None));
        };
        let version = stable.version;
        if stable.spec == current.spec {
            return Ok((description::same_specification(version), None));
        }
        let source = NewSource::of_version(self.state(), &stable.version_key());
        self.write_version(Arc::clone(&stable.spec), source)?;
        Ok((description::rolling_back(version), Some(version)))
    }
}

/// The newest stable version of a job that can be registered again: it is not stopped, and its node pool exists.
fn latest_stable<'a>(state: &'a State, job: &Job) -> Option<&'a Arc<Job>> {
    let key = job.key();
    let is_usable = |version: &&Arc<Job>| {
        let is_stable = version.create_index == job.create_index && version.stable && !version.spec.stop;
        is_stable && state.missing_references(&key, &version.spec.node_pool).next().is_none()
    };
    state.job_versions(&key).rev().find(is_usable)
}
