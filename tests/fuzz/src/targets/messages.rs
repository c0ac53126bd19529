//! MessagePack: every message, and change sets, which are the rows of the log.

use std::sync::LazyLock;

use model::alloc::{ClientStatus, DesiredStatus, DesiredTransition};
use model::change::{AllocsChanged, Change, ChangeSet, EvalsChanged, JobFields, NodesChanged, Unblocked};
use model::eval::EvalStatus;
use model::job::JobStatus;
use model::node::NodeStatus;
use model::{Index, SmallObject as _, Text};
use serde::Serialize;
use state::{State, View};
use tests::build;
use wire::samples::{Sample, samples};
use wire::{LogRow, Wire as _};

use crate::target::Target;
use crate::world::{self, ALLOC, DEPLOYMENT, EVAL, NODE};

/// Maximum size of a message, in bytes.
const MESSAGE_BYTES_MAX: usize = wire::envelope::COMMAND_BYTES_MAX;

/// Messages of every kind: a byte that selects the kind, and the body.
pub static MESSAGE: Target = Target {
    name: "message",
    run: message,
    seeds: || {
        let number = |sample: &Sample| KINDS.iter().position(|known| known.kind == sample.kind);
        let input = |sample: Sample| {
            let kind = u8::try_from(number(&sample)?).ok()?;
            Some([&[kind][..], &sample.bytes].concat())
        };
        samples().into_iter().filter_map(input).collect()
    },
    words: MESSAGE_PACK,
    repeated: &[],
    size_max: MESSAGE_BYTES_MAX,
};

/// Change sets, decoded, applied to a state, and read.
pub static CHANGE_SET: Target = Target {
    name: "change_set",
    run: change_set,
    seeds: || {
        let single = changes().into_iter().map(|change| build::change_set(Index(1), vec![change]));
        let all = [world::sampled_changes(), build::change_set(Index(1), changes())];
        single.chain(all).map(|set| wire::encode(&set)).collect()
    },
    words: MESSAGE_PACK,
    repeated: &[],
    size_max: MESSAGE_BYTES_MAX,
};

/// Names that occur in many messages, and the heads of short maps and lists.
pub(super) const MESSAGE_PACK: &[&str] = &[
    "\u{0}",
    "\u{1}",
    "\u{7f}",
    "changes",
    "index",
    "\u{2}id",
    "\u{3}ids",
    "status",
    "default",
    "web",
    "app",
    "spec",
    "task_groups",
    "tasks",
    "common",
    "assigned",
    "resources",
    "run",
    "stop",
    "running",
    "failed",
    "service",
    "batch",
    "system",
];

/// The kinds of messages, each with one sample.
static KINDS: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let mut kinds: Vec<Sample> = Vec::new();
    for sample in samples() {
        if kinds.iter().all(|known| known.kind != sample.kind) {
            kinds.push(sample);
        }
    }
    kinds
});

/// Changes of most kinds, of objects that exist.
fn changes() -> Vec<Change> {
    let job = world::job_version();
    let allocs = AllocsChanged {
        desired: Some((DesiredStatus::Stop, Text::default())),
        transition: Some(DesiredTransition { migrate: Some(true), ..DesiredTransition::default() }),
        client: Some((ClientStatus::Complete, "done".into())),
        followup_eval: Some(Some(EVAL)),
        health: Some(None),
        ..build::running(&[ALLOC])
    };
    let nodes = NodesChanged {
        ids: vec![NODE],
        status: Some(NodeStatus::Down),
        last_missed_heartbeat_index: Some(Index(3)),
        ..NodesChanged::default()
    };
    let evals = EvalsChanged {
        ids: vec![EVAL],
        status: Some((EvalStatus::Complete, Text::default())),
        next_eval: Some(EVAL),
    };
    let fields = JobFields {
        key: job.clone(),
        status: JobStatus::Dead,
        status_description: "stopped".into(),
        stable: true,
        version_tag: None,
    };
    let unblocked = Unblocked { classes: vec!["v1:1".into()], ..Unblocked::default() };
    let recorded = world::recorded_changes().flat_map(|set| set.changes);
    recorded
        .chain([
            Change::AllocsChanged(Box::new(allocs)),
            Change::AllocsDeleted([ALLOC].into_iter().collect()),
            Change::NodesChanged(Box::new(nodes)),
            Change::NodesDeleted(vec![NODE]),
            Change::EvalsChanged(evals),
            Change::EvalsDeleted(vec![EVAL]),
            Change::DeploymentsDeleted(vec![DEPLOYMENT]),
            Change::JobFields(fields),
            Change::JobSubmissionCopied { from: job.clone(), to: job.clone() },
            Change::JobSubmissionsDeleted(vec![job.clone()]),
            Change::JobVersionsDeleted(vec![job.clone()]),
            Change::PlanApplied { job: job.job.clone(), eval_id: EVAL },
            Change::JobDeleted(job.job),
            Change::Unblocked(unblocked),
            Change::UnblockedForgotten(Index(5)),
            Change::NamespaceDeleted("default".into()),
            Change::NodePoolDeleted("default".into()),
        ])
        .collect()
}

fn message(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else { return };
    let Sample { kind, reencode, .. } = &KINDS[usize::from(*kind) % KINDS.len()];
    let Ok(once) = reencode(body) else { return };
    let twice = reencode(&once);
    let twice =
        twice.unwrap_or_else(|error| panic!("{kind}: a message is unreadable as it was encoded: {error}"));
    assert_eq!(twice, once, "{kind}: decoding and encoding again changes a message");
}

fn change_set(input: &[u8]) {
    let Ok(mut set) = wire::decode::<ChangeSet>(ChangeSet::KIND, ChangeSet::VERSION, input) else { return };
    let row = LogRow::new(&set);
    let again = row.change_set().expect("a row of the log is readable");
    assert_eq!(wire::encode(&again), row.bytes, "decoding and encoding again changes a row of the log");

    let mut state = world::sampled();
    set.index = state.index().next();
    // A change set that does not fit the state is an error, and no panic.
    if state.apply(&set).is_ok() {
        read(&state);
        let mut loaded = world::empty();
        if loaded.load(&set).is_ok() {
            read(&loaded);
        }
    }
}

/// Reads every object of a state in the form of the API.
pub(super) fn read(state: &State) {
    // Groups are decoded when they are first used. The applier has checked those of every job that is registered.
    let versions = state.jobs().flat_map(|job| state.job_versions(&job.key()));
    let of_allocs = state.allocs().map(|alloc| alloc.job());
    if versions.chain(of_allocs).any(|job| job.spec.task_groups.check().is_err()) {
        return;
    }
    for job in state.jobs() {
        let key = job.key();
        state.job_versions(&key).for_each(|job| show(&job.to_api()));
        state.job_submissions(&key).for_each(|submission| drop(wire_form(submission)));
        let _ = (state.job_summary(&key), state.plan_index(&key), state.latest_deployment(&key));
        state.allocs_of_job(&key).for_each(|alloc| drop(alloc.name()));
        state.live_evals_of_job(&key).for_each(|eval| drop(wire_form(eval)));
    }
    for alloc in state.allocs() {
        show(&alloc.to_allocation().to_api());
        let _ = (alloc.resources(), alloc.demand(), alloc.group(), alloc.node(), alloc.health());
        let _ = (alloc.task_states().unpack(), alloc.metrics().unpack(), alloc.assigned().unpack());
    }
    for node in state.nodes() {
        show(&node.node().to_api());
        let _ = (node.capacity(), node.usage(View::Held), node.usage(View::Live), node.work_index());
        let ports = node.ports().into_iter().flat_map(|ports| ports.collisions(View::Live));
        let _ = (ports.count(), node.allocs().count());
    }
    state.evals().for_each(|eval| show(&eval.to_api()));
    state.evals_by_creation(..).for_each(|eval| drop(wire_form(eval)));
    state.deployments().for_each(|deployment| show(&deployment.to_api()));
    state.node_pools().for_each(|pool| show(&pool.to_api()));
    state.namespaces().for_each(|namespace| show(&namespace.to_api()));
    state.host_volumes().for_each(|volume| show(&volume.to_api()));
    state.csi_volumes().for_each(|volume| show(&volume.to_api()));
    state.volume_claims().for_each(|claim| show(&claim.to_api()));
    state.service_registrations().for_each(|service| show(&service.shape()));
    let _ = (state.unblocked().count(), state.root_keys().count(), state.alloc_heap_bytes());
}

fn show(object: &impl Serialize) {
    serde_json::to_vec(object).expect("an object can be encoded as JSON");
}

fn wire_form(object: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(object).expect("an object can be encoded as MessagePack")
}
