//! The client's end of a WebSocket (RFC 6455). The connection is that of an ordinary request, so that address, token and
//! certificates are as in all others. Frames are read and written by `actix-http`.

use actix_http::ws::{self, Codec, Item, Message, hash_key};
use anyhow::{Context as _, bail, ensure};
use api_types::Base64;
use bytes::{Bytes, BytesMut};
use reqwest::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use telemetry::clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio_util::codec::{Decoder as _, Encoder as _};

use super::Room;
use crate::cli::client::{Client, Query};

/// Maximum size of a message of the server, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Number of frames that wait until the connection takes them.
const FRAMES_MAX: usize = 4;
/// Room for what is read at once, in bytes.
const READ_BYTES: usize = 64 << 10;

/// What the server has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message.
    Message(Bytes),
    /// The server asks whether this client is there.
    Ping,
    /// The server is there.
    Pong,
    /// The end, with the reason, which is empty after a command that has ended.
    Closed(String),
}

/// Reads what the server sends.
pub(super) struct Reader {
    connection: ReadHalf<reqwest::Upgraded>,
    codec: Codec,
    received: BytesMut,
    /// The begin of a message that comes in several frames.
    begun: BytesMut,
}

/// Writes frames, on a task of its own: reading must go on while the server takes none.
pub(super) struct Writer(mpsc::Sender<Bytes>);

/// Opens a WebSocket.
pub(super) async fn open(client: &Client, path: &str, query: Query<'_>) -> anyhow::Result<(Reader, Writer)> {
    let key = serde_json::to_value(Base64(clock::random_bytes().to_vec()))?;
    let key = key.as_str().unwrap_or_default().to_owned();
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_str(&key)?);
    let response = client.upgrade(path, query, headers).await?;
    let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
    ensure!(accepted == Some(&hash_key(key.as_bytes())[..]), "the server does not speak WebSocket");
    let connection = response.upgrade().await.context("cannot use the connection for a WebSocket")?;
    let (read, write) = tokio::io::split(connection);
    let codec = Codec::new().client_mode().max_size(MESSAGE_BYTES_MAX);
    let reader = Reader { connection: read, codec, received: BytesMut::new(), begun: BytesMut::new() };
    let (sender, frames) = mpsc::channel(FRAMES_MAX);
    tokio::spawn(write_all(write, frames));
    Ok((reader, Writer(sender)))
}

async fn write_all(mut connection: WriteHalf<reqwest::Upgraded>, mut frames: mpsc::Receiver<Bytes>) {
    while let Some(frame) = frames.recv().await {
        // The reader notices that the connection is lost.
        if connection.write_all(&frame).await.is_err() || connection.flush().await.is_err() {
            return;
        }
    }
}

impl Reader {
    /// Waits for what the server sends next. Cancel safe.
    pub(super) async fn next(&mut self) -> anyhow::Result<Frame> {
        loop {
            if let Some(frame) = self.codec.decode(&mut self.received)? {
                if let Some(frame) = self.handle(frame)? {
                    return Ok(frame);
                }
                continue;
            }
            self.received.reserve(READ_BYTES);
            let read = self.connection.read_buf(&mut self.received).await;
            ensure!(read.context("the connection was lost")? > 0, "the connection was lost");
        }
    }

    /// What a frame says; `None` if the message continues.
    fn handle(&mut self, frame: ws::Frame) -> anyhow::Result<Option<Frame>> {
        let part = match frame {
            ws::Frame::Text(bytes) | ws::Frame::Binary(bytes) => return Ok(Some(Frame::Message(bytes))),
            ws::Frame::Ping(_) => return Ok(Some(Frame::Ping)),
            ws::Frame::Pong(_) => return Ok(Some(Frame::Pong)),
            ws::Frame::Close(reason) => {
                let reason = reason.and_then(|reason| reason.description).unwrap_or_default();
                return Ok(Some(Frame::Closed(reason)));
            }
            ws::Frame::Continuation(part) => part,
        };
        let (bytes, is_last) = match part {
            Item::FirstText(bytes) | Item::FirstBinary(bytes) => {
                self.begun.clear();
                (bytes, false)
            }
            Item::Continue(bytes) => (bytes, false),
            Item::Last(bytes) => (bytes, true),
        };
        if self.begun.len() + bytes.len() > MESSAGE_BYTES_MAX {
            bail!("a message of the server is longer than {MESSAGE_BYTES_MAX} bytes");
        }
        self.begun.extend_from_slice(&bytes);
        Ok(is_last.then(|| Frame::Message(self.begun.split().freeze())))
    }
}

impl Writer {
    /// Waits for room for a frame. Cancel safe.
    pub(super) async fn room(&self) -> anyhow::Result<Room<'_, Bytes>> {
        self.0.reserve().await.context("the connection was lost")
    }

    /// Sends a message.
    pub(super) async fn send(&self, message: String) -> anyhow::Result<()> {
        self.room().await?.send(text(message));
        Ok(())
    }

    /// Shows that this client is there. While frames wait, they will show it.
    pub(super) fn heartbeat(&self) {
        let _ = self.0.try_send(text("{}".to_owned()));
    }

    /// Answers a ping. While frames wait, they are the answer.
    pub(super) fn pong(&self) {
        let _ = self.0.try_send(encoded(Message::Pong(Bytes::new())));
    }
}

/// A frame with a text.
pub(super) fn text(message: String) -> Bytes {
    encoded(Message::Text(message.into()))
}

fn encoded(message: Message) -> Bytes {
    let mut bytes = BytesMut::new();
    // Fails only for a message in several frames.
    let _ = Codec::new().client_mode().encode(message, &mut bytes);
    bytes.freeze()
}
