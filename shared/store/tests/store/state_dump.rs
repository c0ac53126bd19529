//! [`StateDump`]: the objects of a state, for comparing two states. Indexes of tables and of nodes' work are not included,
//! because a load does not restore them.

use std::collections::BTreeMap;

use model::alloc::Allocation;
use model::change::JobSummary;
use model::cluster::{Lease, Namespace, NodePool, SchedulerConfig, Singleton};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::{Job, JobSubmission};
use model::keyring::RootKey;
use model::node::Node;
use model::service::ServiceRegistration;
use model::volume::{CsiVolume, HostVolume, VolumeClaim};
use model::{Index, JobKey, Timestamp};
use state::{AllocRef, State, UnblockKey};

#[derive(Debug, PartialEq)]
pub(crate) struct StateDump {
    index: Index,
    at: Timestamp,
    jobs: BTreeMap<JobKey, JobDump>,
    evals: Vec<Evaluation>,
    deployments: Vec<Deployment>,
    nodes: Vec<Node>,
    allocs: Vec<Allocation>,
    node_pools: Vec<NodePool>,
    namespaces: Vec<Namespace>,
    scheduler_config: Option<SchedulerConfig>,
    host_volumes: Vec<HostVolume>,
    csi_volumes: Vec<CsiVolume>,
    volume_claims: Vec<VolumeClaim>,
    root_keys: Vec<RootKey>,
    service_registrations: Vec<ServiceRegistration>,
    leases: Vec<Option<Lease>>,
    unblocked: Vec<(UnblockKey, Index)>,
}

#[derive(Debug, PartialEq)]
struct JobDump {
    current: Job,
    versions: Vec<Job>,
    submissions: Vec<JobSubmission>,
    summary: Option<JobSummary>,
    plan_index: Index,
    live_allocs: usize,
}

impl StateDump {
    pub(crate) fn of(state: &State) -> Self {
        let jobs = state.jobs().map(|job| {
            let key = job.key();
            let dump = JobDump {
                current: Job::clone(job),
                versions: state.job_versions(&key).map(|job| Job::clone(job)).collect(),
                submissions: state.job_submissions(&key).map(|kept| JobSubmission::clone(kept)).collect(),
                summary: state.job_summary(&key).map(|summary| JobSummary::clone(summary)),
                plan_index: state.plan_index(&key),
                live_allocs: state.live_alloc_count(&key),
            };
            (key, dump)
        });
        Self {
            index: state.index(),
            at: state.at(),
            jobs: jobs.collect(),
            evals: state.evals().map(|eval| Evaluation::clone(eval)).collect(),
            deployments: state.deployments().map(|deployment| Deployment::clone(deployment)).collect(),
            nodes: state.nodes().map(|node| Node::clone(node.node())).collect(),
            allocs: state.allocs_in(..).map(AllocRef::to_allocation).collect(),
            node_pools: state.node_pools().map(|pool| NodePool::clone(pool)).collect(),
            namespaces: state.namespaces().map(|namespace| Namespace::clone(namespace)).collect(),
            scheduler_config: state.scheduler_config().copied(),
            host_volumes: state.host_volumes().map(|volume| HostVolume::clone(volume)).collect(),
            csi_volumes: state.csi_volumes().map(|volume| CsiVolume::clone(volume)).collect(),
            volume_claims: state.volume_claims().map(|claim| VolumeClaim::clone(claim)).collect(),
            root_keys: state.root_keys().map(|key| RootKey::clone(key)).collect(),
            service_registrations: state.service_registrations().map(|one| (**one).clone()).collect(),
            leases: Singleton::ALL.iter().map(|service| state.lease(*service).copied()).collect(),
            unblocked: state.unblocked().map(|(key, index)| (key.clone(), index)).collect(),
        }
    }
}
