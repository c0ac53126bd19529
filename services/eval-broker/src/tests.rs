//! Tests of the service with a simulated applier and worker, over a real nats-server.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, RequestError, Requests};
use model::change::{Cause, Change, ChangeSet, EvalsChanged};
use model::cluster::Singleton;
use model::eval::{EvalStatus, Evaluation};
use model::job::JobType;
use model::{Epoch, HistoryId, Index, ProcessId, RequestId, Timestamp};
use private_servers::{Nats, NatsAccess, NatsOptions};
use state::{Replica, State};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::broker::{
    Delivery, Dequeue, Dequeued, EvalLeaseAction, EvalLeaseRequest, EvalLeaseResponse, SCHEDULER_VERSION,
};
use wire::command::{Answer, Command, Done, EvalUpdate, UpdateEvals};
use wire::envelope::{HEADER_KIND, HEADER_VERSION};
use wire::{RefusalKind, Role, Subject, Wire as _};

use super::{Args, run};
use crate::testing::{eval, id};

/// Makes a test fail instead of hang.
const PATIENCE: Duration = Duration::from_secs(60);
const EPOCH: Epoch = Epoch(7);

struct Scene {
    nats: Nats,
    bus: Bus,
    replica: Arc<Replica>,
    writes: mpsc::Receiver<UpdateEvals>,
    broker: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
}

impl Scene {
    async fn new() -> Self {
        // With a password, which can be sent without a client library.
        let options = NatsOptions { access: NatsAccess::Password, ..NatsOptions::default() };
        let nats = soon(Nats::temporary_with(options)).await.unwrap();
        let args = bus::Args::new(vec![nats.url().parse().unwrap()]);
        let bus = soon(Bus::connect(&args, Role::Observer)).await.unwrap();
        let commands = bus.serve(Subject::EVERY_COMMAND).await.unwrap();
        let renewals = bus.serve(Subject::EVERY_RENEWAL).await.unwrap();
        let (written, writes) = mpsc::channel(8);
        let replica = Arc::new(Replica::new(State::new(HistoryId::default(), crate::SCOPE)));
        actix::spawn(applier(commands, Arc::clone(&replica), written));
        actix::spawn(leases(renewals));

        let stop = CancellationToken::new();
        let own = soon(Bus::connect(&args, Role::EvalBroker)).await.unwrap();
        let settings = Args { eval_lease_ms: 60_000, eval_delivery_limit: 1 };
        let process = ProcessId::from_bytes([5; 16]);
        let broker = actix::spawn(run(settings, own, Arc::clone(&replica), process, stop.clone()));
        Self { nats, bus, replica, writes, broker, stop }
    }

    fn apply(&self, changes: Vec<Change>) {
        commit(&self.replica, changes);
    }

    fn create(&self, number: u8, job: u8) {
        self.apply(vec![Change::Eval(Arc::new(eval(number, job)))]);
    }

    async fn request(&self, scheduler_version: u16, timeout_ms: u32) -> Result<Vec<Delivery>, RequestError> {
        let dequeue = dequeue(scheduler_version, timeout_ms);
        let answer = self.bus.request::<_, Dequeued>(Subject::Dequeue, &dequeue, PATIENCE).await;
        answer.map(|dequeued| dequeued.evals)
    }

    /// Dequeues, and retries until the broker serves.
    async fn dequeue(&self, timeout_ms: u32) -> Vec<Delivery> {
        let answered = async {
            loop {
                match self.request(SCHEDULER_VERSION, timeout_ms).await {
                    Ok(evals) => return evals,
                    Err(RequestError::NoResponders) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        soon(answered).await
    }

    /// Sends a dequeue request, and is gone when the answer comes: there is no subscriber on the reply subject. A
    /// [`Bus`] does not report when the server has noticed the missing subscriber, so this speaks the text protocol
    /// with the server directly.
    async fn request_and_disconnect(&self) {
        let url = self.nats.url();
        let (login, address) = url.trim_start_matches("nats://").split_once('@').unwrap();
        let (user, pass) = login.split_once(':').unwrap();
        let (subject, body) = (Subject::Dequeue, wire::encode(&dequeue(SCHEDULER_VERSION, 60_000)));
        let (kind, version) = (Dequeue::KIND, Dequeue::VERSION);
        let headers = format!("NATS/1.0\r\n{HEADER_KIND}: {kind}\r\n{HEADER_VERSION}: {version}\r\n\r\n");
        let (headed, whole) = (headers.len(), headers.len() + body.len());
        let connect =
            format!(r#"CONNECT {{"user":"{user}","pass":"{pass}","headers":true,"verbose":false}}"#);
        let publish =
            format!("{connect}\r\nHPUB {subject} inbox.scheduler.nobody {headed} {whole}\r\n{headers}");

        let mut connection = BufStream::new(TcpStream::connect(address).await.unwrap());
        connection.write_all(&[publish.as_bytes(), &body, b"\r\nPING\r\n"].concat()).await.unwrap();
        connection.flush().await.unwrap();
        let mut response = String::new();
        while !response.ends_with("PONG\r\n") {
            let bytes = soon(connection.read_line(&mut response)).await.unwrap();
            assert!(bytes > 0 && !response.contains("-ERR"), "{response}");
        }
    }

    async fn lease_action(&self, delivery: Delivery, action: EvalLeaseAction) -> bool {
        let request = EvalLeaseRequest { eval_id: delivery.eval_id, token: delivery.token, action };
        let answer = self.bus.request::<_, EvalLeaseResponse>(Subject::EvalLease, &request, PATIENCE).await;
        answer.unwrap().held
    }
}

fn dequeue(scheduler_version: u16, timeout_ms: u32) -> Dequeue {
    Dequeue { kinds: JobType::ALL.to_vec(), max: 8, timeout_ms, scheduler_version }
}

/// Grants the lease, and commits the broker's commands.
async fn applier(mut commands: Requests, replica: Arc<Replica>, written: mpsc::Sender<UpdateEvals>) {
    while let Some(request) = commands.next().await {
        let command: Command = request.body().unwrap();
        let done = if let Command::TakeLease(lease) = command {
            assert_eq!(lease.service, Singleton::EvalBroker);
            Done { epoch: Some(EPOCH), ..Done::default() }
        } else if let Command::UpdateEvals(write) = command {
            let changed = |update: &EvalUpdate| {
                let status = Some((update.status, update.description.clone()));
                Change::EvalsChanged(EvalsChanged { ids: update.ids.clone(), status, next_eval: None })
            };
            let index = commit(&replica, write.updates.iter().map(changed).collect());
            written.send(write).await.unwrap();
            Done { index, written: true, ..Done::default() }
        } else {
            panic!("unexpected command of the broker: {command:?}");
        };
        request.answer(&Answer::Done(done)).await;
    }
}

async fn leases(mut renewals: Requests) {
    while let Some(request) = renewals.next().await {
        request.answer(&Answer::Done(Done { epoch: Some(EPOCH), ..Done::default() })).await;
    }
}

fn commit(replica: &Replica, changes: Vec<Change>) -> Index {
    let index = replica.snapshot().index().next();
    let set = ChangeSet {
        index,
        at: Timestamp::from_secs(1_700_000_000),
        request_id: RequestId::from_bytes([1; 16]),
        cause: Cause::JobRegistered,
        trace: None,
        result: Vec::new(),
        changes,
    };
    replica.apply(vec![Arc::new(set)]).unwrap();
    index
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("timed out")
}

#[actix::test]
async fn evaluations_go_from_the_state_to_workers_and_back() {
    let mut scene = Scene::new().await;
    scene.create(1, 1);
    let [first] = scene.dequeue(60_000).await[..] else { panic!("one is ready") };
    assert_eq!((first.eval_id, first.lease_ms), (id(1), 60_000));
    assert_eq!(scene.dequeue(1).await, [], "the time is up");

    // A waiting worker is answered by a new evaluation.
    let (deliveries, ()) = tokio::join!(scene.dequeue(60_000), async { scene.create(2, 2) });
    let [second] = deliveries[..] else { panic!("one is ready") };
    assert_eq!(second.eval_id, id(2));

    assert!(scene.lease_action(first, EvalLeaseAction::Renew).await);
    assert!(scene.lease_action(first, EvalLeaseAction::GiveBack).await);
    let [first] = scene.dequeue(60_000).await[..] else { panic!("it is ready again") };
    let outcome = Evaluation { status: EvalStatus::Complete, ..eval(1, 1) };
    scene.apply(vec![Change::EvalOutcome(Arc::new(outcome))]);
    scene.create(3, 1); // the broker receives this after the outcome
    let [third] = scene.dequeue(60_000).await[..] else { panic!("one is ready") };
    assert_eq!(third.eval_id, id(3));
    assert!(!scene.lease_action(first, EvalLeaseAction::Renew).await);

    // The delivery limit is 1 here.
    assert!(scene.lease_action(second, EvalLeaseAction::Fail).await);
    let write = soon(scene.writes.recv()).await.unwrap();
    assert_eq!(write.epoch, EPOCH);
    assert_eq!((write.updates[0].ids.clone(), write.updates[0].status), (vec![id(2)], EvalStatus::Failed));

    // If a worker is gone when the answer comes, the evaluation is not lost with it.
    scene.request_and_disconnect().await;
    // The answer shows that the broker has received the earlier request.
    assert!(!scene.lease_action(first, EvalLeaseAction::Renew).await);
    scene.create(4, 4);
    let [fourth] = scene.dequeue(60_000).await[..] else { panic!("one is ready") };
    assert_eq!(fourth.eval_id, id(4));

    let refused = scene.request(SCHEDULER_VERSION - 1, 1).await.unwrap_err();
    assert!(matches!(refused, RequestError::Refused(refusal) if refusal.kind == RefusalKind::Outdated));

    scene.stop.cancel();
    soon(scene.broker).await.unwrap().unwrap();
}
