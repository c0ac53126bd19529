//! A nats-server of one's own and connections to it.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr};
use bus::{Args, Bus, Request, Requests};
use private_servers::Nats;

/// Turns a test that hangs into one that fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) nats: Nats,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self { nats: Nats::temporary().await.unwrap() }
    }

    pub(crate) fn args(&self) -> Args {
        Args { servers: vec![self.nats.url().parse().unwrap()], credentials: None }
    }

    pub(crate) async fn bus(&self) -> Bus {
        soon(Bus::connect(&self.args(), "test")).await.unwrap()
    }

    /// A connection that knows of no envelopes.
    pub(crate) async fn client(&self) -> Client {
        let url: ServerAddr = self.nats.url().parse().unwrap();
        let (user, password) = (url.username().unwrap().to_owned(), url.password().unwrap().to_owned());
        ConnectOptions::with_user_and_password(user, password).connect(url).await.unwrap()
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
