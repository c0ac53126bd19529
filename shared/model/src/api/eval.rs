//! Conversion of evaluations and plan annotations.

use super::public;
use crate::eval::{DesiredUpdates, EvalStatus, Evaluation, PlanAnnotations};
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror, text_members, write_unless_zero};
use crate::{JobKey, TraceContext};

text_members!(EvalStatus);
public!(Evaluation = Evaluation, PlanAnnotations = PlanAnnotations);

impl Mirror for Evaluation {
    type Api = api_types::Evaluation;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        let annotations: Option<_> = Member::read(api.plan_annotations).at("PlanAnnotations")?;
        Ok(Self {
            id: Member::read(api.id).at("ID")?,
            job: JobKey::new(api.namespace.unwrap_or_default(), api.job_id.unwrap_or_default()),
            priority: Member::read(api.priority).at("Priority")?,
            kind: Member::read(api.r#type).at("Type")?,
            trigger: api.triggered_by.as_deref().unwrap_or_default().into(),
            status: Member::read(api.status).at("Status")?,
            status_description: Member::read(api.status_description).at("StatusDescription")?,
            job_modify_index: Member::read(api.job_modify_index).at("JobModifyIndex")?,
            node_id: Member::read(api.node_id).at("NodeID")?,
            node_modify_index: Member::read(api.node_modify_index).at("NodeModifyIndex")?,
            deployment_id: Member::read(api.deployment_id).at("DeploymentID")?,
            wait: Member::read(api.wait).at("Wait")?,
            wait_until: api.wait_until.into(),
            next_eval: Member::read(api.next_eval).at("NextEval")?,
            previous_eval: Member::read(api.previous_eval).at("PreviousEval")?,
            blocked_eval: Member::read(api.blocked_eval).at("BlockedEval")?,
            failed_groups: Member::read(api.failed_tg_allocs).at("FailedTGAllocs")?,
            annotations: annotations.map(Box::new),
            class_eligibility: Member::read(api.class_eligibility).at("ClassEligibility")?,
            escaped_class: Member::read(api.escaped_computed_class).at("EscapedComputedClass")?,
            quota_limit: Member::read(api.quota_limit_reached).at("QuotaLimitReached")?,
            missing_resources: Member::read(api.missing_non_node_resources).at("MissingNonNodeResources")?,
            annotate_plan: Member::read(api.annotate_plan).at("AnnotatePlan")?,
            queued: Member::read(api.queued_allocations).at("QueuedAllocations")?,
            snapshot_index: Member::read(api.snapshot_index).at("SnapshotIndex")?,
            create_index: Member::read(api.create_index).at("CreateIndex")?,
            modify_index: Member::read(api.modify_index).at("ModifyIndex")?,
            trace: None,
            create_time: Member::read(api.create_time).at("CreateTime")?,
            modify_time: Member::read(api.modify_time).at("ModifyTime")?,
        })
    }

    fn to_api(&self) -> Self::Api {
        Self::Api {
            id: self.id.write(),
            namespace: write_unless_zero(&self.job.namespace),
            priority: write_unless_zero(&self.priority),
            r#type: self.kind.write(),
            triggered_by: Some(self.trigger.to_string()),
            job_id: write_unless_zero(&self.job.id),
            job_modify_index: write_unless_zero(&self.job_modify_index),
            node_id: write_unless_zero(&self.node_id),
            node_modify_index: write_unless_zero(&self.node_modify_index),
            deployment_id: write_unless_zero(&self.deployment_id),
            status: self.status.write(),
            status_description: write_unless_zero(&self.status_description),
            wait: write_unless_zero(&self.wait),
            wait_until: self.wait_until.into(),
            next_eval: write_unless_zero(&self.next_eval),
            previous_eval: write_unless_zero(&self.previous_eval),
            blocked_eval: write_unless_zero(&self.blocked_eval),
            related_evals: None,
            failed_tg_allocs: self.failed_groups.write(),
            plan_annotations: self.annotations.as_deref().map(Mirror::to_api),
            class_eligibility: self.class_eligibility.write(),
            quota_limit_reached: write_unless_zero(&self.quota_limit),
            missing_non_node_resources: self.missing_resources.write(),
            escaped_computed_class: write_unless_zero(&self.escaped_class),
            annotate_plan: write_unless_zero(&self.annotate_plan),
            queued_allocations: self.queued.write(),
            leader_acl: None,
            snapshot_index: write_unless_zero(&self.snapshot_index),
            create_index: write_unless_zero(&self.create_index),
            modify_index: write_unless_zero(&self.modify_index),
            create_time: write_unless_zero(&self.create_time),
            modify_time: write_unless_zero(&self.modify_time),
            trace_id: self.trace.map(TraceContext::trace_id_text),
        }
    }
}

/// The domain stores only the ids of preempted allocations. The API replaces them by complete list entries.
impl Mirror for PlanAnnotations {
    type Api = api_types::PlanAnnotations;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        let preempted = api.preempted_allocs.unwrap_or_default().into_iter().enumerate();
        let preempted = preempted.map(|(position, stub)| Member::read(stub.id).at("ID").at_item(position));
        Ok(Self {
            desired_updates: Member::read(api.desired_tg_updates).at("DesiredTGUpdates")?,
            preempted: preempted.collect::<Result<_, _>>().at("PreemptedAllocs")?,
        })
    }

    fn to_api(&self) -> Self::Api {
        let preempted = self.preempted.iter();
        let preempted = preempted.map(|id| api_types::AllocListStub { id: id.write(), ..Default::default() });
        let preempted: Vec<_> = preempted.collect();
        Self::Api {
            desired_tg_updates: self.desired_updates.write(),
            preempted_allocs: if preempted.is_empty() { None } else { Some(preempted) },
        }
    }
}

mirror! {
    DesiredUpdates = DesiredUpdates {
        ignore: "Ignore",
        place: "Place",
        migrate: "Migrate",
        stop: "Stop",
        in_place_update: "InPlaceUpdate",
        destructive_update: "DestructiveUpdate",
        canary: "Canary",
        preemptions: "Preemptions",
        disconnect: "Disconnect",
        reconnect: "Reconnect",
        reschedule_now: "RescheduleNow",
        reschedule_later: "RescheduleLater",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_values_are_refused_with_their_path() {
        let mut api = api_types::Evaluation {
            id: Some("e1100001-0000-4000-8000-000000000001".into()),
            priority: Some(50),
            triggered_by: Some("job-register".into()),
            status: Some("pending".into()),
            r#type: Some("service".into()),
            ..Default::default()
        };
        let read = |api: &api_types::Evaluation| Evaluation::from_api(api.clone());
        assert!(read(&api).is_ok());

        api.triggered_by = Some("made-up".into());
        let shown = read(&api).map(|eval| eval.to_api().triggered_by);
        assert_eq!(shown, Ok(api.triggered_by.clone()), "no trigger is refused here");

        let metric = api_types::AllocMetric { nodes_evaluated: Some(-1), ..Default::default() };
        api.failed_tg_allocs = Some([("web".to_owned(), metric)].into());
        assert_eq!(read(&api).unwrap_err().to_string(), "FailedTGAllocs[web].NodesEvaluated: -1 is negative");
        api.priority = Some(70_000);
        assert_eq!(read(&api).unwrap_err().to_string(), "Priority: 70000 is too large");
        api.id = Some("e1".into());
        assert_eq!(
            read(&api).unwrap_err().to_string(),
            r#"ID: evaluation id "e1": UUID must be 36 characters"#
        );
    }
}
