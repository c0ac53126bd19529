//! Registers an older version of a job again, as a new version (N-20.5).

use std::sync::Arc;

use model::job::JobSpec;
use model::text::quoted;
use wire::command::{Done, Handler, RevertJob};
use wire::{Refusal, RefusalKind};

use super::register_job::registered;
use super::submissions::NewSource;
use super::versions::{no_version, version_of};
use super::work::{Work, refusal};

/// The new version gets the source of the older one. If the specification is the current one, there is no new version
/// (N-17.14).
impl Handler<RevertJob> for Work<'_> {
    fn handle(&mut self, command: RevertJob) -> Result<Done, Refusal> {
        let RevertJob { job: key, version, prior_version } = command;
        let Some(current) = self.state().job(&key).cloned() else {
            return Err(refusal(RefusalKind::NotFound, format!("job {} not found", quoted(&key.id))));
        };
        if version == current.version {
            return Err(refusal(RefusalKind::Conflict, "can't revert to current version"));
        }
        let Some(older) = version_of(self.state(), &key, version).cloned() else {
            return Err(no_version(&key, version));
        };
        if let Some(prior) = prior_version.filter(|prior| *prior != current.version) {
            let message = format!("Current job has version {}; enforcing version {prior}", current.version);
            return Err(refusal(RefusalKind::Conflict, message));
        }
        if let Some(missing) = self.state().missing_references(&key, &older.spec.node_pool).next() {
            return Err(refusal(RefusalKind::Invalid, missing.to_string()));
        }
        if let Err(forbidden) = older.spec.check_change(Some(&current.spec)) {
            return Err(refusal(RefusalKind::Invalid, forbidden.to_string()));
        }
        let spec = match older.spec.stop {
            true => Arc::new(JobSpec { stop: false, ..JobSpec::clone(&older.spec) }),
            false => Arc::clone(&older.spec),
        };
        if spec != current.spec {
            let source = NewSource::of_version(self.state(), &older.version_key());
            self.write_version(Arc::clone(&spec), source)?;
        }
        registered(self, &spec, spec.priority)
    }
}
