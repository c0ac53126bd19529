//! The API in memory, with a cluster that does not change. Its NATS server and its applier are real connections of
//! this process, so that every route gets its response.

use std::sync::Arc;

use api::fuzzing::{InMemory, Request, Response};
use bus::Bus;
use model::{Epoch, HistoryId, ProcessId};
use private_servers::Nats;
use state::Replica;
use tokio::runtime::Runtime;
use wire::command::{Answer, Done};
use wire::feed::Head;
use wire::{Role, Subject};

use crate::world;

/// An API with its runtime. Everything runs on the thread that sends requests.
struct Api {
    runtime: Runtime,
    in_memory: InMemory,
    _nats: Nats,
}

thread_local! {
    /// The API of this thread. It lasts as long as the process, because a runtime cannot be dropped while its thread
    /// ends.
    static API: &'static Api = Box::leak(Box::new(Api::start()));
}

/// Sends a request. `None` if the HTTP server would refuse it.
pub(crate) fn respond(request: &Request<'_>) -> Option<Response> {
    API.with(|api| api.runtime.block_on(api.in_memory.respond(request)))
}

/// Sends a GET.
pub(crate) fn get(target: &str) -> Option<Response> {
    respond(&Request { method: "GET", target, headers: Vec::new(), body: b"" })
}

/// Sends a PUT.
pub(crate) fn put(target: &str, body: &[u8]) -> Option<Response> {
    respond(&Request { method: "PUT", target, headers: Vec::new(), body })
}

impl Api {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the runtime starts");
        let (in_memory, nats) = runtime.block_on(async {
            let nats = Nats::temporary().await.expect("a private nats-server starts");
            let bus = connect(&nats).await;
            let replica = Arc::new(Replica::new(world::recorded()));
            respond_as_applier(&bus, head(&replica)).await;
            (InMemory::start(bus, replica), nats)
        });
        Self { runtime, in_memory, _nats: nats }
    }
}

async fn connect(nats: &Nats) -> Bus {
    let address = nats.url().parse().expect("the URL of a server is an address");
    let credentials = nats.credentials(Role::Observer).expect("a private server has credentials");
    let args = bus::Args { credentials, ..bus::Args::new(vec![address]) };
    Bus::connect(&args, Role::Observer).await.expect("a private server can be connected")
}

fn head(replica: &Replica) -> Head {
    let state = replica.snapshot();
    Head {
        history: HistoryId::from_bytes([3; 16]),
        index: state.index(),
        at: state.at(),
        epoch: Epoch(1),
        applier: ProcessId::from_bytes([4; 16]),
        began: None,
    }
}

/// Responds to requests for the head, and to every command as if there were nothing to do.
async fn respond_as_applier(bus: &Bus, head: Head) {
    let mut heads = bus.serve(Subject::GetHead.to_string()).await.expect("the subject is valid");
    let mut commands = bus.serve(Subject::EVERY_COMMAND).await.expect("the subject is valid");
    bus.contact().record_head(head);
    tokio::spawn(async move {
        while let Some(request) = heads.next().await {
            request.answer(&head).await;
        }
    });
    tokio::spawn(async move {
        while let Some(request) = commands.next().await {
            request.answer(&Answer::Done(Done { index: head.index, ..Done::default() })).await;
        }
    });
}
