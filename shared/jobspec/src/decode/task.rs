//! Tasks, and the smaller blocks in them.

use api_types::{
    Action, DispatchPayloadConfig, ScalingPolicy, Task, TaskCsiPluginConfig, TaskLifecycleConfig,
    TaskSchedule, TaskScheduleCron,
};

use super::{access, block::Block, policies, resources, service, template};
use crate::fault::Fault;

/// The identity that every task has. An identity block without a name stands for it.
const DEFAULT_IDENTITY: &str = "default";

pub(super) fn task(block: &mut Block<'_>) -> Task {
    // The first block without a name or with the default name is the default identity. The others keep their order.
    let mut identities = block.many("identity", access::identity).unwrap_or_default();
    let default = identities.iter().position(|identity| {
        identity.name.as_deref().is_none_or(|name| name.is_empty() || name == DEFAULT_IDENTITY)
    });
    let default = default.map(|at| identities.remove(at));
    Task {
        name: block.label(),
        driver: block.text_or_empty("driver"),
        user: block.text_or_empty("user"),
        kill_timeout: block.duration("kill_timeout"),
        leader: block.flag_or_false("leader"),
        shutdown_delay: block.duration_or_zero("shutdown_delay"),
        kill_signal: block.text_or_empty("kill_signal"),
        kind: block.text_or_empty("kind"),
        lifecycle: block.one("lifecycle", lifecycle),
        config: block.free_form("config"),
        constraints: block.many("constraint", policies::constraint),
        affinities: block.many("affinity", policies::affinity),
        env: block.text_map("env"),
        services: block.many("service", service::service),
        resources: block.one("resources", resources::resources),
        restart_policy: block.one("restart", policies::restart),
        meta: block.text_map("meta"),
        log_config: block.one("logs", resources::logs),
        artifacts: block.many("artifact", template::artifact),
        vault: block.one("vault", access::vault).map(Box::new),
        consul: block.one("consul", access::consul),
        templates: block.many("template", template::template),
        dispatch_payload: block
            .one("dispatch_payload", |block| DispatchPayloadConfig { file: block.text_or_empty("file") }),
        volume_mounts: block.many("volume_mount", resources::volume_mount),
        csi_plugin_config: block.one("csi_plugin", csi_plugin).map(Box::new),
        scaling_policies: scaling_policies(block),
        secrets: block.labelled("secret", access::secret),
        identity: default,
        identities: (!identities.is_empty()).then_some(identities),
        actions: block.labelled("action", action),
        schedule: block.one("schedule", schedule).map(Box::new),
    }
}

/// The scaling policies of a task; at most one per resource.
fn scaling_policies(block: &mut Block<'_>) -> Option<Vec<ScalingPolicy>> {
    let mut seen = Vec::new();
    block.labelled("scaling", |block| {
        let policy = policies::task_scaling(block);
        if policy.r#type.is_some() && seen.contains(&policy.r#type) {
            let detail = "a task has one scaling block for each of cpu and mem";
            block.record(Fault::with_subject(block.at(), "Duplicate {} block", "scaling", detail));
        }
        seen.push(policy.r#type.clone());
        policy
    })
}

fn lifecycle(block: &mut Block<'_>) -> TaskLifecycleConfig {
    TaskLifecycleConfig { hook: block.required("hook").text("hook"), sidecar: block.flag_or_false("sidecar") }
}

fn csi_plugin(block: &mut Block<'_>) -> TaskCsiPluginConfig {
    TaskCsiPluginConfig {
        id: block.text_or_empty("id"),
        r#type: block.text_or_empty("type"),
        mount_dir: block.text_or_empty("mount_dir"),
        stage_publish_base_dir: block.text_or_empty("stage_publish_base_dir"),
        health_timeout: block.duration_or_zero("health_timeout"),
    }
}

fn action(block: &mut Block<'_>) -> Action {
    Action {
        name: block.label(),
        command: block.required("command").text("command"),
        args: block.texts("args"),
    }
}

fn schedule(block: &mut Block<'_>) -> TaskSchedule {
    TaskSchedule {
        cron: block.one("cron", |block| TaskScheduleCron {
            start: block.text_or_empty("start"),
            end: block.text_or_empty("end"),
            timezone: block.text_or_empty("timezone"),
        }),
    }
}
