//! The job block, and blocks that only jobs have.

use api_types::{
    Job, JobUiConfig, JobUiLink, Multiregion, MultiregionRegion, MultiregionStrategy, ParameterizedJobConfig,
    PeriodicConfig, TaskGroup,
};

use super::{
    access,
    block::Block,
    group::{self, Inherited},
    policies, task,
};

pub(super) fn job(block: &mut Block<'_>) -> Job {
    let label = block.label();
    let mut job = Job {
        id: block.text("id").or_else(|| label.clone()),
        name: block.text("name").or(label),
        region: block.text("region"),
        namespace: block.text("namespace"),
        r#type: block.text("type"),
        priority: block.int("priority"),
        all_at_once: block.flag("all_at_once"),
        datacenters: block.texts("datacenters"),
        node_pool: block.text("node_pool"),
        constraints: block.many("constraint", policies::constraint),
        affinities: block.many("affinity", policies::affinity),
        spreads: block.many("spread", policies::spread),
        update: block.one("update", policies::update),
        multiregion: block.one("multiregion", multiregion).map(Box::new),
        periodic: block.one("periodic", periodic),
        parameterized_job: block.one("parameterized", parameterized),
        reschedule: block.one("reschedule", policies::reschedule),
        migrate: block.one("migrate", policies::migrate),
        meta: block.text_map("meta"),
        ui: block.one("ui", ui),
        dispatched: Some(false),
        ..Job::default()
    };
    // A task directly under the job gets a group of its own. Such groups come first.
    let tasks = block.labelled("task", task::task).unwrap_or_default();
    let mut groups: Vec<TaskGroup> = tasks.into_iter().map(group::of_one_task).collect();
    groups.extend(block.labelled("group", group::group).unwrap_or_default());
    let (vault, secrets) = (block.one("vault", access::vault), block.labelled("secret", access::secret));
    let inherited = Inherited::new(vault, secrets.unwrap_or_default());
    // An error has been recorded if there is too much to inherit.
    let _ = groups.iter_mut().try_for_each(|group| inherited.give_to(group, block));
    job.task_groups = (!groups.is_empty()).then_some(groups);
    job
}

fn multiregion(block: &mut Block<'_>) -> Multiregion {
    Multiregion {
        strategy: block.one("strategy", |block| MultiregionStrategy {
            max_parallel: block.int("max_parallel"),
            on_failure: block.text("on_failure"),
        }),
        regions: block.labelled("region", |block| MultiregionRegion {
            name: block.label(),
            count: block.int("count"),
            datacenters: block.texts("datacenters"),
            node_pool: block.text_or_empty("node_pool"),
            meta: block.text_map_block("meta"),
        }),
    }
}

fn periodic(block: &mut Block<'_>) -> PeriodicConfig {
    let (spec, specs) = (block.text("cron"), block.texts("crons"));
    PeriodicConfig {
        enabled: block.flag("enabled"),
        spec_type: (spec.is_some() || specs.is_some()).then(|| "cron".to_owned()),
        spec,
        specs,
        prohibit_overlap: block.flag("prohibit_overlap"),
        time_zone: block.text("time_zone"),
    }
}

fn parameterized(block: &mut Block<'_>) -> ParameterizedJobConfig {
    ParameterizedJobConfig {
        payload: block.text_or_empty("payload"),
        meta_required: block.texts("meta_required"),
        meta_optional: block.texts("meta_optional"),
        max_children_running: block.int_within("max_children_running", 0..=i64::from(u32::MAX)),
    }
}

fn ui(block: &mut Block<'_>) -> JobUiConfig {
    JobUiConfig {
        description: block.text_or_empty("description"),
        links: block.many("link", |block| JobUiLink {
            label: block.text_or_empty("label"),
            url: block.text_or_empty("url"),
        }),
    }
}
