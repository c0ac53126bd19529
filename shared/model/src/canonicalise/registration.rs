//! Changes that the server makes at admission, which are visible when the job is read (`docs/rules/jobspec.md` §12).
//!
//! Constraints, tasks and ports that Consul, Vault and Connect imply are not added. Ids of scaling policies are removed:
//! they are derived whenever the job is read (N-17.13).

use api_types::{
    Job, NetworkResource, ScalingPolicy, Service, Task, TaskGroup, UpdateStrategy, WorkloadIdentity,
};

use super::zeros::Zeros as _;
use super::{canonicalise, defaults, each, fill, fill_empty, scaling_bounds, text, unused_update};
use crate::text::quoted;

/// Defaults that depend on the server and on the job's namespace.
#[derive(Debug, Clone, Copy)]
pub struct RegistrationDefaults<'a> {
    /// Default priority of a job (`job_default_priority`).
    pub priority: i64,
    /// Default node pool of the namespace.
    pub node_pool: &'a str,
}

/// Converts a job to the form that is stored: calls [`canonicalise`] and makes the changes of the server.
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
    job.update = Some(job_level_update(job.update.take().unwrap_or_default()));
    let mut groups = job.task_groups.take();
    for group in each(&mut groups) {
        task_group(group, job);
    }
    job.task_groups = groups;
}

/// The update block that is stored at job level: stagger and batch size only, or zeros for a job without deployments. The
/// update block of each group already contains all settings.
fn job_level_update(update: UpdateStrategy) -> UpdateStrategy {
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
        disk.sticky = Some(true); // A disk that migrates is always sticky (N-18.7).
    }
    let name = text(&group.name).to_owned();
    let owner = Owner { job, group: &name, task: None };
    each(&mut group.networks).for_each(network);
    for service in each(&mut group.services) {
        owner.service(service);
    }
    if let Some(scaling) = &mut group.scaling {
        owner.scaling(scaling);
    }
    for task in each(&mut group.tasks) {
        canonicalise_task(task, owner);
    }
}

fn canonicalise_task(task: &mut Task, group: Owner<'_>) {
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
    let owner = Owner { task: Some(text(name)), ..group };
    for service in each(services) {
        owner.service(service);
    }
    for scaling in each(scaling_policies) {
        scaling_bounds(scaling, 0);
        owner.scaling(scaling);
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

/// The group or task that owns a service or a scaling policy, whose names are derived from it.
#[derive(Clone, Copy)]
struct Owner<'a> {
    job: &'a Job,
    group: &'a str,
    task: Option<&'a str>,
}

impl Owner<'_> {
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

    /// Expands the variables that refer to names of the job. The node expands all others (N-18.13).
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
        // A job that was read has them. They are those of the stored job whenever it is read (N-17.13).
        scaling.id = Some(String::new());
        (scaling.create_index, scaling.modify_index) = (Some(0), Some(0));
    }
}
