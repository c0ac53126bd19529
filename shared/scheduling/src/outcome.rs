//! The outcome of an attempt: the evaluation's new status, and the blocked evaluations for what could not be placed
//! (`docs/rules/scheduling.md` §1.6, R-7.1 to ).

use std::collections::BTreeMap;

use model::alloc::AllocMetric;
use model::eval::{EvalStatus, EvalTrigger, Evaluation, PlanAnnotations};
use model::job::JobType;
use model::plan::{Outcome, Plan};
use model::{AllocId, DeploymentId, EvalId, Map, Text};

use crate::{Attempt, NewId, Proposal};

/// Results of an attempt, from which the outcome is built.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) annotations: PlanAnnotations,
    /// Number of requested placements, by group.
    pub(crate) requested: Map<Text, u32>,
    /// Number of requested placements that failed, by group.
    pub(crate) queued: Map<Text, u32>,
    pub(crate) failed_groups: BTreeMap<Text, AllocMetric>,
    pub(crate) class_eligibility: BTreeMap<Text, bool>,
    pub(crate) escaped_class: bool,
    /// Missing resources that do not belong to a node, such as CSI volumes.
    pub(crate) missing_resources: Vec<Text>,
    /// The deployment that the attempt continued or created.
    pub(crate) deployment_id: Option<DeploymentId>,
}

impl Findings {
    /// Records that allocations of other jobs are preempted for a group.
    pub(crate) fn record_victims(&mut self, group: &Text, victims: impl Iterator<Item = AllocId>) {
        let annotations = &mut self.annotations;
        let known = annotations.preempted.len();
        annotations.preempted.extend(victims);
        let more = (annotations.preempted.len() - known) as u64;
        if more > 0 {
            annotations.desired_updates.entry(Text::clone(group)).or_default().preemptions += more;
        }
    }
}

/// Description of evaluations that wait for capacity.
pub(crate) const TO_PLACE: &str = "created to place remaining allocations";

/// Maximum number of attempts without progress.
const fn attempts_max(kind: JobType) -> u8 {
    match kind {
        JobType::Service | JobType::System => 5,
        JobType::Batch | JobType::SysBatch => 2,
    }
}

/// Whether an attempt exceeds the limit of attempts without progress.
pub(crate) fn exceeds_limit(attempt: &Attempt<'_>, kind: JobType) -> bool {
    attempt.attempts_without_progress >= attempts_max(kind)
}

/// The outcome of a complete attempt on a service or batch job. `follow_ups` are the delayed
/// evaluations.
pub(crate) fn finished(
    attempt: &Attempt<'_>,
    findings: Findings,
    follow_ups: Vec<Evaluation>,
    new_id: NewId<'_>,
) -> Outcome {
    let eval = attempt.eval;
    let waits_again = eval.status == EvalStatus::Blocked && !findings.failed_groups.is_empty();
    let may_block = follow_ups.is_empty() || attempt.now > eval.wait_until;
    let mut after = Evaluation {
        status: EvalStatus::Complete,
        status_description: Text::default(),
        next_eval: follow_ups.last().map(|last| last.id).or(eval.next_eval),
        failed_groups: findings.failed_groups.clone(),
        queued: findings.queued.clone(),
        annotations: Some(Box::new(findings.annotations.clone())),
        deployment_id: findings.deployment_id.or(eval.deployment_id),
        snapshot_index: attempt.state.index(),
        ..eval.clone()
    };
    let mut creates = follow_ups;
    if waits_again {
        after = Evaluation {
            status: EvalStatus::Blocked,
            status_description: Text::clone(&eval.status_description),
            class_eligibility: findings.class_eligibility,
            escaped_class: findings.escaped_class,
            quota_limit: Text::default(),
            missing_resources: findings.missing_resources,
            ..after
        };
    } else if !findings.failed_groups.is_empty() && may_block {
        let blocked = Evaluation {
            failed_groups: findings.failed_groups.clone(),
            status_description: TO_PLACE.into(),
            ..blocked(attempt, EvalTrigger::QueuedAllocs, &findings, EvalId::from_bytes(new_id()))
        };
        after.blocked_eval = Some(blocked.id);
        creates.push(blocked);
    }
    Outcome { eval: Box::new(after), creates }
}

/// The outcome of a complete attempt on a system or sysbatch job, whose evaluation is never blocked again.
/// `creates` are blocked evaluations for nodes without capacity.
pub(crate) fn finished_system(
    attempt: &Attempt<'_>,
    findings: Findings,
    creates: Vec<Evaluation>,
) -> Outcome {
    let eval = attempt.eval;
    let after = Evaluation {
        status: EvalStatus::Complete,
        status_description: Text::default(),
        failed_groups: findings.failed_groups,
        queued: findings.queued,
        annotations: Some(Box::new(findings.annotations)),
        deployment_id: findings.deployment_id.or(eval.deployment_id),
        snapshot_index: attempt.state.index(),
        ..eval.clone()
    };
    Outcome { eval: Box::new(after), creates }
}

/// The outcome of a system or sysbatch job's attempt beyond the limit: no blocked evaluation is created, so only a
/// later event reschedules the job.
pub(crate) fn exhausted_system(attempt: &Attempt<'_>, kind: JobType, findings: Findings) -> Outcome {
    let after = Evaluation {
        failed_groups: findings.failed_groups,
        queued: findings.requested,
        annotations: Some(Box::new(findings.annotations)),
        ..failed(attempt, limit_text(kind))
    };
    Outcome { eval: Box::new(after), creates: Vec::new() }
}

/// The outcome of a service or batch job's attempt beyond the limit: the evaluation fails, and a blocked one
/// is created.
pub(crate) fn exhausted(
    attempt: &Attempt<'_>,
    kind: JobType,
    findings: Findings,
    new_id: NewId<'_>,
) -> Outcome {
    let blocked = Evaluation {
        failed_groups: findings.failed_groups.clone(),
        status_description: "created due to placement conflicts".into(),
        ..blocked(attempt, EvalTrigger::MaxPlanAttempts, &findings, EvalId::from_bytes(new_id()))
    };
    let after = Evaluation {
        blocked_eval: Some(blocked.id),
        failed_groups: findings.failed_groups,
        queued: findings.requested,
        annotations: Some(Box::new(findings.annotations)),
        ..failed(attempt, limit_text(kind))
    };
    Outcome { eval: Box::new(after), creates: vec![blocked] }
}

fn limit_text(kind: JobType) -> String {
    format!("maximum attempts reached ({})", attempts_max(kind))
}

/// The proposal for an evaluation whose trigger the scheduler does not accept.
pub(crate) fn unknown_trigger(attempt: &Attempt<'_>) -> Proposal {
    let description = format!("scheduler cannot handle '{}' evaluation reason", attempt.eval.trigger);
    empty_proposal(attempt, failed(attempt, description))
}

fn empty_proposal(attempt: &Attempt<'_>, after: Evaluation) -> Proposal {
    Proposal { plan: empty_plan(attempt), outcome: Outcome { eval: Box::new(after), creates: Vec::new() } }
}

/// A plan without changes.
pub(crate) fn empty_plan(attempt: &Attempt<'_>) -> Plan {
    let job = attempt.state.job(&attempt.eval.job);
    let all_at_once = job.is_some_and(|job| job.spec.all_at_once);
    let snapshot_request = attempt.state.last_request();
    Plan {
        snapshot_request,
        all_at_once,
        ..Plan::new(attempt.eval, job.map(|job| job.version_key()), attempt.state.index())
    }
}

fn failed(attempt: &Attempt<'_>, description: impl Into<Text>) -> Evaluation {
    Evaluation {
        status: EvalStatus::Failed,
        status_description: description.into(),
        snapshot_index: attempt.state.index(),
        ..attempt.eval.clone()
    }
}

/// An evaluation that waits for capacity for what was not placed.
pub(crate) fn blocked(
    attempt: &Attempt<'_>,
    trigger: EvalTrigger,
    findings: &Findings,
    id: EvalId,
) -> Evaluation {
    let eval = attempt.eval;
    let job = attempt.state.job(&eval.job);
    Evaluation {
        status: EvalStatus::Blocked,
        job_modify_index: job.map_or(eval.job_modify_index, |job| job.modify_index),
        previous_eval: Some(eval.id),
        class_eligibility: findings.class_eligibility.clone(),
        escaped_class: findings.escaped_class,
        missing_resources: findings.missing_resources.clone(),
        snapshot_index: attempt.state.index(),
        trace: eval.trace,
        ..Evaluation::new(id, eval.job.clone(), eval.kind, eval.priority, trigger)
    }
}
