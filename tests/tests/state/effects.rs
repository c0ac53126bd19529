//! Turns a command into a valid change of the current cluster, or into none if the command cannot be carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocExtra, AllocatedResources, Allocation, ClientStatus, DesiredStatus, DesiredTransition,
    NetworkStatus, PackedAssigned, PackedMetric, PackedTaskStates, ReportNumber, RescheduleEvent,
    RescheduleTracker, TaskState,
};
use model::change::{AllocsChanged, Change, JobFields, JobSummary, NodesChanged};
use model::deployment::Deployment;
use model::eval::{EvalTrigger, Evaluation};
use model::job::{Job, JobSource, JobSpec, JobStatus, JobSubmission, JobType};
use model::node::{Node, NodeReserved, NodeResources, NodeServerSide, NodeSpec, NodeStatus, Topology};
use model::plan::{Placement, Placements};
use model::{AllocId, Index, JobKey, JobVersionKey, Map, Nanos, NodeId, Text, Timestamp};
use proptest::sample::Index as Pick;
use tests::build;

use crate::commands::{ChangedRow, Columns, Command, PlacedRow, Update};
use crate::naive::Naive;
use crate::pool::{BYSTANDERS, NODES, alloc_id, deployment_id, eval_id, job_key, node_id};
use crate::requests::{self, ResourceRequest};

/// The node's name in a written allocation. It is only used if the node is not registered.
const FORMER_NAME: &str = "former name";

/// The changes with which every history begins: two nodes and two jobs of the pool, and the bystanders.
pub(crate) fn initial_changes(naive: &Naive) -> Vec<Change> {
    let bystanders = (0..BYSTANDERS).map(|number| NODES + number);
    let nodes = bystanders
        .chain(0..2)
        .flat_map(|node| Command::RegisterNode { node, shape: 0 }.change(naive, Index(1)));
    let jobs = (0..2)
        .flat_map(|job| Command::RegisterJob { job, is_system: false, stop: false }.change(naive, Index(1)));
    nodes.chain(jobs).collect()
}

impl Command {
    /// Returns the change that the command makes at `index`, or `None` if its objects do not exist.
    pub(crate) fn change(&self, naive: &Naive, index: Index) -> Option<Change> {
        let change = match self {
            Self::RegisterNode { node, shape } => {
                Change::Node(Box::new(registered_node(*node, *shape, naive)))
            }
            Self::ChangeServerSide { node, server } => {
                let id = node_id(*node);
                naive.nodes.get(&id)?;
                Change::NodeServerSide { id, server: Box::new(server.clone()) }
            }
            Self::ChangeNodes { nodes, change } => {
                let ids = nodes.iter().copied().map(node_id).filter(|id| naive.nodes.contains_key(id));
                Change::NodesChanged(Box::new(NodesChanged { ids: ids.collect(), ..change.clone() }))
            }
            Self::DeleteNodes(nodes) => Change::NodesDeleted(nodes.iter().copied().map(node_id).collect()),
            Self::RegisterJob { job, is_system, stop } => {
                let kind = if *is_system { JobType::System } else { JobType::Service };
                Change::Job(Arc::new(registered_job(*job, kind, *stop, naive, index)))
            }
            Self::SetJobFields { version, stable, description } => Change::JobFields(JobFields {
                key: pick_version(version, naive)?,
                status: if *stable { JobStatus::Running } else { JobStatus::Dead },
                status_description: description.clone(),
                stable: *stable,
                version_tag: None,
            }),
            Self::ForgetOldVersions(job) => {
                let versions = naive.versions(&job_key(*job));
                let (_, old) = versions.split_last()?;
                Change::JobVersionsDeleted(old.iter().map(|job| job.version_key()).collect())
            }
            Self::Submit { version, source, is_copy } => Change::JobSubmission(Box::new(JobSubmission {
                version: pick_version(version, naive)?,
                job_modify_index: index,
                source: Arc::new(JobSource { text: source.clone(), ..JobSource::default() }),
                is_copy: *is_copy,
            })),
            Self::CopySubmission { from, to } => {
                Change::JobSubmissionCopied { from: pick_version(from, naive)?, to: pick_version(to, naive)? }
            }
            Self::ForgetOldSubmissions(job) => {
                let of_job = naive.submissions.keys().filter(|version| version.job == job_key(*job));
                let versions: Vec<_> = of_job.cloned().collect();
                let (_, old) = versions.split_last()?;
                Change::JobSubmissionsDeleted(old.to_vec())
            }
            Self::PurgeJob(job) => Change::JobDeleted(job_key(*job)),
            Self::WriteSummary(job) => Change::JobSummary(Arc::new(JobSummary {
                job: job_key(*job),
                groups: Map::default(),
                children: None,
                scaling_events: None,
                create_index: index,
                modify_index: index,
            })),
            Self::Place { version, request, canary, rows } => {
                let version = pick_version(version, naive)?;
                Change::AllocsPlaced(Box::new(placements(version, request, *canary, rows, naive)?))
            }
            Self::ChangeAllocs { change, columns, update, rows } => {
                Change::AllocsChanged(Box::new(changed(change, *columns, update, rows, naive)?))
            }
            Self::WriteAlloc { alloc, node, version, request, granted, named, as_changed } => {
                let (resources, assigned) = request.split(*granted);
                let alloc = Allocation {
                    name_index: named.then_some(7),
                    assigned,
                    ..pending(
                        alloc_id(*alloc),
                        common(pick_version(version, naive)?, resources),
                        node_id(*node),
                        index,
                    )
                };
                Change::Alloc(Box::new(with_change(alloc, as_changed)))
            }
            Self::RewriteAlloc { alloc, as_changed } => {
                let alloc = naive.allocs.get(&alloc_id(*alloc))?.clone();
                naive.jobs.get(&alloc.common.job)?;
                let alloc = Allocation { node_name: FORMER_NAME.into(), ..alloc };
                Change::Alloc(Box::new(with_change(alloc, as_changed)))
            }
            Self::DeleteAllocs(allocs) => {
                Change::AllocsDeleted(allocs.iter().copied().map(alloc_id).collect())
            }
            Self::WriteEval { eval, job, status, is_outcome, recreated } => {
                let id = eval_id(*eval);
                let known = naive.evals.get(&id).filter(|_| !recreated).cloned();
                let eval = known.unwrap_or_else(|| Evaluation {
                    create_index: index,
                    ..Evaluation::new(id, job_key(*job), JobType::Service, 50, EvalTrigger::JobRegister)
                });
                let eval = Arc::new(Evaluation { status: *status, modify_index: index, ..eval });
                if *is_outcome { Change::EvalOutcome(eval) } else { Change::Eval(eval) }
            }
            Self::ChangeEvals(change) => Change::EvalsChanged(change.clone()),
            Self::ApplyPlan { eval, job } => {
                Change::PlanApplied { job: job_of_eval(*eval, *job, naive), eval_id: eval_id(*eval) }
            }
            Self::DeleteEvals(evals) => Change::EvalsDeleted(evals.iter().copied().map(eval_id).collect()),
            Self::WriteDeployment { deployment, version, status, recreated } => {
                let id = deployment_id(*deployment);
                let known = naive.deployments.get(&id).filter(|_| !recreated);
                let deployment = match known {
                    Some(known) => known.clone(),
                    None => build::deployment(id, pick_version(version, naive)?, index),
                };
                Change::Deployment(Arc::new(Deployment {
                    status: *status,
                    modify_index: index,
                    ..deployment
                }))
            }
            Self::ChangeDeployment(fields) => Change::DeploymentFields(Box::new(fields.clone())),
            Self::DeleteDeployments(deployments) => {
                Change::DeploymentsDeleted(deployments.iter().copied().map(deployment_id).collect())
            }
            Self::RecordUnblocked(unblocked) => Change::Unblocked(unblocked.clone()),
            Self::ForgetUnblocked { age } => Change::UnblockedForgotten(Index(index.0.saturating_sub(*age))),
        };
        Some(change)
    }
}

fn registered_node(node: u8, shape: u8, naive: &Naive) -> Node {
    let id = node_id(node);
    let mhz = 4000 + u32::from(shape) * 100;
    let spec = NodeSpec {
        // A machine sometimes gets another name.
        name: format!("node-{node}-{}", shape / 8).into(),
        datacenter: format!("dc{}", shape % 2).into(),
        node_pool: format!("pool{}", shape % 3).into(),
        computed_class: format!("v1:{}", shape % 4).into(),
        resources: NodeResources {
            processors: Topology { override_total_mhz: mhz, ..Topology::default() },
            memory_mb: 8192,
            disk_mb: 100_000,
            ..NodeResources::default()
        },
        reserved: NodeReserved {
            cpu_mhz: 100,
            memory_mb: 256,
            ports: if shape.is_multiple_of(5) { "22" } else { "" }.into(),
            ..NodeReserved::default()
        },
        max_allocs: u32::from(shape % 3),
        ..NodeSpec::default()
    };
    let fresh = NodeServerSide { status: NodeStatus::Ready, ..NodeServerSide::default() };
    let server = naive.nodes.get(&id).map_or(fresh, |known| known.server.clone());
    Node { id, spec: Arc::new(spec), server }
}

fn registered_job(job: u8, kind: JobType, stop: bool, naive: &Naive, index: Index) -> Job {
    let key = job_key(job);
    let current = naive.versions(&key).last().copied();
    let spec = JobSpec { namespace: key.namespace, id: key.id, kind, stop, ..JobSpec::default() };
    Job {
        spec: Arc::new(spec),
        version: current.map_or(0, |current| current.version + 1),
        create_index: current.map_or(index, |current| current.create_index),
        modify_index: index,
        ..Job::default()
    }
}

/// Chooses one of all versions of all jobs.
fn pick_version(version: &Pick, naive: &Naive) -> Option<JobVersionKey> {
    let versions: Vec<JobVersionKey> = naive.jobs.keys().cloned().collect();
    (!versions.is_empty()).then(|| version.get(&versions).clone())
}

/// The job of an existing evaluation, or else `job`.
fn job_of_eval(eval: u8, job: u8, naive: &Naive) -> JobKey {
    naive.evals.get(&eval_id(eval)).map_or_else(|| job_key(job), |eval| eval.job.clone())
}

fn common(job: JobVersionKey, resources: AllocatedResources) -> AllocCommon {
    AllocCommon {
        name_stem: format!("{}.app", job.job.id).into(),
        job,
        task_group: "app".into(),
        eval_id: eval_id(0),
        deployment_id: None,
        resources,
        metrics: PackedMetric::default(),
        trace: None,
    }
}

fn placements(
    version: JobVersionKey,
    request: &ResourceRequest,
    canary: bool,
    rows: &[PlacedRow],
    naive: &Naive,
) -> Option<Placements> {
    let free = |row: &&PlacedRow| !naive.allocs.contains_key(&alloc_id(row.alloc));
    let on_known = |row: &&PlacedRow| naive.nodes.contains_key(&node_id(row.node));
    let rows: BTreeMap<u8, &PlacedRow> =
        rows.iter().filter(free).filter(on_known).map(|row| (row.alloc, row)).collect();
    let (resources, _) = request.split(rows.values().next()?.granted);
    // An allocation may also replace a deleted one, but only one of the same job.
    let is_replaceable =
        |id: &AllocId| naive.allocs.get(id).is_none_or(|replaced| replaced.common.job.job == version.job);
    let mut placements = Placements::new(Arc::new(common(version.clone(), resources)));
    placements.canary = canary;
    let mut slots = BTreeMap::new();
    // In descending order of ids, because columns need not be sorted.
    for row in rows.into_values().rev() {
        let node = node_id(row.node);
        let node = *slots.entry(node).or_insert_with(|| placements.add_node(node));
        placements.push(Placement {
            id: alloc_id(row.alloc),
            node,
            name_index: u32::from(row.alloc),
            previous: row.previous.map(alloc_id).filter(is_replaceable),
            assigned: request.split(row.granted).1,
            reschedule: (row.reschedules > 0).then(|| tracker(row.reschedules)),
            preempted: row.preempted.iter().copied().map(alloc_id).collect(),
        });
    }
    Some(placements)
}

fn changed(
    change: &AllocsChanged,
    columns: Columns,
    update: &Update,
    rows: &[ChangedRow],
    naive: &Naive,
) -> Option<AllocsChanged> {
    let mut rows: BTreeMap<AllocId, &ChangedRow> =
        rows.iter().map(|row| (alloc_id(row.alloc), row)).collect();
    rows.retain(|id, _| naive.allocs.contains_key(id));
    let mut change = change.clone();
    match update {
        Update::Nothing => {}
        Update::Reassign => {
            change.assigned = rows
                .iter()
                .map(|(id, row)| {
                    let mut whole = naive.allocs[id].resources();
                    requests::set_granted(&mut whole, row.granted);
                    PackedAssigned::pack(&whole.split().1)
                })
                .collect();
        }
        Update::InPlace { version: pick_of, request } => {
            let (first, row) = rows.first_key_value()?;
            let (resources, job) = (request.split(row.granted).0, naive.allocs[first].common.job.job.clone());
            rows.retain(|id, _| naive.allocs[id].common.job.job == job);
            let versions = naive.versions(&job);
            if versions.is_empty() {
                return None;
            }
            change.common = Some(Arc::new(common(pick_of.get(&versions).version_key(), resources)));
            change.assigned = rows.values().map(|row| request.split(row.granted).1).collect();
            let had_none = rows.keys().all(|id| naive.allocs[id].assigned.is_empty());
            if had_none && change.assigned.iter().all(PackedAssigned::is_empty) {
                change.assigned.clear();
            }
        }
    }
    change.ids = rows.keys().copied().collect();
    for row in rows.into_values() {
        if columns.reports {
            change.reports.push(ReportNumber(u64::from(row.tasks)));
        }
        if columns.task_states {
            change.task_states.push(task_states(row.tasks));
        }
        if columns.verdicts {
            change.verdicts.push(row.verdict);
        }
        if columns.network {
            change.network.push(row.address.map(network));
        }
    }
    Some(change)
}

fn pending(id: AllocId, common: AllocCommon, node_id: NodeId, index: Index) -> Allocation {
    Allocation {
        id,
        common: Arc::new(common),
        name_index: None,
        node_id,
        node_name: FORMER_NAME.into(),
        assigned: PackedAssigned::default(),
        desired_status: DesiredStatus::Run,
        desired_description: Text::default(),
        desired_transition: DesiredTransition::default(),
        client_status: ClientStatus::Pending,
        client_description: Text::default(),
        task_states: PackedTaskStates::default(),
        health: None,
        extra: AllocExtra::default(),
        report: ReportNumber::default(),
        create_index: index,
        modify_index: index,
        alloc_modify_index: index,
        create_time: Timestamp::from_secs(1),
        modify_time: Timestamp::from_secs(2),
    }
}

/// Returns `alloc` with the values of `change`.
fn with_change(mut alloc: Allocation, change: &AllocsChanged) -> Allocation {
    if let Some((status, description)) = &change.desired {
        (alloc.desired_status, alloc.desired_description) = (*status, description.clone());
    }
    if let Some((status, description)) = &change.client {
        (alloc.client_status, alloc.client_description) = (*status, description.clone());
    }
    alloc.desired_transition = change.transition.unwrap_or_default();
    alloc.health = change.health.flatten();
    alloc.extra.preempted_by = change.preempted_by;
    alloc
}

fn tracker(reschedules: u8) -> Arc<RescheduleTracker> {
    let event = |number| RescheduleEvent {
        time: Timestamp::from_secs(i64::from(number)),
        previous: alloc_id(number),
        previous_node: node_id(0),
        delay: Nanos::ZERO,
    };
    Arc::new(RescheduleTracker { events: (0..reschedules).map(event).collect(), last: None })
}

fn task_states(tasks: u8) -> PackedTaskStates {
    let states: Vec<_> =
        (0..tasks).map(|number| TaskState::pending(format!("task-{number}").into())).collect();
    PackedTaskStates::pack(&states)
}

fn network(number: u8) -> Arc<NetworkStatus> {
    Arc::new(NetworkStatus { address: format!("172.26.0.{number}").into(), ..NetworkStatus::default() })
}
