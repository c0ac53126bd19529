//! Tests of the service over a real nats-server, with a simulated applier and simulated agents.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, RequestError, Requests};
use model::alloc::{ClientStatus, PackedTaskStates};
use model::change::{Change, NodesChanged};
use model::cluster::Singleton;
use model::node::{Node, NodeServerSide, NodeStatus, Secret};
use model::service::{ServiceKey, ServiceRegistration, registration_id};
use model::{Epoch, HistoryId, Index, NodeId, ProcessId};
use private_servers::Nats;
use state::{Replica, State};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::command::{Answer, Command, Done, NodeLiveness, NodeReport, NodeServices, UpdateNodes};
use wire::directory::{FindServices, FoundServices, KnownQuery, ServiceQuery};
use wire::node::{
    AllocReport, GetAllocs, GetWork, Heartbeat, NodeResponse, Register, Report, ReportAccepted, Wake, Work,
    WorkAllocs, WorkIndex,
};
use wire::services::{
    AllocServices, RegisterServices, SERVICE_ALLOCS_MAX, ServiceInstance, ServicesAnswer, ServicesDigest,
    ServicesRejection,
};
use wire::{Refusal, RefusalKind, Role, Subject, Wire};

use super::{Args, run};
use crate::testing::{alloc, commit, job, node, node_spec, placed, ready, secret};

/// Turns a test that hangs into one that fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait for an answer before the request is repeated.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const EPOCH: Epoch = Epoch(7);
/// Settings under which no node misses its heartbeat during a test.
const CALM: Args = Args {
    min_heartbeat_ttl_ms: 120_000,
    heartbeat_grace_ms: 120_000,
    max_heartbeats_per_second: 1_000,
    failover_heartbeat_ttl_ms: 120_000,
};

fn at(index: Index) -> WorkIndex {
    WorkIndex { index, ..WorkIndex::default() }
}

struct Scene {
    nats: Nats,
    agents: Bus,
    replica: Arc<Replica>,
    commands: mpsc::UnboundedReceiver<Command>,
    tracker: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
    /// Whether the applier grants the tracker its lease.
    lease: watch::Sender<bool>,
}

impl Scene {
    /// Starts an active tracker.
    async fn new(settings: Args) -> Self {
        let scene = Self::standing_by(settings).await;
        scene.lease.send_replace(true);
        scene
    }

    /// Starts a tracker without a lease.
    async fn standing_by(settings: Args) -> Self {
        let nats = soon(Nats::temporary()).await.unwrap();
        let args = |role| {
            let credentials = nats.credentials(role).unwrap();
            bus::Args { credentials, ..bus::Args::new(vec![nats.url().parse().unwrap()]) }
        };
        let agents = soon(Bus::connect(&args(Role::Observer), Role::Observer)).await.unwrap();
        let served = agents.serve(Subject::EVERY_COMMAND).await.unwrap();
        let renewals = agents.serve(Subject::EVERY_RENEWAL).await.unwrap();
        let (sender, commands) = mpsc::unbounded_channel();
        let replica = Arc::new(Replica::new(State::new(HistoryId::default(), crate::SCOPE)));
        let (lease, granted) = watch::channel(false);
        actix::spawn(applier(served, Arc::clone(&replica), sender, granted));
        actix::spawn(leases(renewals));

        let stop = CancellationToken::new();
        let own = soon(Bus::connect(&args(Role::NodeTracker), Role::NodeTracker)).await.unwrap();
        let process = ProcessId::from_bytes([5; 16]);
        let tracker = actix::spawn(run(settings, own, Arc::clone(&replica), process, stop.clone()));
        Self { nats, agents, replica, commands, tracker, stop, lease }
    }

    /// Repeats a request until the tracker answers. A standby receives heartbeats and does not answer them.
    async fn ask<Q: Wire, A: Wire>(&self, subject: Subject, body: &Q) -> Result<A, Refusal> {
        let answered = async {
            loop {
                match self.agents.request(subject, body, ANSWER_WITHIN).await {
                    Ok(answer) => return Ok(answer),
                    Err(RequestError::Refused(refusal)) => return Err(refusal),
                    Err(RequestError::NoResponders | RequestError::TimedOut) => {
                        tokio::task::yield_now().await
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        soon(answered).await
    }

    async fn register(&self, number: u8) -> NodeResponse {
        let register = Register { id: node(number), spec: Arc::new(node_spec(number)) };
        self.ask(Subject::NodeRegister(register.id), &register).await.unwrap()
    }

    async fn beat(&self, number: u8) -> Result<NodeResponse, Refusal> {
        self.ask(Subject::NodeHeartbeat(node(number)), &heartbeat(number)).await
    }

    async fn report(&self, report: &Report) -> Result<ReportAccepted, Refusal> {
        self.ask(Subject::NodeReport(report.id), report).await
    }

    /// The tracker's next command.
    async fn command(&mut self) -> Command {
        soon(self.commands.recv()).await.unwrap()
    }

    async fn ended(self) {
        self.stop.cancel();
        soon(self.tracker).await.unwrap().unwrap();
    }
}

fn heartbeat(number: u8) -> Heartbeat {
    Heartbeat { id: node(number), secret: secret(number), boot: 1 }
}

fn runs(number: u8, of: u8) -> Report {
    let running = AllocReport {
        id: alloc(number),
        count: 1,
        status: ClientStatus::Running,
        description: "Tasks are running".into(),
        task_states: PackedTaskStates::default(),
        network: None,
        health: None,
    };
    Report { id: node(of), secret: secret(of), boot: 1, all_since: None, allocs: vec![running] }
}

/// Grants the lease and carries out the tracker's commands, as far as these tests need it. Nodes that miss their heartbeats
/// become disconnected and stay so. A node that missed one before does not become ready.
async fn applier(
    mut requests: Requests,
    replica: Arc<Replica>,
    sender: mpsc::UnboundedSender<Command>,
    granted: watch::Receiver<bool>,
) {
    while let Some(request) = requests.next().await {
        let command: Command = request.body().unwrap();
        if matches!(command, Command::TakeLease(_)) && !*granted.borrow() {
            let refusal =
                Refusal { kind: RefusalKind::Conflict, message: "another process holds the lease".into() };
            request.refuse(refusal).await;
            continue;
        }
        let done = carry_out(&replica, &command);
        if !matches!(command, Command::TakeLease(_)) {
            sender.send(command).unwrap();
        }
        request.answer(&Answer::Done(done)).await;
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "these are the tracker's commands")]
fn carry_out(replica: &Replica, command: &Command) -> Done {
    let state = replica.snapshot();
    let status = |id: &NodeId| state.node(*id).map(|node| node.server().status);
    let (changes, refused_nodes) = match command {
        Command::TakeLease(lease) => {
            assert_eq!(lease.service, Singleton::NodeTracker);
            return Done { epoch: Some(EPOCH), ..Done::default() };
        }
        Command::RegisterNode(register) => {
            assert_eq!(register.epoch, EPOCH);
            let server = NodeServerSide { status: NodeStatus::Initializing, ..NodeServerSide::default() };
            let node = Node { id: register.id, spec: Arc::clone(&register.spec), server };
            (vec![Change::Node(Box::new(node))], Vec::new())
        }
        Command::UpdateNodes(UpdateNodes { epoch, sign, nodes }) => {
            assert_eq!(*epoch, EPOCH);
            let to = match sign {
                NodeLiveness::Alive => NodeStatus::Ready,
                NodeLiveness::Missed => NodeStatus::Disconnected,
            };
            let (known, unknown) = nodes.iter().partition::<Vec<NodeId>, _>(|id| status(id).is_some());
            let changes_status = |id: &NodeId| {
                let server = state.node(*id).unwrap().server();
                server.status != to && !server.last_missed_heartbeat_index.is_set()
            };
            let ids: Vec<_> = known.into_iter().filter(changes_status).collect();
            let changed = NodesChanged { ids, status: Some(to), ..NodesChanged::default() };
            let is_none = changed.ids.is_empty();
            (if is_none { vec![] } else { vec![Change::NodesChanged(Box::new(changed))] }, unknown)
        }
        Command::ReportAllocs(report) => {
            assert_eq!(report.epoch, EPOCH);
            let may_report =
                |report: &&NodeReport| status(&report.node).is_some_and(|status| !status.is_unresponsive());
            let refused = report.reports.iter().filter(|report| !may_report(report));
            (Vec::new(), refused.map(|report| report.node).collect())
        }
        Command::UpdateServices(update) => {
            assert_eq!(update.epoch, EPOCH);
            let (all, known) = (update.nodes.iter().flat_map(|node| &node.allocs), &state);
            let refused = all.filter(|set| known.alloc(set.alloc).is_none());
            let refused_allocs = refused.map(|set| set.alloc).collect();
            return Done { index: state.index(), refused_allocs, ..Done::default() };
        }
        other => panic!("unexpected command of the tracker: {other:?}"),
    };
    let index = if changes.is_empty() { state.index() } else { commit(replica, changes) };
    Done { index, refused_nodes, ..Done::default() }
}

async fn leases(mut renewals: Requests) {
    while let Some(request) = renewals.next().await {
        request.answer(&Answer::Done(Done { epoch: Some(EPOCH), ..Done::default() })).await;
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the future completes within the test's patience")
}

#[actix::test]
async fn a_node_registers_becomes_ready_works_and_reports() {
    let mut scene = Scene::new(CALM).await;
    let registered = scene.register(1).await;
    assert_eq!((registered.status, registered.report_all), (NodeStatus::Initializing, None));
    assert!((120_000..=150_000).contains(&registered.ttl_ms), "{}", registered.ttl_ms); // The minimum TTL, plus up to a quarter (N-4.2).
    assert!(matches!(scene.command().await, Command::RegisterNode(_)));

    assert_eq!(scene.beat(1).await.unwrap().status, NodeStatus::Ready);
    let Command::UpdateNodes(heard) = scene.command().await else {
        panic!("expected an update of the node that sent a heartbeat")
    };
    assert_eq!((heard.sign, heard.nodes), (NodeLiveness::Alive, vec![node(1)]));
    // The heartbeat's answer shows that the subscription exists.
    let mut wakes = scene.agents.serve(Subject::AgentWake(node(1)).to_string()).await.unwrap();
    let before = scene.beat(1).await.unwrap();
    assert_eq!(before.status, NodeStatus::Ready);
    assert!(scene.commands.try_recv().is_err(), "a heartbeat of a ready node costs no write (N-3.9)");

    let job = job(1, 0);
    let placed = placed(&job, [(1, 1), (2, 1)]);
    let index = commit(&scene.replica, vec![Change::Job(Arc::new(job)), placed]);
    let woken: Wake = soon(wakes.next()).await.unwrap().body().unwrap();
    let news = woken.news.expect("a small change is part of the wake");
    assert_eq!((woken.work_index, news.since), (at(index), before.work_index.index));
    assert_eq!(news.changed.allocs.len(), 2);
    assert_eq!(
        scene.beat(1).await.unwrap().work_index,
        at(index),
        "the heartbeat's answer also carries the work index"
    );

    let ask = GetWork { id: node(1), secret: secret(1), since: before.work_index, seen: at(index) };
    let work: Work = scene.ask(Subject::NodeWork(node(1)), &ask).await.unwrap();
    assert_eq!((work.index, work.allocs.len(), work.changed.allocs.len()), (at(index), 2, 2));
    let ask = GetAllocs { id: node(1), secret: secret(1), allocs: vec![alloc(2)], seen: at(index) };
    let again: WorkAllocs = scene.ask(Subject::NodeWork(node(1)), &ask).await.unwrap();
    assert_eq!(again.allocs[..], work.changed.allocs[1..]);

    let report = runs(1, 1);
    assert_eq!(scene.report(&report).await.unwrap(), ReportAccepted { index });
    let Command::ReportAllocs(reported) = scene.command().await else { panic!("expected the node's report") };
    let NodeReport { node: of, boot, ref allocs, .. } = reported.reports[0];
    assert_eq!((of, boot, allocs), (node(1), 1, &report.allocs));
    scene.ended().await;
}

/// The services of an allocation: one with the id of a registration of another allocation.
fn services(number: u8, of: u8) -> AllocServices {
    let service = ServiceInstance {
        id: registration_id(alloc(of), "group-app", "web", "http").into(),
        name: "web".into(),
        tags: vec!["a".into()],
        address: "10.0.0.1".into(),
        port: 80,
    };
    AllocServices { alloc: alloc(number), services: vec![service] }
}

#[actix::test]
async fn services_are_registered_and_invalid_ones_rejected() {
    let mut scene = Scene::new(CALM).await;
    scene.register(1).await;
    scene.command().await;
    let job = job(1, 0);
    let placed = placed(&job, [(1, 1), (2, 1)]);
    let index = commit(&scene.replica, vec![Change::Job(Arc::new(job)), placed]);
    let register = RegisterServices {
        id: node(1),
        secret: secret(1),
        boot: 1,
        allocs: vec![services(1, 1), services(2, 1), services(9, 9)],
    };
    let subject = Subject::NodeServices(node(1));
    let answer: ServicesAnswer = scene.ask(subject, &register).await.unwrap();
    assert_eq!(answer.index, at(index));
    let [(second, ServicesRejection::Refused(_)), (ninth, ServicesRejection::Unknown)] = &answer.rejected[..]
    else {
        panic!("{answer:?}")
    };
    assert_eq!((*second, *ninth), (alloc(2), alloc(9)));
    let Command::UpdateServices(update) = scene.command().await else { panic!("expected the services") };
    let empty = AllocServices { alloc: alloc(2), services: Vec::new() };
    let allocs = vec![services(1, 1), empty, services(9, 9)];
    assert_eq!(update.nodes, [NodeServices { node: node(1), boot: 1, allocs }]);

    let refused = |result: Result<ServicesAnswer, Refusal>| result.unwrap_err().kind;
    let stolen = RegisterServices { secret: Secret("another".into()), ..register.clone() };
    assert_eq!(refused(scene.ask(subject, &stolen).await), RefusalKind::Conflict);
    let restarted = RegisterServices { boot: 2, ..register.clone() };
    assert_eq!(refused(scene.ask(subject, &restarted).await), RefusalKind::NotFound);
    assert_eq!(refused(scene.ask(Subject::NodeServices(node(2)), &register).await), RefusalKind::Invalid);
    let many = vec![AllocServices { alloc: alloc(1), services: Vec::new() }; SERVICE_ALLOCS_MAX + 1];
    let many = RegisterServices { allocs: many, ..register };
    assert_eq!(refused(scene.ask(subject, &many).await), RefusalKind::Invalid);
    scene.ended().await;
}

#[actix::test]
async fn an_agent_learns_what_is_registered_of_its_node() {
    let mut scene = Scene::new(CALM).await;
    let none = scene.register(1).await.services.expect("the tracker says what is registered");
    assert_eq!(none.digest, ServicesDigest::default());
    scene.command().await;
    let job = job(1, 0);
    let placed = placed(&job, [(1, 1), (2, 2)]);
    let set = services(1, 1).services.remove(0);
    let registration = |number: u8| ServiceRegistration {
        key: ServiceKey { namespace: "default".into(), name: set.name.clone(), id: set.id.clone() },
        node_id: node(number),
        datacenter: "dc1".into(),
        job_id: "job".into(),
        alloc_id: alloc(number),
        tags: set.tags.clone(),
        address: set.address.clone(),
        port: set.port,
        create_index: Index(5),
        modify_index: Index(5),
    };
    let mut elsewhere = registration(2);
    elsewhere.key.id = registration_id(alloc(2), "group-app", "web", "http").into();
    let registered = [registration(1), elsewhere].map(|one| Change::ServiceRegistration(Box::new(one)));
    let changes = [ready(2), Change::Job(Arc::new(job)), placed].into_iter().chain(registered).collect();
    let index = commit(&scene.replica, changes);
    let found = scene.beat(1).await.unwrap().services.expect("the tracker says what is registered");
    let mut expected = ServicesDigest::default();
    expected.add(alloc(1), "dc1", &set);
    assert_eq!(found.digest, expected);
    assert!(found.at.index >= index, "{found:?}");
    scene.ended().await;
}

#[actix::test]
async fn an_agent_finds_services_and_is_told_of_changes() {
    let mut scene = Scene::new(CALM).await;
    scene.register(1).await;
    scene.command().await;
    let query = ServiceQuery::Instances { namespace: "default".into(), name: "web".into() };
    let ask = |digest, wait_ms| {
        let queries = vec![KnownQuery { query: query.clone(), digest }];
        FindServices { id: node(1), secret: secret(1), wait_ms, queries }
    };
    let subject = Subject::NodeDirectory(node(1));
    let first: FoundServices = scene.ask(subject, &ask(None, 0)).await.unwrap();
    assert!(first.results[0].instances.is_empty());
    let known = Some(first.results[0].digest);
    let same: FoundServices = scene.ask(subject, &ask(known, 0)).await.unwrap();
    assert!(same.results.is_empty());

    let set = services(1, 1).services.remove(0);
    let registration = ServiceRegistration {
        key: ServiceKey { namespace: "default".into(), name: set.name, id: set.id },
        node_id: node(1),
        datacenter: "dc1".into(),
        job_id: "job".into(),
        alloc_id: alloc(1),
        tags: set.tags,
        address: set.address,
        port: set.port,
        create_index: Index(5),
        modify_index: Index(5),
    };
    let waiting = ask(known, 10_000);
    let change = async {
        commit(&scene.replica, vec![Change::ServiceRegistration(Box::new(registration.clone()))]);
    };
    let (changed, ()) = tokio::join!(scene.ask::<_, FoundServices>(subject, &waiting), change);
    assert_eq!(*changed.unwrap().results[0].instances[0], registration);

    let stolen = FindServices { secret: Secret("another".into()), ..ask(None, 0) };
    let refused = scene.ask::<_, FoundServices>(subject, &stolen).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Conflict);
    scene.ended().await;
}

/// A tracker that has just taken over may be at an older index than the agent.
#[actix::test]
async fn work_is_answered_at_the_index_that_the_agent_knows() {
    let mut scene = Scene::new(CALM).await;
    scene.register(1).await;
    scene.command().await;
    let job = job(1, 0);
    let before = commit(&scene.replica, vec![Change::Job(Arc::new(job.clone()))]);
    let ask = GetWork { id: node(1), secret: secret(1), since: at(Index::ZERO), seen: at(before.next()) };
    let work = scene.ask::<_, Work>(Subject::NodeWork(node(1)), &ask);
    let placed = async { commit(&scene.replica, vec![placed(&job, [(1, 1)])]) };
    let (work, index) = tokio::join!(biased; work, placed);
    assert_eq!((work.unwrap().allocs, index), (vec![(alloc(1), index)], before.next()));

    let of_another = WorkIndex { history: HistoryId::from_bytes([2; 16]), index: Index(1_000) };
    let ask = GetWork { id: node(1), secret: secret(1), since: of_another, seen: of_another };
    let work: Work = scene.ask(Subject::NodeWork(node(1)), &ask).await.unwrap();
    assert_eq!(
        (work.index, work.changed.allocs.len()),
        (at(index), 1),
        "an index of another history is not waited for"
    );
    let ask = GetAllocs { id: node(1), secret: secret(1), allocs: vec![alloc(1)], seen: of_another };
    let allocs = scene.ask::<_, WorkAllocs>(Subject::NodeWork(node(1)), &ask).await;
    assert_eq!(allocs.unwrap_err().kind, RefusalKind::OutcomeUnknown, "the list belongs to another history");
    scene.ended().await;
}

#[actix::test]
async fn requests_with_a_wrong_secret_are_refused() {
    let mut scene = Scene::new(CALM).await;
    scene.register(1).await;
    scene.command().await;
    let refused = |result: Result<Index, Refusal>| result.unwrap_err().kind;

    let stolen = Secret("another".into());
    let beat = Heartbeat { secret: stolen.clone(), ..heartbeat(1) };
    let beat = scene.ask::<_, NodeResponse>(Subject::NodeHeartbeat(node(1)), &beat).await;
    assert_eq!(refused(beat.map(|answer| answer.work_index.index)), RefusalKind::Conflict);
    let ask = GetWork { id: node(1), secret: stolen.clone(), since: at(Index::ZERO), seen: at(Index::ZERO) };
    let work = scene.ask::<_, Work>(Subject::NodeWork(node(1)), &ask).await;
    assert_eq!(refused(work.map(|work| work.index.index)), RefusalKind::Conflict);
    let ask = GetAllocs { id: node(1), secret: stolen.clone(), allocs: Vec::new(), seen: at(Index::ZERO) };
    let allocs = scene.ask::<_, WorkAllocs>(Subject::NodeWork(node(1)), &ask).await;
    assert_eq!(refused(allocs.map(|_| Index::ZERO)), RefusalKind::Conflict);
    let report = scene.report(&Report { secret: stolen, ..runs(1, 1) }).await;
    assert_eq!(refused(report.map(|reported| reported.index)), RefusalKind::Conflict);

    // The credentials of a node cover only the subjects of that node, so a message on them counts as that node's.
    let foreign = scene.ask::<_, NodeResponse>(Subject::NodeHeartbeat(node(2)), &heartbeat(1)).await;
    assert_eq!(refused(foreign.map(|answer| answer.work_index.index)), RefusalKind::Invalid);
    let foreign = Register { id: node(1), spec: Arc::new(node_spec(1)) };
    let foreign = scene.ask::<_, NodeResponse>(Subject::NodeRegister(node(2)), &foreign).await;
    assert_eq!(refused(foreign.map(|answer| answer.work_index.index)), RefusalKind::Invalid);

    let unknown = scene.beat(9).await.unwrap_err();
    assert_eq!((unknown.kind, &*unknown.message), (RefusalKind::NotFound, "node not found")); // Agents recognise this text (N-3.2).
    let restarted = Heartbeat { boot: 2, ..heartbeat(1) };
    let restarted = scene.ask::<_, NodeResponse>(Subject::NodeHeartbeat(node(1)), &restarted).await;
    assert_eq!(refused(restarted.map(|answer| answer.work_index.index)), RefusalKind::NotFound);

    let empty = scene.report(&Report { allocs: Vec::new(), ..runs(1, 1) }).await.unwrap_err();
    assert_eq!(&*empty.message, "must update at least one allocation"); // An empty report is refused (N-7.1).
    assert!(scene.commands.try_recv().is_err(), "no command is sent for refused requests");
    scene.ended().await;
}

#[actix::test]
async fn a_disconnected_node_must_send_a_heartbeat_before_it_reports() {
    let scene = Scene::new(CALM).await;
    scene.register(1).await;
    let away = NodesChanged { ids: vec![node(1)], status: Some(NodeStatus::Down), ..NodesChanged::default() };
    commit(&scene.replica, vec![Change::NodesChanged(Box::new(away))]);
    let refusal = scene.report(&runs(1, 1)).await.unwrap_err();
    let message = format!("node {} is not allowed to update allocs while in status down", node(1)); // An unresponsive node may not report (N-7.3).
    assert_eq!((refusal.kind, &*refusal.message), (RefusalKind::NotReady, &*message));
    assert_eq!(scene.beat(1).await.unwrap().status, NodeStatus::Ready);
    scene.report(&runs(1, 1)).await.unwrap();
    scene.ended().await;
}

#[actix::test]
async fn a_missed_node_has_to_report_all_its_allocations() {
    let scene = Scene::new(CALM).await;
    let missed = Some(Index(77));
    let away = NodesChanged {
        ids: vec![node(1)],
        status: Some(NodeStatus::Initializing),
        last_missed_heartbeat_index: missed,
        ..NodesChanged::default()
    };
    commit(&scene.replica, vec![ready(1), Change::NodesChanged(Box::new(away))]);
    let answer = scene.beat(1).await.unwrap();
    assert_eq!((answer.status, answer.report_all), (NodeStatus::Initializing, missed)); // A node with live allocations reports all of them before it becomes ready (N-3.3).
    scene.ended().await;
}

#[actix::test]
async fn a_node_that_is_not_heard_of_is_missed_until_it_is_down() {
    let quick = Args { min_heartbeat_ttl_ms: 100, heartbeat_grace_ms: 1, ..CALM };
    let mut scene = Scene::new(quick).await;
    scene.register(1).await;
    assert!(matches!(scene.command().await, Command::RegisterNode(_)));
    // The first missed heartbeat disconnects the node; further ones change nothing (N-4.9).
    for _ in 0..3 {
        let Command::UpdateNodes(missed) = scene.command().await else {
            panic!("expected the node to be missed")
        };
        assert_eq!((missed.sign, missed.nodes), (NodeLiveness::Missed, vec![node(1)]));
    }
    scene.ended().await;
}

/// A tracker that takes over expires nodes that were silent while it stood by, and no others.
#[actix::test]
async fn a_standby_knows_which_nodes_were_silent() {
    let settings =
        Args { min_heartbeat_ttl_ms: 800, heartbeat_grace_ms: 500, failover_heartbeat_ttl_ms: 1, ..CALM };
    let longest = Duration::from_millis(800 * 5 / 4 + 500);
    let mut scene = Scene::standing_by(settings).await;
    commit(&scene.replica, vec![ready(1), ready(2)]);
    let beat = async |scene: &Scene| {
        scene.agents.publish(Subject::NodeHeartbeat(node(1)), &heartbeat(1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let started_at = telemetry::clock::monotonic();
    while started_at.elapsed() <= longest {
        beat(&scene).await;
    }
    scene.lease.send_replace(true);
    let missed = loop {
        beat(&scene).await;
        match scene.commands.try_recv() {
            Ok(command) => break command,
            Err(_) => assert!(started_at.elapsed() < PATIENCE, "no node was reported as missed"),
        }
    };
    let Command::UpdateNodes(missed) = missed else { panic!("{missed:?}") };
    assert_eq!((missed.sign, missed.nodes), (NodeLiveness::Missed, vec![node(2)]));
    scene.ended().await;
}

#[actix::test]
async fn no_node_is_missed_while_the_tracker_receives_nothing() {
    let settings = Args {
        min_heartbeat_ttl_ms: 1_000,
        heartbeat_grace_ms: 1_000,
        failover_heartbeat_ttl_ms: 60_000,
        ..CALM
    };
    let longer = Duration::from_secs(4);
    let mut scene = Scene::new(settings).await;
    scene.register(1).await;
    assert!(matches!(scene.command().await, Command::RegisterNode(_)));

    let paused = scene.nats.pause();
    // The node is unknown, so that its heartbeat has no effect when it arrives.
    let subject = Subject::NodeHeartbeat(node(9));
    let unheard: Result<NodeResponse, _> = scene.agents.request(subject, &heartbeat(9), longer).await;
    assert!(matches!(unheard, Err(RequestError::TimedOut)));
    drop(paused);
    scene.register(2).await;
    assert!(matches!(scene.command().await, Command::RegisterNode(_)));
    // Heartbeats of this node could be received, and it sent none.
    let Command::UpdateNodes(update) = scene.command().await else { panic!("expected a missed node") };
    assert_eq!((update.sign, update.nodes), (NodeLiveness::Missed, vec![node(2)]));
    scene.ended().await;
}
