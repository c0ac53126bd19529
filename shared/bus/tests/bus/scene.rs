//! A nats-server of one's own and connections to it.

use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use bus::{Args, Bus, Request, Requests};
use private_servers::Nats;
use wire::{Inbox, Role};

/// Turns a test that hangs into one that fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) nats: Nats,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self { nats: Nats::temporary().await.unwrap() }
    }

    /// The settings of somebody in this role.
    pub(crate) fn args(&self, role: Role) -> Args {
        let credentials = self.nats.credentials(role).unwrap();
        Args { credentials, ..Args::new(vec![self.nats.url().parse().unwrap()]) }
    }

    /// The settings of an agent that signs its own credentials.
    pub(crate) fn agent_args(&self) -> Args {
        let node_key = self.nats.node_key().unwrap();
        Args { node_key, ..Args::new(vec![self.nats.url().parse().unwrap()]) }
    }

    /// Somebody who may do everything.
    pub(crate) async fn bus(&self) -> Bus {
        soon(Bus::connect(&self.args(Role::Observer), Role::Observer)).await.unwrap()
    }

    /// A connection that knows of no envelopes.
    pub(crate) async fn client(&self) -> Client {
        let credentials = self.nats.credentials(Role::Observer).unwrap().unwrap();
        let options = ConnectOptions::with_credentials_file(credentials).await.unwrap();
        let inbox = Inbox::Service(Role::Observer);
        options.custom_inbox_prefix(inbox).connect(self.nats.url()).await.unwrap()
    }
}

/// Waits for what must come.
pub(crate) fn soon<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let limited = Box::pin(tokio::time::timeout(PATIENCE, future));
    async { limited.await.expect("it happens soon") }
}

pub(crate) async fn next(requests: &mut Requests) -> Request {
    soon(requests.next()).await.expect("the connection lasts")
}
