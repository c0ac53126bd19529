//! Hearing the nodes' heartbeats, which every process does all the time: the active one answers, the others take note.

use std::sync::Arc;

use actix::Addr;
use bus::{GatheredRequests, Request};
use model::NodeId;
use state::{Replica, Snapshot};
use tokio::sync::watch;
use wire::Subject;
use wire::node::Heartbeat;

use crate::actor::{NodeTracker, Overheard};
use crate::serve::Server;

/// Passes heartbeats on to the server, which there is while this process is the active one.
pub(crate) async fn hear(
    mut heartbeats: GatheredRequests,
    active: watch::Receiver<Option<Server>>,
    standby: Standby,
) {
    loop {
        let requests = heartbeats.next_many().await;
        if requests.is_empty() {
            return;
        }
        let server = active.borrow().clone();
        match server {
            Some(server) => server.heartbeats(requests).await,
            None => standby.overhear(&requests).await,
        }
    }
}

/// A process that stands by.
pub(crate) struct Standby {
    pub(crate) replica: Arc<Replica>,
    pub(crate) timers: Addr<NodeTracker>,
}

impl Standby {
    /// Notes which nodes are there. What is wrong with a message the active process says.
    async fn overhear(&self, requests: &[Request]) {
        let snapshot = self.replica.snapshot();
        let nodes = requests.iter().filter_map(|request| sender(request, &snapshot)).collect();
        // Without an actor the service ends.
        let _ = self.timers.send(Overheard(nodes)).await;
    }
}

/// The node that a heartbeat is from, if it proves to be it.
fn sender(request: &Request, snapshot: &Snapshot) -> Option<NodeId> {
    let Heartbeat { id, secret, boot } = request.body().ok()?;
    let node = snapshot.node(id).filter(|_| Subject::node_of(request.subject()) == Some(id))?;
    (node.spec().secret_id == secret && node.spec().boot == boot).then_some(id)
}
