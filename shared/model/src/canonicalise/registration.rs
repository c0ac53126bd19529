//! What the server adds at admission, visible when a job is read back (`spec/jobspec.md` §12).
//!
//! Not here: constraints, tasks and ports that Consul, Vault and Connect imply, and ids of scaling policies, which are
//! carried over from the stored job or new (N-17.13).

use api_types::{
    Job, NetworkResource, ScalingPolicy, Service, Task, TaskGroup, UpdateStrategy, WorkloadIdentity,
};

use super::zeros::Zeros as _;
use super::{canonicalise, defaults, each, fill, fill_empty, scaling_bounds, text, unused_update};
use crate::text::quoted;

/// Defaults that depend on the server and on the job's namespace.
#[derive(Debug, Clone, Copy)]
pub struct RegistrationDefaults<'a> {
    /// A job's priority (`job_default_priority`).
    pub priority: i64,
    /// The namespace's default node pool.
    pub node_pool: &'a str,
}

/// Makes of a job what is stored of it: [`canonicalise`], and what the server adds.
pub fn canonicalise_for_registration(job: &mut Job, settings: RegistrationDefaults<'_>) {
    fill(&mut job.priority, settings.priority);
    canonicalise(job);

    if job.datacenters.as_ref().is_none_or(Vec::is_empty) {
        job.datacenters = Some(vec![defaults::ANY_DATACENTER.to_owned()]);
    }
    fill_empty(&mut job.node_pool, settings.node_pool);
    if let Some(dispatch) = &mut job.parameterized_job {
        fill_empty(&mut dispatch.payload, defaults::PAYLOAD);
    }
    job.update = Some(pace(job.update.take().unwrap_or_default()));
    let mut groups = job.task_groups.take();
    for group in each(&mut groups) {
        task_group(group, job);
    }
    job.task_groups = groups;
}

/// What is kept of the update block at job level, since each group has taken over the whole: how many at a time and
/// how far apart, or nothing for jobs without deployments.
fn pace(update: UpdateStrategy) -> UpdateStrategy {
    let UpdateStrategy { stagger, max_parallel, .. } = update;
    if max_parallel.unwrap_or(0) == 0 {
        return unused_update();
    }
    UpdateStrategy { stagger, max_parallel, ..unused_update() }
}

fn task_group(group: &mut TaskGroup, job: &Job) {
    if let Some(disk) = &mut group.ephemeral_disk
        && disk.migrate == Some(true)
    {
        disk.sticky = Some(true); // N-18.7
    }
    let name = text(&group.name).to_owned();
    let place = Place { job, group: &name, task: None };
    each(&mut group.networks).for_each(network);
    for service in each(&mut group.services) {
        place.service(service);
    }
    if let Some(scaling) = &mut group.scaling {
        place.scaling(scaling);
    }
    for task in each(&mut group.tasks) {
        canonicalise_task(task, place);
    }
}

fn canonicalise_task(task: &mut Task, group: Place<'_>) {
    default_identity(task.identity.get_or_insert_default());
    if let Some(vault) = &mut task.vault {
        vault.policies = None;
    }
    if let Some(resources) = &mut task.resources {
        each(&mut resources.networks).for_each(network);
    }
    if let Some(log) = &mut task.log_config
        && let Some(enabled) = log.enabled.take()
    {
        log.disabled = Some(log.disabled == Some(true) || !enabled);
    }
    let Task { name, services, scaling_policies, .. } = task;
    let place = Place { task: Some(text(name)), ..group };
    for service in each(services) {
        place.service(service);
    }
    for scaling in each(scaling_policies) {
        scaling_bounds(scaling, 0);
        place.scaling(scaling);
    }
}

fn default_identity(identity: &mut WorkloadIdentity) {
    identity.fill_zeros();
    fill_empty(&mut identity.name, defaults::IDENTITY);
    if identity.audience.as_ref().is_none_or(Vec::is_empty) {
        identity.audience = Some(vec![defaults::IDENTITY_AUDIENCE.to_owned()]);
    }
}

fn network(network: &mut NetworkResource) {
    for port in each(&mut network.reserved_ports).chain(each(&mut network.dynamic_ports)) {
        fill_empty(&mut port.host_network, defaults::HOST_NETWORK);
    }
}

/// Where in a job something stands that is named after its place.
#[derive(Clone, Copy)]
struct Place<'a> {
    job: &'a Job,
    group: &'a str,
    task: Option<&'a str>,
}

impl Place<'_> {
    fn service(self, service: &mut Service) {
        let name = self.expand(text(&service.name));
        for check in each(&mut service.checks) {
            fill_empty(&mut check.name, format!("service: {} check", quoted(&name)));
            fill_empty(&mut check.task_name, self.task.unwrap_or_default());
            check.advertise = None;
        }
        service.name = Some(name);
        fill_empty(&mut service.task_name, self.task.unwrap_or_default());
        let namespace = match text(&service.provider) {
            "nomad" => text(&self.job.namespace),
            _ => Some(text(&self.job.consul_namespace))
                .filter(|name| !name.is_empty())
                .unwrap_or(defaults::NAMESPACE),
        };
        fill_empty(&mut service.namespace, namespace);
        service.check_restart = None;
    }

    /// Replaces what stands for names of the job; the node replaces all else (N-18.13).
    fn expand(self, name: &str) -> String {
        let (job, group) = (text(&self.job.id), self.group);
        let expanded = name.replace("${JOB}", job).replace("${TASKGROUP}", group);
        match self.task {
            Some(task) => {
                expanded.replace("${TASK}", task).replace("${BASE}", &format!("{job}-{group}-{task}"))
            }
            None => expanded.replace("${BASE}", &format!("{job}-{group}")),
        }
    }

    fn scaling(self, scaling: &mut ScalingPolicy) {
        let task = self.task.map(|task| ("Task", task));
        let target =
            [("Namespace", text(&self.job.namespace)), ("Job", text(&self.job.id)), ("Group", self.group)];
        let target = target.into_iter().chain(task).map(|(key, name)| (key.to_owned(), name.to_owned()));
        scaling.target = Some(target.collect());
        scaling.namespace = None;
    }
}
