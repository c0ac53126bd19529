//! [`Proxy`]: a TCP proxy to the server that can hold data back, or break connections on the client's side only.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How data from clients is treated, on connections that were made while the flow was [`Flow::Open`]. Later connections
/// stay open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    /// Data is held back.
    Held,
    /// Data is held back, and the client's connection is broken.
    Cut,
    /// Data that was held back is sent to the server, although the client is gone.
    Late,
}

pub(crate) struct Proxy {
    pub(crate) url: String,
    flow: watch::Sender<Flow>,
    /// How many times data was held back.
    held: watch::Receiver<usize>,
}

impl Proxy {
    /// A proxy to the server of a URL. Its own URL names the same database through the proxy.
    pub(crate) async fn before(url: &str) -> Self {
        let address = |url: &str| url.split(['@', '/']).nth(3).unwrap().to_owned();
        let server = address(url);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let (flow, _) = watch::channel(Flow::Open);
        let (tell, held) = watch::channel(0);
        tokio::spawn(accept(listener, server.parse().unwrap(), flow.clone(), tell));
        Self { url: url.replace(&server, &own.to_string()), flow, held }
    }

    /// Holds back data from now on.
    pub(crate) fn hold(&self) {
        self.flow.send_replace(Flow::Held);
    }

    /// Waits until data is held back.
    pub(crate) async fn holds(&mut self) {
        self.held.wait_for(|held| *held > 0).await.unwrap();
    }

    /// Breaks the clients' connections.
    pub(crate) fn cut(&self) {
        self.flow.send_replace(Flow::Cut);
    }

    /// Sends the held-back data to the server.
    pub(crate) fn deliver(&self) {
        self.flow.send_modify(|flow| *flow = if *flow == Flow::Cut { Flow::Late } else { Flow::Open });
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    flow: watch::Sender<Flow>,
    held: watch::Sender<usize>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect(server).await.unwrap();
        let is_followed = *flow.borrow() == Flow::Open;
        let flow = if is_followed { flow.subscribe() } else { watch::channel(Flow::Open).1 };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::spawn(up(from_client, to_server, flow.clone(), held.clone()));
        tokio::spawn(down(from_server, to_client, flow));
    }
}

async fn up(
    client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    mut flow: watch::Receiver<Flow>,
    held: watch::Sender<usize>,
) {
    let (mut client, mut buffer) = (Some(client), vec![0; 1 << 16]);
    while let Some(from) = &mut client {
        let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
        if *flow.borrow() == Flow::Held {
            held.send_modify(|held| *held += 1);
            if is(&mut flow, |flow| flow != Flow::Held).await == Flow::Cut {
                client = None;
                is(&mut flow, |flow| flow != Flow::Cut).await;
            }
        }
        if server.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

async fn down(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, mut flow: watch::Receiver<Flow>) {
    tokio::select! {
        _ = tokio::io::copy(&mut server, &mut client) => {}
        _ = is(&mut flow, |flow| flow == Flow::Cut) => {}
    }
}

/// Waits for a flow that matches; forever once the sender is gone.
async fn is(flow: &mut watch::Receiver<Flow>, like: impl Fn(Flow) -> bool) -> Flow {
    let reached = flow.wait_for(|flow| like(*flow)).await.map(|flow| *flow);
    match reached {
        Ok(flow) => flow,
        Err(_) => std::future::pending().await,
    }
}
