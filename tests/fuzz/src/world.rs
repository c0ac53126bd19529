//! The clusters that targets work on.

use std::sync::{Arc, LazyLock};

use model::change::{Change, ChangeSet};
use model::cluster::{Lease, Singleton};
use model::job::{Job, JobSpec};
use model::{AllocId, DeploymentId, Epoch, EvalId, Index, JobKey, JobVersionKey, NodeId, ProcessId};
use plan_applier::judge::bootstrap;
use state::State;
use tests::build::{self, Log};
use tests::recorded::cases_of;
use wire::Wire as _;
use wire::samples::{Sample, samples};

use crate::seeds;

/// Ids of the objects in the samples of messages, so that these refer to objects that exist.
pub(crate) const ALLOC: AllocId = AllocId::from_bytes([1; 16]);
pub(crate) const EVAL: EvalId = EvalId::from_bytes([2; 16]);
pub(crate) const NODE: NodeId = NodeId::from_bytes([3; 16]);
pub(crate) const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([10; 16]);
const PROCESS: ProcessId = ProcessId::from_bytes([6; 16]);
const EPOCH: Epoch = Epoch(7);

/// The job version in the samples of messages.
pub(crate) fn job_version() -> JobVersionKey {
    JobVersionKey { job: JobKey::new("default", "web"), create_index: Index(9), version: 2 }
}

/// The job of that version, with one group `app`.
pub(crate) fn job() -> Job {
    let JobVersionKey { job, create_index, version } = job_version();
    let built = build::job(1, 1);
    let spec = JobSpec { id: job.id.clone(), name: job.id.clone(), ..JobSpec::clone(&built.spec) };
    Job { spec: Arc::new(spec), create_index, version, ..built }
}

/// A new cluster.
pub(crate) fn empty() -> State {
    static STATE: LazyLock<State> = LazyLock::new(|| {
        let mut state = State::default();
        let objects = bootstrap(&state).expect("an empty state lacks the objects of every cluster");
        apply(&mut state, objects);
        state
    });
    STATE.clone()
}

/// A cluster with recorded objects of every kind, for reading.
pub(crate) fn recorded() -> State {
    static STATE: LazyLock<State> = LazyLock::new(|| {
        let mut state = State::default();
        for changes in recorded_changes() {
            state.load(&changes).expect("recorded states are consistent");
        }
        let missing = bootstrap(&state).unwrap_or_default();
        apply(&mut state, missing);
        state
    });
    STATE.clone()
}

/// The change sets that make [`recorded`].
pub(crate) fn recorded_changes() -> impl Iterator<Item = ChangeSet> {
    let files = ["scheduling/deployments.jsonl", "made-up.jsonl"];
    files.into_iter().map(|file| cases_of(&seeds::data().join(file)).swap_remove(0).changes())
}

/// A cluster with the objects to which the samples of messages refer, for changing.
pub(crate) fn sampled() -> State {
    static STATE: LazyLock<State> = LazyLock::new(|| {
        let mut state = empty();
        let lease =
            |service| Change::Lease(Lease { service, holder: PROCESS, epoch: EPOCH, modify_index: Index(1) });
        let mut changes: Vec<Change> = Singleton::ALL.iter().copied().map(lease).collect();
        changes.extend([
            Change::Node(Box::new(build::node(NODE, 1))),
            Change::Job(Arc::new(job())),
            Change::Deployment(Arc::new(build::deployment(DEPLOYMENT, job_version(), Index(1)))),
        ]);
        apply(&mut state, changes);
        apply(&mut state, sampled_changes().changes);
        state
    });
    STATE.clone()
}

/// The sample of a change set.
pub(crate) fn sampled_changes() -> ChangeSet {
    let sample = samples_of(ChangeSet::KIND).swap_remove(0);
    wire::decode(ChangeSet::KIND, ChangeSet::VERSION, &sample.bytes).expect("a sample is readable")
}

/// The samples of messages of a kind.
pub(crate) fn samples_of(kind: &str) -> Vec<Sample> {
    samples().into_iter().filter(|sample| sample.kind == kind).collect()
}

/// Applies changes as the next change set.
pub(crate) fn apply(state: &mut State, changes: Vec<Change>) {
    let changes = Log::from(state.index()).entry(changes);
    state.apply(&changes).expect("the changes fit the state");
}
