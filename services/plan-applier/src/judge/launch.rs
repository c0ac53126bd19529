//! Makes children: launches of periodic jobs (N-23), dispatches of parameterized ones (N-24), and the release of dispatches
//! that were held back.

use std::sync::Arc;

use model::cluster::Singleton;
use model::eval::EvalTrigger;
use model::job::{Dispatch, DispatchError, Job, JobSpec, JobStatus};
use model::schedule::launched_until;
use model::text::quoted;
use model::{JobKey, Nanos, Text, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::State;
use wire::command::{DispatchJob, Done, ForceLaunch, Handler, Launch, LaunchJobs};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// How far ahead of the applier's time a launch may be, because the launcher only estimates that time.
const EARLY_MAX: Nanos = Nanos::SECOND;

/// Maximum number of held children that one command releases. The next child that ends releases further ones.
const RELEASED_MAX: u64 = 256;

impl Handler<LaunchJobs> for Work<'_> {
    fn handle(&mut self, command: LaunchJobs) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::DeploymentWatcher, command.epoch)?;
        command.launches.iter().try_for_each(|launch| launch_due(self, launch))?;
        Ok(Done::default())
    }
}

/// Launches a job if this moment of it is still to be launched. A launch that would overlap with another child is skipped,
/// and is not made up for (N-23.5).
fn launch_due(work: &mut Work<'_>, launch: &Launch) -> Result<(), Refusal> {
    let Launch { job: key, moment } = launch;
    let state = work.state();
    let Some(parent) = state.job(key).cloned() else { return Ok(()) };
    let Some(config) = parent.spec.launch_config() else { return Ok(()) };
    let decided = launched_until(&parent, state.job_summary(key).map(|summary| &**summary));
    if *moment <= decided || *moment > work.at() + EARLY_MAX {
        return Ok(());
    }
    if config.prohibit_overlap && has_live_child(state, key) {
        record_launch(work, key, *moment);
        return work.write_jobs();
    }
    self::launch(work, &parent, *moment)
}

/// Whether a child of a job has not ended (N-23.5).
fn has_live_child(state: &State, parent: &JobKey) -> bool {
    state.children_of_job(parent).any(|child| child.status != JobStatus::Dead)
}

/// A launch by a user ignores overlaps. Two within one second make one child (N-23.8).
impl Handler<ForceLaunch> for Work<'_> {
    fn handle(&mut self, command: ForceLaunch) -> Result<Done, Refusal> {
        let key = &command.job;
        let Some(parent) = self.state().job(key).cloned() else {
            return Err(refusal(RefusalKind::NotFound, "job not found"));
        };
        if parent.spec.periodic.is_none() {
            return Err(refusal(RefusalKind::Invalid, "can't force launch non-periodic job"));
        }
        if parent.spec.launch_config().is_none() {
            let (id, namespace) = (quoted(&key.id), &key.namespace);
            let reason = format!("can't force run non-tracked job {id} ({namespace})");
            let message = format!("force launch for job {id} failed: {reason}");
            return Err(refusal(RefusalKind::Invalid, message));
        }
        launch(self, &parent, Timestamp::from_secs(self.at().as_secs()))?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}

/// Makes the child of a moment, and evaluates it (N-23.4). The child may exist, if a user has launched the job in the same
/// second.
fn launch(work: &mut Work<'_>, parent: &Job, moment: Timestamp) -> Result<(), Refusal> {
    record_launch(work, &parent.key(), moment);
    let spec = Arc::new(parent.spec.launch(moment));
    let key = spec.key();
    match work.state().job(&key) {
        None => work.write_child(parent, Arc::clone(&spec))?,
        Some(child) if child.spec.parent_id == parent.spec.id => {}
        // A user has registered a job of this name. It is not touched, and the launch is skipped.
        Some(_) => return work.write_jobs(),
    }
    work.create_eval(&key, spec.kind, spec.priority, EvalTrigger::PeriodicJob, |_| {})?;
    Ok(())
}

fn record_launch(work: &mut Work<'_>, parent: &JobKey, moment: Timestamp) {
    let Some(touched) = work.touch_job(parent) else { return };
    let children = touched.summary.children.get_or_insert_default();
    if is_planted(Bug::ForgetsLaunches) {
        return;
    }
    children.last_launch = children.last_launch.max(moment);
}

impl Handler<DispatchJob> for Work<'_> {
    fn handle(&mut self, command: DispatchJob) -> Result<Done, Refusal> {
        let DispatchJob { parent: key, id, payload, meta, priority, idempotency_token } = command;
        let invalid = |error: DispatchError| refusal(RefusalKind::Invalid, error.to_string());
        let Some(parent) = self.state().job(&key).cloned() else {
            return Err(invalid(DispatchError::NotFound));
        };
        let payload_bytes = payload.as_ref().map_or(0, |payload| payload.0.len());
        let keys = meta.keys().map(|key| &**key);
        parent.spec.check_dispatch(payload_bytes, keys).map_err(invalid)?;
        // Checked again here, because two requests may come at once (N-24.5).
        if dispatched_before(self.state(), &key, &idempotency_token) {
            return Ok(Done::default());
        }
        let spec = parent.spec.dispatch(Dispatch { id, payload, meta, priority, idempotency_token });
        let (child, spec) = (spec.key(), Arc::new(spec));
        if self.state().job(&child).is_some() {
            return Err(refusal(RefusalKind::Conflict, format!("job {} exists already", quoted(&child.id))));
        }
        self.write_child(&parent, Arc::clone(&spec))?;
        // A child that is periodic itself is launched at times, and not evaluated (N-24.7).
        if spec.template().is_none() && !hold(self, &parent) {
            self.create_eval(&child, spec.kind, spec.priority, EvalTrigger::JobRegister, |_| {})?;
        }
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}

/// Whether a child of a job was dispatched with this token, if there is one.
fn dispatched_before(state: &State, parent: &JobKey, token: &Text) -> bool {
    let mut children = state.children_of_job(parent);
    let is_known = !token.is_empty() && children.any(|child| child.spec.dispatch_idempotency_token == *token);
    is_known && !is_planted(Bug::IgnoresTokens)
}

/// The limit on the children of a job that run at once. `None` is no limit.
fn limit(parent: &JobSpec) -> Option<u64> {
    let limit = parent.parameterized_job.as_ref()?.max_children_running?;
    Some(u64::from(limit)).filter(|limit| *limit > 0)
}

/// Decides whether a new child, which is counted as pending already, is held back, and counts it as held if so.
fn hold(work: &mut Work<'_>, parent: &Job) -> bool {
    let Some(limit) = limit(&parent.spec) else { return false };
    let Some(touched) = work.touch_job(&parent.key()) else { return false };
    let children = touched.summary.children.get_or_insert_default();
    let begun = children.pending.saturating_add(children.running).saturating_sub(children.held);
    // A child that is held back has precedence over later ones.
    let is_held = (children.held > 0 || begun > limit) && !is_planted(Bug::IgnoresChildrenLimit);
    children.held = children.held.saturating_add(u64::from(is_held));
    is_held
}

impl Work<'_> {
    /// Evaluates children that are held back, in the order in which they were dispatched, as far as their parent has room. A
    /// parent that is gone has no limit any more.
    pub(super) fn release_held(&mut self) -> Result<(), Refusal> {
        let parents = std::mem::take(&mut self.parents);
        for parent in parents.into_iter().filter(|_| !is_planted(Bug::NeverReleasesChildren)) {
            let room = match self.state().job(&parent).cloned() {
                None => RELEASED_MAX,
                Some(job) => {
                    let children = self.touch_job(&parent).and_then(|touched| touched.summary.children);
                    let Some(children) = children.filter(|children| children.held > 0) else { continue };
                    let live = children.pending.saturating_add(children.running);
                    let begun = live.saturating_sub(children.held);
                    limit(&job.spec).map_or(RELEASED_MAX, |limit| limit.saturating_sub(begun))
                }
            };
            self.release(&parent, room.min(RELEASED_MAX))?;
        }
        Ok(())
    }

    fn release(&mut self, parent: &JobKey, room: u64) -> Result<(), Refusal> {
        let state = self.state();
        let is_held =
            |child: &&Arc<Job>| child.may_be_held() && state.evals_of_job(&child.key()).next().is_none();
        let mut held: Vec<Arc<Job>> = state.children_of_job(parent).filter(is_held).cloned().collect();
        held.sort_by(|one, other| {
            (one.create_index, &one.spec.id).cmp(&(other.create_index, &other.spec.id))
        });
        let count = held.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        for child in &held[..count] {
            let spec = &child.spec;
            self.create_eval(&child.key(), spec.kind, spec.priority, EvalTrigger::JobRegister, |_| {})?;
        }
        // Counted anew, because a user may have stopped, deleted or evaluated some of them.
        let rest = u64::try_from(held.len() - count).unwrap_or(u64::MAX);
        if let Some(children) = self.touch_job(parent).and_then(|touched| touched.summary.children.as_mut()) {
            children.held = rest;
        }
        Ok(())
    }
}
