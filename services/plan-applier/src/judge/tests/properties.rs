//! Properties that hold after any sequence of commands: jobs that are registered and stopped, nodes that fail and return,
//! agents that report, and workers that plan on old snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{ClientStatus, GroupSummary, PackedAssigned};
use model::columns::AllocIds;
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::JobType;
use model::node::NodeStatus;
use model::plan::{Placements, Plan, Stops};
use model::service::ServiceRegistration;
use model::{AllocId, JobKey, NodeId};
use proptest::collection::vec;
use proptest::prelude::*;
use state::{AllocRef, State, View};
use wire::command::{
    Command, DeregisterJob, DeregisterNodes, NodeLiveness, NodeReport, Transition, UpdateNodes,
};

use super::describe::assert_same;
use super::plans::{port, with_port};
use super::scene::{
    BOOT, EPOCH, Scene, job_spec, node_spec, patient_service, registration, reports, submission,
};
use crate::judge::jobs;

/// Maximum count of any job.
const COUNT_MAX: u32 = 4;
/// How many old snapshots workers may still plan on.
const SNAPSHOTS: usize = 6;

/// A random step. Numbers choose among existing objects.
#[derive(Debug, Clone)]
enum Step {
    Register {
        job: u8,
        count: u32,
    },
    Deregister {
        job: u8,
        purge: bool,
    },
    Move {
        alloc: usize,
    },
    Node {
        node: u8,
    },
    Sign {
        nodes: Vec<u8>,
        missed: bool,
    },
    ForgetNode {
        node: u8,
    },
    Report {
        node: u8,
        status: ClientStatus,
        from: usize,
        late: bool,
    },
    Plan {
        eval: usize,
        age: usize,
        seed: usize,
        all_at_once: bool,
    },
    Services {
        node: u8,
        alloc: usize,
        /// Which of three services are registered, a bit for each.
        names: u8,
    },
    Wait {
        seconds: i64,
    },
    /// Repeats the last command under another id.
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop::sample::select(ClientStatus::ALL);
    prop_oneof![
        3 => (0..3u8, 0..=COUNT_MAX).prop_map(|(job, count)| Step::Register { job, count }),
        1 => (0..3u8, any::<bool>()).prop_map(|(job, purge)| Step::Deregister { job, purge }),
        1 => any::<usize>().prop_map(|alloc| Step::Move { alloc }),
        3 => (0..4u8).prop_map(|node| Step::Node { node }),
        5 => (vec(0..4u8, 1..3), prop::bool::weighted(0.4)).prop_map(|(nodes, missed)| Step::Sign { nodes, missed }),
        1 => (0..4u8).prop_map(|node| Step::ForgetNode { node }),
        6 => (0..4u8, status, any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(node, status, from, late)| Step::Report { node, status, from, late }),
        10 => (any::<usize>(), 0..SNAPSHOTS, any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(eval, age, seed, all_at_once)| Step::Plan { eval, age, seed, all_at_once }),
        5 => (0..4u8, any::<usize>(), 0..8u8)
            .prop_map(|(node, alloc, names)| Step::Services { node, alloc, names }),
        1 => (1..90i64).prop_map(|seconds| Step::Wait { seconds }),
        2 => Just(Step::Again),
    ]
}

struct History {
    scene: Scene,
    snapshots: Vec<State>,
    last: Option<Command>,
}

impl History {
    fn apply(&mut self, step: &Step) {
        let Some(command) = self.command(step) else { return };
        let before = self.scene.state.clone();
        self.scene.judge(command.clone());
        self.last = Some(command);
        check(&before, &self.scene.state);
        self.snapshots.push(self.scene.state.clone());
        if self.snapshots.len() > SNAPSHOTS {
            self.snapshots.remove(0);
        }
    }

    fn command(&mut self, step: &Step) -> Option<Command> {
        let scene = &mut self.scene;
        match step {
            Step::Register { job, count } => {
                let mut spec = match job {
                    0 => patient_service("job-0"),
                    1 => job_spec("job-1", JobType::Batch),
                    _ => job_spec("job-2", JobType::Service),
                };
                spec.task_groups[0].count = *count;
                Some(Command::RegisterJob(Box::new(registration(spec))))
            }
            Step::Deregister { job, purge } => Some(Command::DeregisterJob(DeregisterJob {
                job: JobKey::new("default", format!("job-{job}")),
                purge: *purge,
                eval_priority: None,
                no_shutdown_delay: false,
            })),
            Step::Move { alloc } => {
                let alloc = pick(&Vec::from_iter(scene.state.allocs().map(|alloc| alloc.id())), *alloc)?;
                let migrate = model::alloc::DesiredTransition { migrate: Some(true), ..Default::default() };
                let (allocs, trigger) = (vec![alloc], EvalTrigger::AllocStop);
                Some(Command::Transition(Transition { allocs, transition: migrate, trigger }))
            }
            Step::Node { node } => {
                let spec = Arc::new(model::node::NodeSpec { max_allocs: 5, ..node_spec() });
                let register = wire::command::RegisterNode { epoch: EPOCH, id: node_id(*node), spec };
                Some(Command::RegisterNode(Box::new(register)))
            }
            Step::Sign { nodes, missed } => {
                let sign = if *missed { NodeLiveness::Missed } else { NodeLiveness::Alive };
                let nodes = nodes.iter().map(|node| node_id(*node)).collect();
                Some(Command::UpdateNodes(UpdateNodes { epoch: EPOCH, sign, nodes }))
            }
            Step::ForgetNode { node } => {
                Some(Command::DeregisterNodes(DeregisterNodes { nodes: vec![node_id(*node)] }))
            }
            Step::Report { node, status, from, late } => {
                let node = node_id(*node);
                let allocs = scene.state.allocs_of_node(node).map(|alloc| alloc.id());
                let allocs: Vec<AllocId> =
                    allocs.enumerate().filter(|(n, _)| from >> (n % 8) & 1 != 0).map(|(_, id)| id).collect();
                let mut allocs: Vec<_> =
                    allocs.into_iter().map(|id| scene.alloc_report(id, *status)).collect();
                allocs.iter_mut().for_each(|report| report.count -= u32::from(*late));
                let missed = scene.state.node(node).map(|node| node.server().last_missed_heartbeat_index);
                Some(reports(vec![NodeReport { node, boot: BOOT, all_since: missed, allocs }]))
            }
            Step::Plan { eval, age, seed, all_at_once } => {
                let snapshot = self.snapshots.iter().rev().nth(*age)?.clone();
                plan(scene, &snapshot, *eval, *seed, *all_at_once)
            }
            Step::Services { node, alloc, names } => {
                // The allocation is one of the node, or any.
                let node = node_id(*node);
                let own = Vec::from_iter(scene.state.allocs_of_node(node).map(|alloc| alloc.id()));
                let all = || Vec::from_iter(scene.state.allocs().map(|alloc| alloc.id()));
                let alloc = pick(&own, *alloc).or_else(|| pick(&all(), *alloc))?;
                let chosen = ["api", "db", "web"].into_iter().enumerate();
                let chosen = chosen.filter(|(bit, _)| names >> bit & 1 != 0);
                let services = chosen.map(|(_, name)| super::services::instance(alloc, name, 80)).collect();
                Some(super::services::set(node, alloc, services))
            }
            Step::Wait { seconds } => {
                scene.wait(model::Nanos::from_secs(*seconds));
                None
            }
            Step::Again => self.last.clone(),
        }
    }
}

fn node_id(number: u8) -> NodeId {
    NodeId::from_bytes([number + 1; 16])
}

fn pick<T: Clone>(items: &[T], number: usize) -> Option<T> {
    items.get(number.checked_rem(items.len())?).cloned()
}

/// A primitive scheduler: it marks allocations on nodes that are down as lost, and places missing ones on any nodes, with
/// one of few ports, without checking resources.
fn plan(scene: &mut Scene, snapshot: &State, eval: usize, seed: usize, all_at_once: bool) -> Option<Command> {
    let evals = snapshot.evals().filter(|eval| eval.status == EvalStatus::Pending);
    let eval = pick(&Vec::from_iter(evals.map(|eval| Evaluation::clone(eval))), eval)?;
    let job = snapshot.job(&eval.job);
    let mut plan = Plan::new(&eval, job.map(|job| job.version_key()), snapshot.index());
    plan.all_at_once = all_at_once;
    let is_down =
        |alloc: &AllocRef<'_>| alloc.node().is_none_or(|node| node.server().status == NodeStatus::Down);
    let live = snapshot.allocs_of_job(&eval.job).filter(|alloc| !alloc.is_terminal());
    let (lost, live): (Vec<_>, Vec<_>) = live.partition(is_down);
    if !lost.is_empty() {
        plan.stops.push(Stops {
            ids: lost.iter().map(|alloc| alloc.id()).collect(),
            description: "alloc is lost since its node is down".into(),
            client_status: Some(ClientStatus::Lost),
            followup_eval: None,
            reschedule: None,
        });
    }
    if let Some(job) = job.filter(|job| !job.spec.stop) {
        let missing = (job.spec.task_groups[0].count as usize).saturating_sub(live.len());
        let mut placements = placements(scene, snapshot, &plan, missing, seed);
        if let Some(placements) = &mut placements {
            let previous = lost.iter().map(|alloc| alloc.id()).chain(std::iter::repeat(AllocIds::NONE));
            placements.previous = previous.take(placements.len()).collect();
        }
        plan.placements.extend(placements);
    } else if !live.is_empty() {
        plan.stops.push(Stops {
            ids: live.iter().map(|alloc| alloc.id()).collect(),
            client_status: None,
            description: "alloc not needed due to job update".into(),
            followup_eval: None,
            reschedule: None,
        });
    }
    let eval = Box::new(Evaluation { status: EvalStatus::Complete, ..eval });
    Some(submission(plan, model::plan::Outcome { eval, creates: Vec::new() }))
}

fn placements(
    scene: &mut Scene,
    snapshot: &State,
    plan: &Plan,
    count: usize,
    seed: usize,
) -> Option<Placements> {
    let nodes: Vec<NodeId> = snapshot.nodes().map(|node| node.id()).collect();
    let on: Vec<NodeId> = (0..count).filter_map(|n| pick(&nodes, seed >> (2 * n))).collect();
    let version = snapshot.job_version(plan.job.as_ref()?)?;
    let mut placements = scene.placements_of(version, plan.eval_id, &on);
    let mut common = with_port((*placements.common).clone());
    common.resources.tasks[0].cpu_mhz = 300;
    placements.common = Arc::new(common);
    placements.assigned = (0..on.len()).map(|n| -> PackedAssigned { port((seed >> n & 3) as u16) }).collect();
    (!placements.is_empty()).then_some(placements)
}

/// Properties of every state, and of every transition.
fn check(before: &State, after: &State) {
    for node in after.nodes() {
        let (live, capacity) = (node.usage(View::Live), node.capacity());
        assert!(
            live.cpu_mhz <= capacity.cpu_mhz && live.memory_mb <= capacity.memory_mb,
            "no node is over capacity"
        );
        let twice = node.ports().is_some_and(|ports| ports.collisions(View::Live).next().is_some());
        assert!(!twice, "no port is used twice");
    }
    for old in before.allocs() {
        let Some(new) = after.alloc(old.id()) else { continue };
        assert!(
            !old.client_status().is_terminal() || new.client_status().is_terminal(),
            "a terminal client status stays terminal"
        );
        assert!(
            !old.desired_status().is_terminal() || new.desired_status().is_terminal(),
            "a terminal desired status stays terminal"
        );
        assert!(new.report() >= old.report());
    }
    for old in before.evals().filter(|eval| eval.status.is_terminal()) {
        assert!(after.eval(old.id).is_none_or(|new| new == old), "a terminal evaluation never changes");
    }
    for job in after.jobs() {
        let key = job.key();
        assert_eq!(job.status, jobs::status(after, job), "{key}");
        assert!(after.live_alloc_count(&key) <= COUNT_MAX as usize, "never more than the count");
        let mut counted: BTreeMap<ClientStatus, u32> = BTreeMap::new();
        for alloc in after.allocs_of_job(&key) {
            *counted.entry(alloc.client_status()).or_default() += 1;
        }
        let count = |status| counted.get(&status).copied().unwrap_or_default();
        let summary: GroupSummary = after.job_summary(&key).expect("every job has a summary").groups["app"];
        assert_eq!(summary.starting, count(ClientStatus::Pending));
        assert_eq!(summary.running, count(ClientStatus::Running));
        assert_eq!(summary.lost, count(ClientStatus::Lost));
        assert_eq!(summary.unknown, count(ClientStatus::Unknown));
        assert!(summary.complete >= count(ClientStatus::Complete));
        assert!(summary.failed >= count(ClientStatus::Failed));
    }
    for registration in after.service_registrations() {
        let alloc = after.alloc(registration.alloc_id).expect("no registration outlives its allocation");
        assert!(!alloc.client_status().is_terminal(), "no registration outlives its allocation");
        assert_eq!((alloc.node_id(), alloc.job_key()), (registration.node_id, &job_of(registration)));
        let status = after.node(registration.node_id).map(|node| node.server().status);
        assert!(status.is_some_and(|status| status != NodeStatus::Down), "its node is up");
    }
    for node in after.nodes().filter(|node| node.server().status == NodeStatus::Ready) {
        assert_eq!(node.server().last_missed_heartbeat_index, model::Index::ZERO);
    }
}

fn job_of(registration: &ServiceRegistration) -> JobKey {
    JobKey::new(registration.key.namespace.clone(), registration.job_id.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_commands_leave_the_cluster_consistent(steps in vec(step(), 1..80)) {
        let scene = Scene::new();
        let snapshots = vec![scene.state.clone()];
        let mut history = History { scene, snapshots, last: None };
        for step in &steps {
            history.apply(step);
        }
        let mut replayed = State::default();
        for set in &history.scene.log {
            replayed.apply(set).expect("change sets are consecutive");
        }
        assert_same(&history.scene.state, &replayed);
    }
}
