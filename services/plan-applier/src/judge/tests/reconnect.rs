//! Strict reconnect (N-3, `docs/architecture/agents.md`): a node that was disconnected becomes ready only after it has reported the status of
//! all its allocations since it was missed.

use std::collections::BTreeMap;

use model::alloc::{ClientStatus, DesiredStatus};
use model::eval::EvalTrigger;
use model::node::{NodeSpec, NodeStatus};
use model::plan::{Plan, Stops, Update, Updates};
use model::{AllocId, Index, JobKey, Nanos, NodeId};
use proptest::collection::vec;
use proptest::prelude::*;
use state::AllocRef;
use wire::command::{Done, NodeReport};
use wire::node::AllocReport;

use super::scene::{BOOT, Scene, node_spec, patient_service, reports, service};

/// A node's columns in the table of N-3.15, and the number of evaluations that a step made.
fn row(scene: &Scene, node: NodeId, done: &Done) -> (NodeStatus, Index, Index, usize) {
    let server = &scene.whole_node(node).server;
    let (missed, updated) = (server.last_missed_heartbeat_index, server.last_alloc_update_index);
    (server.status, missed, updated, done.evals.len())
}

fn all(node: NodeId, since: Index, allocs: Vec<AllocReport>) -> NodeReport {
    NodeReport { node, boot: BOOT, all_since: Some(since), allocs }
}

#[test]
fn the_timeline_of_a_reconnect() {
    // The timeline of N-3.15. An ordinary report does not count as complete (`docs/architecture/agents.md`), so that of step 1 leaves the
    // second index unchanged.
    use NodeStatus::{Disconnected, Initializing, Ready};
    let never = Index::ZERO;
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(patient_service("web"));
    let allocs = scene.place(&job, &[node]);
    let done = scene.report(node, &allocs, ClientStatus::Running);
    assert_eq!(row(&scene, node, &done), (Ready, never, never, 0), "step 1");

    let done = scene.missed(&[node]);
    let missed = done.index;
    assert_eq!(row(&scene, node, &done), (Disconnected, missed, never, 1), "step 2");
    scene.complete_pending(&job);
    let refused = scene.report(node, &allocs, ClientStatus::Running);
    assert_eq!((refused.refused_nodes, refused.written), (vec![node], false), "N-7.3");

    let done = scene.heard(&[node]);
    assert_eq!(row(&scene, node, &done), (Initializing, missed, never, 1), "step 3");
    scene.complete_pending(&job);
    let done = scene.heard(&[node]);
    assert_eq!((done.written, row(&scene, node, &done)), (false, (Initializing, missed, never, 0)), "step 4");

    scene.report(node, &allocs, ClientStatus::Running);
    scene.done(reports(vec![all(node, Index(1), Vec::new())]));
    let done = scene.heard(&[node]);
    assert_eq!(row(&scene, node, &done).0, Initializing, "a report for another absence is not enough");

    let running = allocs.iter().map(|id| scene.alloc_report(*id, ClientStatus::Running)).collect();
    let done = scene.done(reports(vec![all(node, missed, running)]));
    let updated = done.index;
    assert_eq!(row(&scene, node, &done), (Initializing, missed, updated, 0), "step 5");
    assert!(
        !scene.done(reports(vec![all(node, missed, Vec::new())])).written,
        "a second report changes nothing"
    );

    let done = scene.heard(&[node]);
    assert_eq!(row(&scene, node, &done), (Ready, never, updated, 1), "step 6");
    assert_eq!(scene.triggers(&job), [EvalTrigger::NodeUpdate]);
}

/// A random step. Numbers choose among existing objects.
#[derive(Debug, Clone)]
enum Step {
    /// A node's heartbeat is missed.
    Miss(usize),
    /// A heartbeat, whose answer may be lost.
    Beat {
        node: usize,
        is_answered: bool,
    },
    /// An agent sends its report.
    Report(usize),
    /// A message arrives, and may arrive again later.
    Deliver {
        sent: usize,
        again: bool,
    },
    /// A message is lost.
    Lose(usize),
    /// An allocation ends.
    End {
        node: usize,
        status: ClientStatus,
    },
    /// An agent restarts.
    Restart(usize),
    /// A worker schedules the jobs.
    Schedule,
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let ended = prop::sample::select(vec![ClientStatus::Complete, ClientStatus::Failed]);
    prop_oneof![
        6 => (0..NODES).prop_map(Step::Miss),
        12 => (0..NODES, prop::bool::weighted(0.8))
            .prop_map(|(node, is_answered)| Step::Beat { node, is_answered }),
        10 => (0..NODES).prop_map(Step::Report),
        14 => (any::<usize>(), prop::bool::weighted(0.5)).prop_map(|(sent, again)| Step::Deliver { sent, again }),
        1 => any::<usize>().prop_map(Step::Lose),
        1 => (0..NODES, ended).prop_map(|(node, status)| Step::End { node, status }),
        1 => (0..NODES).prop_map(Step::Restart),
        4 => Just(Step::Schedule),
        1 => (1..10i64).prop_map(Step::Wait),
    ]
}

/// The number of nodes.
const NODES: usize = 2;
/// The number of rounds of heartbeat, report and scheduling after which every node must be ready, once there are no more
/// failures.
const ROUNDS_MAX: usize = 5;

/// An agent, as far as the servers see it.
struct Agent {
    node: NodeId,
    boot: u32,
    allocs: BTreeMap<AllocId, (ClientStatus, u32)>,
    /// The index since which the last heartbeat's answer asked for a complete report.
    report_all: Option<Index>,
}

/// A report in flight, and how often the node had been missed when the report was made.
#[derive(Clone)]
struct Sent {
    node: usize,
    absence: u32,
    report: NodeReport,
}

struct History {
    scene: Scene,
    jobs: [JobKey; 2],
    agents: Vec<Agent>,
    sent: Vec<Sent>,
    /// How often each node was missed, and the last absence for which a complete report arrived.
    absences: [u32; NODES],
    complete_for: [Option<u32>; NODES],
}

impl History {
    /// Two nodes, each with an allocation of a service that may stay disconnected for a minute, and one of a service that
    /// may not.
    fn begin() -> Self {
        let mut scene = Scene::new();
        let nodes = [scene.node(), scene.node()];
        let jobs = [scene.register(patient_service("patient")), scene.register(service("brisk"))];
        let allocs: Vec<_> = jobs.iter().map(|job| scene.place(job, &nodes)).collect();
        let agent = |(number, node): (usize, &NodeId)| {
            let allocs = allocs.iter().map(|of_job| (of_job[number], (ClientStatus::Running, 0))).collect();
            Agent { node: *node, boot: BOOT, allocs, report_all: None }
        };
        let agents = nodes.iter().enumerate().map(agent).collect();
        Self { scene, jobs, agents, sent: Vec::new(), absences: [0; NODES], complete_for: [None; NODES] }
    }

    fn status(&self, node: usize) -> NodeStatus {
        self.scene.status(self.agents[node].node)
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Miss(node) => self.miss(node),
            Step::Beat { node, is_answered } => self.beat(node, is_answered),
            Step::Report(node) => self.report(node),
            Step::Deliver { sent, again } => {
                let Some(position) = sent.checked_rem(self.sent.len()) else { return };
                let sent = if again { self.sent[position].clone() } else { self.sent.remove(position) };
                self.deliver(sent);
            }
            Step::Lose(sent) => {
                if let Some(position) = sent.checked_rem(self.sent.len()) {
                    self.sent.remove(position);
                }
            }
            Step::End { node, status } => {
                let running = |state: &&mut (ClientStatus, u32)| state.0 == ClientStatus::Running;
                if let Some(state) = self.agents[node].allocs.values_mut().find(running) {
                    state.0 = status;
                }
            }
            Step::Restart(node) => self.restart(node),
            Step::Schedule => self.schedule(),
            Step::Wait(seconds) => self.scene.wait(Nanos::from_secs(seconds)),
        }
    }

    fn miss(&mut self, node: usize) {
        let (id, before) = (self.agents[node].node, self.status(node));
        let done = self.scene.missed(&[id]);
        if !before.is_unresponsive() {
            self.absences[node] += 1;
            assert!(self.status(node).is_unresponsive());
            assert_eq!(self.scene.whole_node(id).server.last_missed_heartbeat_index, done.index);
        }
        self.check_evals(node, before);
    }

    fn beat(&mut self, node: usize, is_answered: bool) {
        let (id, before) = (self.agents[node].node, self.status(node));
        let has_live = self
            .scene
            .state
            .allocs_of_node(id)
            .any(|alloc| !(alloc.desired_status().is_terminal() && alloc.client_status().is_terminal()));
        self.scene.heard(&[id]);
        let after = self.status(node);
        match (before, after) {
            (NodeStatus::Initializing, NodeStatus::Ready) => {
                let is_complete = self.complete_for[node] == Some(self.absences[node]);
                assert!(is_complete || !has_live, "ready without a complete report since it was missed");
            }
            (NodeStatus::Disconnected, after) => assert_eq!(after, NodeStatus::Initializing, "N-3.6"),
            (NodeStatus::Down, after) => assert_eq!(after, NodeStatus::Ready, "N-3.7"),
            _ => {}
        }
        self.check_evals(node, before);
        if is_answered {
            let missed = self.scene.whole_node(id).server.last_missed_heartbeat_index;
            self.agents[node].report_all = (after == NodeStatus::Initializing).then_some(missed);
        }
    }

    /// Every change of status, except the first ones of a new node, requires evaluations of the node's jobs (N-3.8).
    fn check_evals(&self, node: usize, before: NodeStatus) {
        if self.status(node) == before {
            return;
        }
        let index = self.scene.state.index();
        for alloc in self.scene.state.allocs_of_node(self.agents[node].node) {
            let is_over = alloc.desired_status().is_terminal() && alloc.client_status().is_terminal();
            let mut evals = self.scene.state.live_evals_of_job(alloc.job_key());
            let is_evaluated =
                evals.any(|eval| eval.trigger == EvalTrigger::NodeUpdate && eval.modify_index == index);
            assert!(is_over || is_evaluated, "{} is not evaluated", alloc.name());
        }
    }

    /// Behaves like an agent: reports changes, or everything if it was asked to. Allocations that the servers stopped have
    /// ended.
    fn report(&mut self, node: usize) {
        let (state, agent) = (&self.scene.state, &mut self.agents[node]);
        let mut allocs = Vec::new();
        for (id, (status, count)) in &mut agent.allocs {
            let known = state.alloc(*id).expect("no allocation is deleted");
            if known.desired_status() == DesiredStatus::Stop && !status.is_terminal() {
                *status = ClientStatus::Complete;
            }
            let is_news = known.client_status() != *status;
            if is_news || (agent.report_all.is_some() && !status.is_terminal()) {
                *count += 1;
                let report = self.scene.alloc_report(*id, *status);
                allocs.push(AllocReport { count: *count, ..report });
            }
        }
        if !allocs.is_empty() || agent.report_all.is_some() {
            let report =
                NodeReport { node: agent.node, boot: agent.boot, all_since: agent.report_all, allocs };
            // A late answer may have asked for a report that was sent already. It must not count for a later absence.
            self.sent.push(Sent { node, absence: self.absences[node], report });
        }
    }

    fn deliver(&mut self, Sent { node, absence, report }: Sent) {
        let id = self.agents[node].node;
        let before = self.scene.whole_node(id).server.clone();
        let known = |scene: &Scene| -> Vec<_> {
            let known = |alloc: AllocRef<'_>| (alloc.id(), alloc.client_status(), alloc.report());
            scene.state.allocs_of_node(id).map(known).collect()
        };
        let allocs = known(&self.scene);
        let done = self.scene.done(reports(vec![report.clone()]));
        assert_eq!(done.refused_nodes == [id], before.status.is_unresponsive(), "N-7.3");
        if before.status.is_unresponsive() || report.boot != self.agents[node].boot {
            assert_eq!(known(&self.scene), allocs, "a report that is not accepted changes nothing");
        }
        for (new, old) in known(&self.scene).iter().zip(&allocs) {
            assert!(new.2 >= old.2, "the newest report is kept");
        }
        let opened =
            self.scene.whole_node(id).server.last_alloc_update_index != before.last_alloc_update_index;
        if opened {
            assert_eq!(report.all_since, Some(before.last_missed_heartbeat_index));
            self.complete_for[node] = Some(absence);
        }
    }

    /// The agent registers with its next boot; its tasks keep running.
    fn restart(&mut self, node: usize) {
        let agent = &mut self.agents[node];
        agent.boot += 1;
        agent.report_all = None;
        agent.allocs.values_mut().for_each(|(_, count)| *count = 0);
        let (id, boot, before) = (agent.node, agent.boot, self.status(node));
        self.scene.register_node(id, NodeSpec { boot, ..node_spec() });
        assert_eq!(self.status(node), before, "N-2.5");
    }

    /// Marks allocations as unknown if they may stay disconnected, and as lost on nodes that are down. Nothing replaces
    /// them.
    fn schedule(&mut self) {
        for job in self.jobs.clone() {
            for eval in self.scene.pending(&job) {
                let state = &self.scene.state;
                let version = state.job(&job).map(|job| job.version_key());
                let mut plan = Plan::new(&eval, version, state.index());
                let live = |status: NodeStatus| -> Vec<AllocId> {
                    let is_there = |alloc: &AllocRef<'_>| {
                        alloc.node().is_some_and(|node| node.server().status == status)
                            && !alloc.is_terminal()
                    };
                    state.allocs_of_job(&job).filter(is_there).map(|alloc| alloc.id()).collect()
                };
                let mut lost = live(NodeStatus::Down);
                let mut away = live(NodeStatus::Disconnected);
                if job == self.jobs[1] {
                    lost.append(&mut away);
                }
                away.retain(|id| {
                    state.alloc(*id).is_some_and(|alloc| alloc.client_status() != ClientStatus::Unknown)
                });
                let change = Update::Unknown { followup_eval: None };
                let update = Updates { ids: away.into_iter().collect(), change };
                plan.updates = if update.ids.0.is_empty() { vec![] } else { vec![update] };
                plan.stops = match lost.is_empty() {
                    true => vec![],
                    false => vec![Stops {
                        ids: lost.into_iter().collect(),
                        client_status: Some(ClientStatus::Lost),
                        description: "alloc is lost since its node is down".into(),
                        followup_eval: None,
                        reschedule: None,
                    }],
                };
                self.scene.submit(plan);
            }
        }
    }

    /// Ends all failures: messages in flight arrive late; then agents and workers behave normally.
    fn recover(&mut self) {
        for sent in std::mem::take(&mut self.sent) {
            self.deliver(sent);
        }
        for _ in 0..ROUNDS_MAX {
            for node in 0..NODES {
                self.beat(node, true);
                self.report(node);
            }
            for sent in std::mem::take(&mut self.sent) {
                self.deliver(sent);
            }
            self.schedule();
        }
        for (node, agent) in self.agents.iter().enumerate() {
            assert_eq!(self.status(node), NodeStatus::Ready, "every node recovers");
            for (id, (status, _)) in &agent.allocs {
                let known = self.scene.alloc(*id);
                let is_lost = known.client_status == ClientStatus::Lost;
                assert!(is_lost || known.client_status == *status, "{known:?} is {status}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_node_is_ready_before_it_has_told_all_and_all_come_back(steps in vec(step(), 20..150)) {
        let mut history = History::begin();
        for step in &steps {
            history.apply(step);
        }
        history.recover();
    }
}
