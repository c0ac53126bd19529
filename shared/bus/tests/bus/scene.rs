//! A private nats-server, and connections to it.

use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use bus::{Args, Bus, Request, Requests};
use private_servers::Nats;
use wire::{Inbox, Role};

/// A hanging test fails after this time.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) nats: Nats,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self { nats: Nats::temporary().await.unwrap() }
    }

    /// The settings of a process with this role.
    pub(crate) fn args(&self, role: Role) -> Args {
        let credentials = self.nats.credentials(role).unwrap();
        Args { credentials, ..Args::new(vec![self.nats.url().parse().unwrap()]) }
    }

    /// The settings of an agent that signs its own credentials.
    pub(crate) fn agent_args(&self) -> Args {
        let node_key = self.nats.node_key().unwrap();
        Args { node_key, ..Args::new(vec![self.nats.url().parse().unwrap()]) }
    }

    /// A connection with all permissions.
    pub(crate) async fn bus(&self) -> Bus {
        soon(Bus::connect(&self.args(Role::Observer), Role::Observer)).await.unwrap()
    }

    /// A plain NATS client, which adds no headers.
    pub(crate) async fn client(&self) -> Client {
        let credentials = self.nats.credentials(Role::Observer).unwrap().unwrap();
        let options = ConnectOptions::with_credentials_file(credentials).await.unwrap();
        let inbox = Inbox::Service(Role::Observer);
        options.custom_inbox_prefix(inbox).connect(self.nats.url()).await.unwrap()
    }
}

/// Waits for a future that must complete.
pub(crate) fn soon<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let limited = Box::pin(tokio::time::timeout(PATIENCE, future));
    async { limited.await.expect("the future completes within the test's timeout") }
}

pub(crate) async fn next(requests: &mut Requests) -> Request {
    soon(requests.next()).await.expect("the connection is open")
}
