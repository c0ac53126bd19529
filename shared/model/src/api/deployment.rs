//! Conversion of deployments.

use super::public;
use crate::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror, text_members};
use crate::{JobKey, JobVersionKey, TraceContext};

text_members!(DeploymentStatus);
public!(Deployment = Deployment);

impl Mirror for Deployment {
    type Api = api_types::Deployment;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        Ok(Self {
            id: Member::read(api.id).at("ID")?,
            job: JobVersionKey {
                job: JobKey::new(api.namespace.unwrap_or_default(), api.job_id.unwrap_or_default()),
                create_index: Member::read(api.job_create_index).at("JobCreateIndex")?,
                version: Member::read(api.job_version).at("JobVersion")?,
            },
            job_modify_index: Member::read(api.job_modify_index).at("JobModifyIndex")?,
            job_spec_modify_index: Member::read(api.job_spec_modify_index).at("JobSpecModifyIndex")?,
            is_multiregion: Member::read(api.is_multiregion).at("IsMultiregion")?,
            groups: Member::read(api.task_groups).at("TaskGroups")?,
            status: Member::read(api.status).at("Status")?,
            status_description: Member::read(api.status_description).at("StatusDescription")?,
            eval_priority: Member::read(api.eval_priority).at("EvalPriority")?,
            create_index: Member::read(api.create_index).at("CreateIndex")?,
            modify_index: Member::read(api.modify_index).at("ModifyIndex")?,
            create_time: Member::read(api.create_time).at("CreateTime")?,
            modify_time: Member::read(api.modify_time).at("ModifyTime")?,
            trace: None,
        })
    }

    fn to_api(&self) -> Self::Api {
        Self::Api {
            id: self.id.write(),
            namespace: self.job.job.namespace.write(),
            job_id: self.job.job.id.write(),
            job_version: self.job.version.write(),
            job_modify_index: self.job_modify_index.write(),
            job_spec_modify_index: self.job_spec_modify_index.write(),
            job_create_index: self.job.create_index.write(),
            is_multiregion: self.is_multiregion.write(),
            task_groups: self.groups.write(),
            status: self.status.write(),
            status_description: self.status_description.write(),
            eval_priority: self.eval_priority.write(),
            create_index: self.create_index.write(),
            modify_index: self.modify_index.write(),
            create_time: self.create_time.write(),
            modify_time: self.modify_time.write(),
            trace_id: self.trace.map(TraceContext::trace_id_text),
        }
    }
}

mirror! {
    DeploymentGroup = DeploymentState {
        auto_revert: "AutoRevert",
        auto_promote: "AutoPromote",
        progress_deadline: "ProgressDeadline",
        require_progress_by: "RequireProgressBy",
        promoted: "Promoted",
        placed_canaries: "PlacedCanaries",
        desired_canaries: "DesiredCanaries",
        desired_total: "DesiredTotal",
        placed_allocs: "PlacedAllocs",
        healthy_allocs: "HealthyAllocs",
        unhealthy_allocs: "UnhealthyAllocs",
    }
}
