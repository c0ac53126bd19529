//! Hearing the nodes' heartbeats, which every process does all the time: the active one answers, the others take note.

use std::sync::Arc;

use actix::Addr;
use bus::{Request, Requests};
use state::Replica;
use tokio::sync::{Semaphore, watch};
use wire::Subject;
use wire::node::Heartbeat;

use crate::actor::{NodeTracker, Overheard};
use crate::measure;
use crate::serve::{REQUESTS_MAX, Server};

/// Passes each heartbeat on to the server, which there is while this process is the active one.
pub(crate) async fn hear(
    mut heartbeats: Requests,
    active: watch::Receiver<Option<Server>>,
    standby: Standby,
) {
    let under_way = Arc::new(Semaphore::new(REQUESTS_MAX));
    while let Some(request) = heartbeats.next().await {
        let server = active.borrow().clone();
        let Some(server) = server else {
            standby.overhear(&request).await;
            continue;
        };
        let permit = Arc::clone(&under_way).acquire_owned().await;
        tokio::spawn(async move {
            server.heartbeat(request).await;
            drop(permit);
        });
    }
}

/// A process that stands by.
pub(crate) struct Standby {
    pub(crate) replica: Arc<Replica>,
    pub(crate) timers: Addr<NodeTracker>,
}

impl Standby {
    /// Notes that a node is there. What is wrong with a message the active process says.
    async fn overhear(&self, request: &Request) {
        let Ok(Heartbeat { id, secret, boot }) = request.body() else { return };
        let snapshot = self.replica.snapshot();
        let node = snapshot.node(id).filter(|_| Subject::node_of(request.subject()) == Some(id));
        if node.is_some_and(|node| node.spec().secret_id == secret && node.spec().boot == boot) {
            measure::overheard();
            // Without an actor the service ends.
            let _ = self.timers.send(Overheard(id)).await;
        }
    }
}
