//! Receives the nodes' heartbeats. Every process receives all of them: the active one answers, the standbys record them.

use std::sync::Arc;

use actix::Addr;
use bus::{BatchedRequests, Request};
use model::NodeId;
use state::{Replica, Snapshot};
use tokio::sync::watch;
use wire::Subject;
use wire::node::Heartbeat;

use crate::actor::{NodeTracker, RecordStandbyHeartbeats};
use crate::serve::Server;

/// Passes heartbeats to the server while this process is active, otherwise to the standby.
pub(crate) async fn receive(
    mut heartbeats: BatchedRequests,
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
            None => standby.record(&requests).await,
        }
    }
}

/// A standby process.
pub(crate) struct Standby {
    pub(crate) replica: Arc<Replica>,
    pub(crate) timers: Addr<NodeTracker>,
}

impl Standby {
    /// Records which nodes are alive. The active process refuses invalid messages.
    async fn record(&self, requests: &[Request]) {
        let snapshot = self.replica.snapshot();
        let nodes = requests.iter().filter_map(|request| sender(request, &snapshot)).collect();
        // Fails if the actor has stopped. Then the service ends.
        let _ = self.timers.send(RecordStandbyHeartbeats(nodes)).await;
    }
}

/// The node that sent a heartbeat, if its id, secret and boot are valid.
fn sender(request: &Request, snapshot: &Snapshot) -> Option<NodeId> {
    let Heartbeat { id, secret, boot } = request.body().ok()?;
    let node = snapshot.node(id).filter(|_| Subject::node_of(request.subject()) == Some(id))?;
    (node.spec().secret_id == secret && node.spec().boot == boot).then_some(id)
}
