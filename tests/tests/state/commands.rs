//! Random commands. `effects` turns each into a change of the current cluster.
//!
//! Commands name objects by small numbers, so that they often refer to the same ones: a deleted id comes back, a
//! deleted node still has allocations, a job is purged and registered again.

use model::alloc::{AllocState, ClientStatus, DesiredStatus, DesiredTransition, Health, RescheduleOutcome};
use model::change::{
    AllocsChanged, DeploymentFields, DeploymentProgress, EvalsChanged, NodesChanged, Unblocked,
};
use model::deployment::DeploymentStatus;
use model::eval::EvalStatus;
use model::node::{Drain, EVENTS_MAX, Eligibility, NodeEvent, NodeServerSide, NodeStatus};
use model::{Index, Text, Timestamp};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index as Pick, select};

use crate::pool::{ALLOCS, DEPLOYMENTS, EVALS, JOBS, NODES, alloc_id, deployment_id, eval_id};
use crate::requests::{self, Granted, ResourceRequest};

#[derive(Debug, Clone)]
pub(crate) enum Command {
    RegisterNode {
        node: u8,
        shape: u8,
    },
    ChangeServerSide {
        node: u8,
        server: NodeServerSide,
    },
    ChangeNodes {
        nodes: Vec<u8>,
        change: NodesChanged,
    },
    DeleteNodes(Vec<u8>),
    RegisterJob {
        job: u8,
        is_system: bool,
        stop: bool,
    },
    SetJobFields {
        version: Pick,
        stable: bool,
        description: Text,
    },
    ForgetOldVersions(u8),
    /// Stores the source of a version.
    Submit {
        version: Pick,
        source: Text,
        is_copy: bool,
    },
    /// The version may have no source.
    CopySubmission {
        from: Pick,
        to: Pick,
    },
    ForgetOldSubmissions(u8),
    PurgeJob(u8),
    WriteSummary(u8),
    Place {
        version: Pick,
        request: ResourceRequest,
        canary: bool,
        rows: Vec<PlacedRow>,
    },
    ChangeAllocs {
        change: AllocsChanged,
        columns: Columns,
        update: Update,
        rows: Vec<ChangedRow>,
    },
    WriteAlloc {
        alloc: u8,
        node: u8,
        version: Pick,
        request: ResourceRequest,
        granted: Granted,
        named: bool,
        as_changed: AllocsChanged,
    },
    RewriteAlloc {
        alloc: u8,
        as_changed: AllocsChanged,
    },
    DeleteAllocs(Vec<u8>),
    WriteEval {
        eval: u8,
        job: u8,
        status: EvalStatus,
        is_outcome: bool,
        /// Writes the evaluation as if it had been deleted in between.
        recreated: bool,
    },
    /// The evaluations may have been deleted.
    ChangeEvals(EvalsChanged),
    ApplyPlan {
        eval: u8,
        job: u8,
    },
    DeleteEvals(Vec<u8>),
    WriteDeployment {
        deployment: u8,
        version: Pick,
        status: DeploymentStatus,
        /// Writes the deployment as if it had been deleted in between.
        recreated: bool,
    },
    /// The deployment may have been deleted.
    ChangeDeployment(DeploymentFields),
    DeleteDeployments(Vec<u8>),
    RecordUnblocked(Unblocked),
    ForgetUnblocked {
        age: u64,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct PlacedRow {
    pub(crate) alloc: u8,
    pub(crate) node: u8,
    pub(crate) granted: Granted,
    pub(crate) previous: Option<u8>,
    pub(crate) reschedules: u8,
    pub(crate) preempted: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct ChangedRow {
    pub(crate) alloc: u8,
    pub(crate) granted: Granted,
    pub(crate) tasks: u8,
    pub(crate) verdict: Option<(bool, Timestamp)>,
    pub(crate) address: Option<u8>,
}

/// The columns that a change of allocations has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) reports: bool,
    pub(crate) task_states: bool,
    pub(crate) verdicts: bool,
    pub(crate) network: bool,
}

/// How the resources of changed allocations change.
#[derive(Debug, Clone)]
pub(crate) enum Update {
    Nothing,
    /// Other ports and other cores.
    Reassign,
    /// Another version of their job, with another request.
    InPlace {
        version: Pick,
        request: ResourceRequest,
    },
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    let nodes = || vec(0..NODES, 1..3);
    let version = any::<Pick>;
    prop_oneof![
        3 => (0..NODES, 0..12u8).prop_map(|(node, shape)| Command::RegisterNode { node, shape }),
        2 => (0..NODES, server_side()).prop_map(|(node, server)| Command::ChangeServerSide { node, server }),
        3 => (nodes(), nodes_changed()).prop_map(|(nodes, change)| Command::ChangeNodes { nodes, change }),
        1 => nodes().prop_map(Command::DeleteNodes),
        3 => (0..JOBS, any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(job, is_system, stop)| Command::RegisterJob { job, is_system, stop }),
        1 => (version(), any::<bool>(), description())
            .prop_map(|(version, stable, description)| Command::SetJobFields { version, stable, description }),
        1 => (0..JOBS).prop_map(Command::ForgetOldVersions),
        2 => (version(), name(), any::<bool>())
            .prop_map(|(version, source, is_copy)| Command::Submit { version, source, is_copy }),
        1 => (version(), version()).prop_map(|(from, to)| Command::CopySubmission { from, to }),
        1 => (0..JOBS).prop_map(Command::ForgetOldSubmissions),
        1 => (0..JOBS).prop_map(Command::PurgeJob),
        1 => (0..JOBS).prop_map(Command::WriteSummary),
        6 => (version(), requests::request(), any::<bool>(), vec(placed_row(), 1..6))
            .prop_map(|(version, request, canary, rows)| Command::Place { version, request, canary, rows }),
        8 => (allocs_changed(), columns(), update(), vec(changed_row(), 1..6))
            .prop_map(|(change, columns, update, rows)| {
                Command::ChangeAllocs { change, columns, update, rows }
            }),
        2 => (0..ALLOCS, 0..NODES, version(), requests::request(), requests::granted(), any::<bool>(), allocs_changed())
            .prop_map(|(alloc, node, version, request, granted, named, as_changed)| {
                Command::WriteAlloc { alloc, node, version, request, granted, named, as_changed }
            }),
        1 => (0..ALLOCS, allocs_changed())
            .prop_map(|(alloc, as_changed)| Command::RewriteAlloc { alloc, as_changed }),
        2 => vec(0..ALLOCS, 1..5).prop_map(Command::DeleteAllocs),
        2 => (0..EVALS, 0..JOBS, select(EvalStatus::ALL), any::<bool>(), rarely()).prop_map(
            |(eval, job, status, is_outcome, recreated)| Command::WriteEval { eval, job, status, is_outcome, recreated }
        ),
        2 => evals_changed().prop_map(Command::ChangeEvals),
        1 => (0..EVALS, 0..JOBS).prop_map(|(eval, job)| Command::ApplyPlan { eval, job }),
        1 => vec(0..EVALS, 1..3).prop_map(Command::DeleteEvals),
        2 => (0..DEPLOYMENTS, version(), select(DeploymentStatus::ALL), rarely()).prop_map(
            |(deployment, version, status, recreated)| {
                Command::WriteDeployment { deployment, version, status, recreated }
            }
        ),
        2 => deployment_fields().prop_map(Command::ChangeDeployment),
        1 => vec(0..DEPLOYMENTS, 1..3).prop_map(Command::DeleteDeployments),
        1 => (vec(name(), 0..2), vec(name(), 0..2), vec(name(), 0..2)).prop_map(
            |(classes, quotas, resources)| {
                Command::RecordUnblocked(Unblocked { classes, quotas, nodes: Vec::new(), resources })
            }
        ),
        1 => (0..10u64).prop_map(|age| Command::ForgetUnblocked { age }),
    ]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.1)
}

fn name() -> impl Strategy<Value = Text> {
    (0..3u8).prop_map(|number| format!("name {number}").into())
}

fn description() -> impl Strategy<Value = Text> {
    const KNOWN: &[&str] = &["", "alloc is lost since its node is down", "Tasks are running"];
    prop_oneof![select(KNOWN).prop_map(Text::from), name()]
}

fn server_side() -> impl Strategy<Value = NodeServerSide> {
    let status = prop_oneof![Just(NodeStatus::Ready), select(NodeStatus::ALL)];
    // A record of another version may hold more events than are kept.
    let events = vec(event(), 0..=EVENTS_MAX + 1);
    (status, select(Eligibility::ALL), prop::bool::weighted(0.3), events).prop_map(
        |(status, eligibility, draining, events)| {
            let drain = draining.then(Drain::default);
            NodeServerSide { status, eligibility, drain, events, ..NodeServerSide::default() }
        },
    )
}

fn event() -> impl Strategy<Value = NodeEvent> {
    name().prop_map(|message| NodeEvent {
        message,
        subsystem: "Cluster".into(),
        details: Default::default(),
        timestamp: Timestamp::from_secs(1),
        create_index: Index::ZERO,
    })
}

/// A change without its ids.
fn nodes_changed() -> impl Strategy<Value = NodesChanged> {
    let index = || option::of((0..3u64).prop_map(Index));
    (option::of(select(NodeStatus::ALL)), option::of(event()), index(), index()).prop_map(
        |(status, event, last_missed_heartbeat_index, last_alloc_update_index)| NodesChanged {
            ids: Vec::new(),
            status,
            event,
            last_missed_heartbeat_index,
            last_alloc_update_index,
        },
    )
}

fn evals_changed() -> impl Strategy<Value = EvalsChanged> {
    let ids = vec((0..EVALS).prop_map(eval_id), 1..4);
    let status = option::of((select(EvalStatus::ALL), description()));
    (ids, status, option::of((0..EVALS).prop_map(eval_id)))
        .prop_map(|(ids, status, next_eval)| EvalsChanged { ids, status, next_eval })
}

fn deployment_fields() -> impl Strategy<Value = DeploymentFields> {
    let canaries = vec((0..ALLOCS).prop_map(alloc_id), 0..3);
    let progress = (name(), 0..3u32, 0..3u32, 0..3u32, 0..3i64, canaries).prop_map(
        |(group, placed_allocs, healthy_allocs, unhealthy_allocs, by, new_canaries)| DeploymentProgress {
            group,
            placed_allocs,
            healthy_allocs,
            unhealthy_allocs,
            require_progress_by: Timestamp::from_secs(by),
            new_canaries,
        },
    );
    let status = option::of((select(DeploymentStatus::ALL), description()));
    ((0..DEPLOYMENTS).prop_map(deployment_id), status, vec(progress, 0..3))
        .prop_map(|(id, status, groups)| DeploymentFields { id, status, groups })
}

fn placed_row() -> impl Strategy<Value = PlacedRow> {
    (0..ALLOCS, 0..NODES, requests::granted(), option::of(0..ALLOCS), 0..2u8, vec(0..ALLOCS, 0..2)).prop_map(
        |(alloc, node, granted, previous, reschedules, preempted)| PlacedRow {
            alloc,
            node,
            granted,
            previous,
            reschedules,
            preempted,
        },
    )
}

fn changed_row() -> impl Strategy<Value = ChangedRow> {
    let verdict = option::of((any::<bool>(), (0..3i64).prop_map(Timestamp::from_secs)));
    (0..ALLOCS, requests::granted(), 0..3u8, verdict, option::of(0..3u8)).prop_map(
        |(alloc, granted, tasks, verdict, address)| ChangedRow { alloc, granted, tasks, verdict, address },
    )
}

fn columns() -> impl Strategy<Value = Columns> {
    let often = || prop::bool::weighted(0.3);
    (often(), often(), often(), often()).prop_map(|(reports, task_states, verdicts, network)| Columns {
        reports,
        task_states,
        verdicts,
        network,
    })
}

fn update() -> impl Strategy<Value = Update> {
    prop_oneof![
        3 => Just(Update::Nothing),
        1 => Just(Update::Reassign),
        2 => (any::<Pick>(), requests::request()).prop_map(|(version, request)| Update::InPlace { version, request }),
    ]
}

/// A change without its ids and columns.
fn allocs_changed() -> impl Strategy<Value = AllocsChanged> {
    let flag = || option::weighted(0.3, any::<bool>());
    let transition = (flag(), flag(), flag(), flag(), flag()).prop_map(
        |(migrate, reschedule, force_reschedule, no_shutdown_delay, migrate_disable_placement)| {
            DesiredTransition {
                migrate,
                reschedule,
                force_reschedule,
                no_shutdown_delay,
                migrate_disable_placement,
            }
        },
    );
    let health = (option::of(any::<bool>()), any::<bool>(), 0..3u64).prop_map(|(healthy, canary, index)| {
        let timestamp = Timestamp::from_secs(index as i64);
        Health { healthy, timestamp, canary, modify_index: Index(index) }
    });
    let append_state = option::of(select(ClientStatus::ALL))
        .prop_map(|client_status| AllocState { client_status, time: Timestamp::from_secs(1) });
    (
        any::<bool>(),
        option::weighted(0.3, (select(DesiredStatus::ALL), description())),
        option::weighted(0.3, transition),
        option::weighted(0.5, (select(ClientStatus::ALL), description())),
        option::weighted(0.2, append_state),
        option::weighted(0.2, option::of((0..EVALS).prop_map(eval_id))),
        option::weighted(0.3, select(RescheduleOutcome::ALL)),
        option::weighted(0.2, (0..ALLOCS).prop_map(alloc_id)),
        option::weighted(0.3, option::of(health)),
    )
        .prop_map(
            |(
                by_servers,
                desired,
                transition,
                client,
                append_state,
                followup_eval,
                reschedule,
                preempted_by,
                health,
            )| {
                AllocsChanged {
                    by_servers,
                    desired,
                    transition,
                    client,
                    append_state,
                    followup_eval,
                    reschedule,
                    preempted_by,
                    health,
                    ..AllocsChanged::default()
                }
            },
        )
}
