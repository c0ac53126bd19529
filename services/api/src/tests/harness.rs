//! Test harness: a running API with a replica, a NATS server and a fake applier.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::rt;
use bus::Bus;
use clap::Parser as _;
use model::change::Change;
use model::{Epoch, EvalId, Index, ProcessId, Timestamp};
use private_servers::Nats;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use state::Replica;
use tokio_util::sync::CancellationToken;
use wire::command::{Answer, Command, Done};
use wire::feed::{GetHead, Head};
use wire::{Refusal, Role, Subject};

use crate::settings::Limits;
use crate::testing;
use crate::{Args, Colocated, Server};

#[derive(clap::Parser)]
struct ApiArgs {
    #[command(flatten)]
    args: Args,
}

/// A running API. Dropping it stops everything.
pub(super) struct Harness {
    /// Replica that the API reads from.
    pub(super) replica: Arc<Replica>,
    /// Connection to its NATS.
    pub(super) bus: Bus,
    /// The fake applier.
    pub(super) applier: Arc<FakeApplier>,
    client: reqwest::Client,
    url: String,
    stop: CancellationToken,
    _nats: Nats,
}

/// A fake applier. It records commands and responds as configured.
pub(super) struct FakeApplier {
    replica: Arc<Replica>,
    /// Received commands, in order.
    pub(super) commands: Mutex<Vec<Command>>,
    /// Refusal of the next command.
    pub(super) refusal: Mutex<Option<Refusal>>,
    /// Index of the head that it reports, if not the replica's.
    pub(super) head: Mutex<Option<Index>>,
}

impl Harness {
    /// With a new cluster after these changes.
    pub(super) async fn with(changes: Vec<Change>) -> Self {
        let harness = Self::without_applier(changes).await;
        Arc::clone(&harness.applier).serve(harness.bus.clone()).await;
        harness
    }

    /// Like [`Self::with`], in a process that has other roles as well.
    pub(super) async fn colocated(changes: Vec<Change>, colocated: Colocated) -> Self {
        let harness = Self::start(changes, colocated, &[]).await;
        Arc::clone(&harness.applier).serve(harness.bus.clone()).await;
        harness
    }

    /// Like [`Self::with`], with these flags and without changes.
    pub(super) async fn with_flags(flags: &[&str]) -> Self {
        let harness = Self::start(Vec::new(), Colocated::default(), flags).await;
        Arc::clone(&harness.applier).serve(harness.bus.clone()).await;
        harness
    }

    /// Like [`Self::with`], without an applier.
    pub(super) async fn without_applier(changes: Vec<Change>) -> Self {
        Self::start(changes, Colocated::default(), &[]).await
    }

    async fn start(changes: Vec<Change>, colocated: Colocated, flags: &[&str]) -> Self {
        let nats = Nats::temporary().await.unwrap();
        let credentials = nats.credentials(Role::Observer).unwrap();
        let bus_args = bus::Args { credentials, ..bus::Args::new(vec![nats.url().parse().unwrap()]) };
        let bus = Bus::connect(&bus_args, Role::Observer).await.unwrap();
        let replica = Arc::new(Replica::new(testing::state_of(changes)));
        let usual = ["test", "--http-addr", "127.0.0.1:0", "--http-workers", "1"];
        let args = ApiArgs::parse_from(usual.iter().chain(flags)).args;
        let mut server = Server::bind(args).unwrap().with_colocated(colocated);
        server.limits = Limits {
            leader_timeout: Duration::from_millis(500),
            request_bytes_max: 64 << 10,
            request_objects_max: 100,
            request_values_max: 10_000,
            ..server.limits
        };
        let url = format!("http://{}", server.addr());
        let stop = CancellationToken::new();
        let process = ProcessId::from_bytes([9; 16]);
        let serving = server.run(bus.clone(), Arc::clone(&replica), bus.contact(), process, stop.clone());
        rt::spawn(serving);
        let applier = Arc::new(FakeApplier {
            replica: Arc::clone(&replica),
            commands: Mutex::default(),
            refusal: Mutex::default(),
            head: Mutex::default(),
        });
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .unwrap();
        Self { replica, bus, applier, client, url, stop, _nats: nats }
    }

    /// Applies one change set.
    pub(super) fn change(&self, changes: Vec<Change>) {
        self.change_together(vec![changes]);
    }

    /// Applies several change sets as one batch.
    pub(super) fn change_together(&self, sets: Vec<Vec<Change>>) {
        let first = self.replica.snapshot().index().next().0;
        let sets = (first..).zip(sets).map(|(index, changes)| Arc::new(testing::set(index, changes)));
        self.replica.apply(sets.collect()).unwrap();
    }

    /// A request that is not sent yet.
    pub(super) fn builder(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// Response to a GET.
    pub(super) async fn get(&self, path: &str) -> Response {
        Response::new(self.builder("GET", path)).await
    }

    /// Response to a PUT of a JSON body.
    pub(super) async fn put(&self, path: &str, body: &str) -> Response {
        Response::new(self.builder("PUT", path).body(body.to_owned())).await
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl FakeApplier {
    async fn serve(self: Arc<Self>, bus: Bus) {
        let mut heads = bus.serve(Subject::GetHead.to_string()).await.unwrap();
        let mut commands = bus.serve(Subject::EVERY_COMMAND).await.unwrap();
        bus.contact().record_head(self.head());
        bus.flush().await.unwrap();
        let applier = Arc::clone(&self);
        tokio::spawn(async move {
            while let Some(request) = heads.next().await {
                request.body::<GetHead>().unwrap();
                request.answer(&applier.head()).await;
            }
        });
        tokio::spawn(async move {
            while let Some(request) = commands.next().await {
                let command: Command = request.body().unwrap();
                self.commands.lock().unwrap().push(command.clone());
                let refusal = self.refusal.lock().unwrap().take();
                match refusal {
                    Some(refusal) => request.refuse(refusal).await,
                    None => {
                        let done = self.carry_out(command, EvalId::derived(request.id(), 0));
                        request.answer(&Answer::Done(done)).await;
                    }
                }
            }
        });
    }

    fn head(&self) -> Head {
        let state = self.replica.snapshot();
        Head {
            history: state.history(),
            index: self.head.lock().unwrap().unwrap_or(state.index()),
            at: Timestamp::from_secs(1_767_225_600),
            epoch: Epoch(1),
            applier: ProcessId::from_bytes([4; 16]),
            began: None,
        }
    }

    /// Registers jobs. Any other command only gets an index.
    fn carry_out(&self, command: Command, eval: EvalId) -> Done {
        let index = self.replica.snapshot().index().next();
        let mut changes = Vec::new();
        if let Command::DeregisterJob(deregister) = &command
            && self.replica.snapshot().job(&deregister.job).is_none()
        {
            return Done { index, ..Done::default() };
        }
        if let Command::RegisterJob(register) = command {
            let job = model::job::Job {
                spec: register.spec,
                create_index: index,
                modify_index: index,
                job_modify_index: index,
                ..model::job::Job::default()
            };
            changes.push(Change::Job(Arc::new(job)));
        }
        self.replica.apply(vec![Arc::new(testing::set(index.0, changes))]).unwrap();
        Done { index, written: true, object_index: index, evals: vec![eval], ..Done::default() }
    }
}

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: reqwest::header::HeaderMap,
    pub(super) text: String,
}

impl Response {
    /// Sends a request and receives the whole response.
    pub(super) async fn new(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Self { status, headers, text: response.text().await.unwrap() }
    }

    /// Value of a header; empty if it is absent.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Body of a successful JSON response.
    pub(super) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_str(&self.text).unwrap()
    }

    /// Status and body of an error.
    pub(super) fn error(&self) -> (u16, &str) {
        assert!(!self.status.is_success(), "{}", self.text);
        (self.status.as_u16(), &self.text)
    }
}
