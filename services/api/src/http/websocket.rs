//! WebSockets (RFC 6455): the handshake, and messages in both directions. Frames are read and written by `actix-http`.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;

use actix_http::ws::{CloseCode, CloseReason, Codec, Frame, Item, Message, hash_key};
use actix_web::http::StatusCode;
use actix_web::http::header::{
    CONNECTION, HeaderMap, HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use actix_web::web::{Bytes, BytesMut, Payload};
use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::codec::{Decoder as _, Encoder as _};

use super::content::{Body, BodyStream};
use super::error::Error;
use super::response::Response;

/// Maximum size of a message of a client, in bytes. Clients send up to 64 KiB of data as base64 text.
pub(crate) const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Number of frames that wait until the connection takes them.
const FRAMES_MAX: usize = 8;
/// Maximum length of the text in a close frame, in bytes.
const REASON_BYTES_MAX: usize = 123;
/// The only version of the protocol.
const VERSION: &str = "13";
/// The header with the token of a user.
const TOKEN: &str = "x-nomad-token";
/// Length of the key of a handshake as base64 text.
const KEY_LENGTH: usize = 24;

/// What a request says about a WebSocket, and the connection that it came by.
#[derive(Default)]
pub(crate) struct SocketRequest {
    upgrade: String,
    connection: String,
    version: String,
    key: String,
    token: String,
    peer: Option<SocketAddr>,
    payload: RefCell<Option<Payload>>,
}

impl fmt::Debug for SocketRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketRequest").field("upgrade", &self.upgrade).finish_non_exhaustive()
    }
}

/// The server's end of a WebSocket.
pub(crate) struct Socket {
    /// What the client sends.
    pub(crate) reader: SocketReader,
    /// What the client gets.
    pub(crate) writer: SocketWriter,
}

/// Reads the messages of a client.
pub(crate) struct SocketReader {
    payload: Payload,
    codec: Codec,
    received: BytesMut,
    /// The begin of a message that comes in several frames.
    begun: BytesMut,
}

/// Writes frames for a client. Dropping it closes the connection when the client has got them.
pub(crate) struct SocketWriter {
    codec: Codec,
    frames: mpsc::Sender<Bytes>,
}

/// What a client has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message.
    Message(Bytes),
    /// A ping, to be answered with the same bytes.
    Ping(Bytes),
    /// An answer to a ping.
    Pong,
    /// The end, in order.
    Closed,
}

/// Why a client's end of a WebSocket cannot be read further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// The connection ended without a word.
    #[error("the connection was lost")]
    Lost,
    /// The client does not keep to the protocol.
    #[error("{0}")]
    Protocol(String),
}

impl SocketRequest {
    /// Takes what concerns a WebSocket from a request.
    pub(crate) fn new(headers: &HeaderMap, peer: Option<SocketAddr>, payload: Payload) -> Self {
        let text = |name: HeaderName| {
            let values = headers.get_all(name).filter_map(|value| value.to_str().ok());
            values.collect::<Vec<_>>().join(",")
        };
        Self {
            upgrade: text(UPGRADE),
            connection: text(CONNECTION),
            version: text(SEC_WEBSOCKET_VERSION),
            key: text(SEC_WEBSOCKET_KEY),
            token: text(HeaderName::from_static(TOKEN)),
            peer,
            payload: RefCell::new(Some(payload)),
        }
    }

    /// Whether the client asks for a WebSocket.
    ///
    /// # Errors
    /// A 500 if it does not (http-api §14.1).
    pub(crate) fn is_wanted(&self) -> Result<(), Error> {
        let is_wanted = has_token(&self.upgrade, "websocket") && self.payload.borrow().is_some();
        if is_wanted { Ok(()) } else { Err(Error::failed("websocket connection not found in context")) }
    }

    /// The token in the header of the request; empty if there is none.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Address of the client, as far as it is known.
    pub(crate) fn peer(&self) -> String {
        self.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string())
    }

    /// Makes the WebSocket, and the response that tells the client so. If the handshake is not complete, there is only the
    /// response that says what is missing (http-api §14.1).
    pub(crate) fn accept(&self) -> (Option<Socket>, Response) {
        let problem = if !has_token(&self.connection, "upgrade") {
            Some(
                "the client is not using the websocket protocol: 'upgrade' token not found in 'Connection' header",
            )
        } else if self.version.trim() != VERSION {
            Some("unsupported version: 13 not found in 'Sec-Websocket-Version' header")
        } else if !is_key(self.key.trim()) {
            Some(
                "not a websocket handshake: 'Sec-WebSocket-Key' header must be Base64 encoded value of 16-byte in length",
            )
        } else {
            None
        };
        let payload = self.payload.borrow_mut().take();
        let (None, Some(payload)) = (problem, payload) else {
            let problem = problem.unwrap_or("the connection is in use");
            let text = format!("Bad Request\nfailed to upgrade connection: websocket: {problem}");
            return (None, Response::ok(Body::Unsniffed(text)).status(StatusCode::BAD_REQUEST));
        };
        let (sender, frames) = mpsc::channel(FRAMES_MAX);
        let pieces: BodyStream = stream::unfold(frames, |mut frames| async move {
            let frame: Bytes = frames.recv().await?;
            Some((Ok(frame), frames))
        })
        .boxed_local();
        let accept = String::from_utf8_lossy(&hash_key(self.key.trim().as_bytes())).into_owned();
        let codec = Codec::new().max_size(MESSAGE_BYTES_MAX);
        let reader =
            SocketReader { payload, codec: codec.clone(), received: BytesMut::new(), begun: BytesMut::new() };
        let socket = Socket { reader, writer: SocketWriter { codec, frames: sender } };
        let response = Response::ok(Body::Socket { accept, pieces }).status(StatusCode::SWITCHING_PROTOCOLS);
        (Some(socket), response)
    }
}

/// Whether a list in a header contains a word, in any letter case.
fn has_token(list: &str, word: &str) -> bool {
    list.split(',').any(|token| token.trim().eq_ignore_ascii_case(word))
}

/// Whether a text is 16 bytes in base64.
fn is_key(key: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    key.len() == KEY_LENGTH && key.ends_with("==") && key.bytes().take(KEY_LENGTH - 2).all(is_base64)
}

impl SocketReader {
    /// Waits for what the client sends next. Cancel safe.
    ///
    /// # Errors
    /// If the connection was lost, or the client does not keep to the protocol.
    pub(crate) async fn next(&mut self) -> Result<Received, SocketError> {
        loop {
            let frame = self.codec.decode(&mut self.received);
            if let Some(frame) = frame.map_err(|error| SocketError::Protocol(error.to_string()))? {
                if let Some(received) = self.handle(frame)? {
                    return Ok(received);
                }
                continue;
            }
            match self.payload.next().await {
                Some(Ok(bytes)) => self.received.extend_from_slice(&bytes),
                Some(Err(_)) | None => return Err(SocketError::Lost),
            }
        }
    }

    /// What a frame says; `None` if the message continues.
    fn handle(&mut self, frame: Frame) -> Result<Option<Received>, SocketError> {
        let part = match frame {
            Frame::Text(bytes) | Frame::Binary(bytes) => return Ok(Some(Received::Message(bytes))),
            Frame::Ping(bytes) => return Ok(Some(Received::Ping(bytes))),
            Frame::Pong(_) => return Ok(Some(Received::Pong)),
            Frame::Close(_) => return Ok(Some(Received::Closed)),
            Frame::Continuation(part) => part,
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
            return Err(SocketError::Protocol(format!("a message is longer than {MESSAGE_BYTES_MAX} bytes")));
        }
        self.begun.extend_from_slice(&bytes);
        Ok(is_last.then(|| Received::Message(self.begun.split().freeze())))
    }
}

impl SocketWriter {
    /// Waits until the connection takes a frame. Cancel safe.
    ///
    /// # Errors
    /// If the connection was lost.
    pub(crate) async fn room(&self) -> Result<mpsc::Permit<'_, Bytes>, SocketError> {
        self.frames.reserve().await.map_err(|_| SocketError::Lost)
    }

    /// Waits until the connection is lost.
    pub(crate) async fn lost(&self) {
        self.frames.closed().await;
    }

    /// A frame with a text.
    pub(crate) fn text(&self, text: String) -> Bytes {
        self.frame(Message::Text(text.into()))
    }

    /// A frame that asks whether the client is there.
    pub(crate) fn ping(&self) -> Bytes {
        self.frame(Message::Ping(Bytes::new()))
    }

    /// The answer to a ping.
    pub(crate) fn pong(&self, bytes: Bytes) -> Bytes {
        self.frame(Message::Pong(bytes))
    }

    /// The last frame: a code, and why. A text that is too long is cut.
    pub(crate) fn close(&self, code: CloseCode, reason: &str) -> Bytes {
        let end = reason.floor_char_boundary(REASON_BYTES_MAX);
        let description = Some(reason[..end].to_owned()).filter(|reason| !reason.is_empty());
        self.frame(Message::Close(Some(CloseReason { code, description })))
    }

    fn frame(&self, message: Message) -> Bytes {
        let mut bytes = BytesMut::new();
        // Fails only for a message in several frames.
        let _ = self.codec.clone().encode(message, &mut bytes);
        bytes.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_checked_in_order() {
        let request = |upgrade: &str, connection: &str, version: &str, key: &str| SocketRequest {
            upgrade: upgrade.to_owned(),
            connection: connection.to_owned(),
            version: version.to_owned(),
            key: key.to_owned(),
            ..SocketRequest::default()
        };
        assert_eq!(request("h2c", "Upgrade", "13", "").is_wanted().unwrap_err().status.as_u16(), 500);
        let problem = |connection: &str, version: &str, key: &str| {
            let (socket, response) = request("websocket", connection, version, key).accept();
            assert!(socket.is_none());
            response.status_code().as_u16()
        };
        assert_eq!(problem("keep-alive", "13", "dGhlIHNhbXBsZSBub25jZQ=="), 400);
        assert_eq!(problem("keep-alive, Upgrade", "8", "dGhlIHNhbXBsZSBub25jZQ=="), 400);
        assert!(is_key("dGhlIHNhbXBsZSBub25jZQ=="));
        for key in ["", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ===", "dGhlIHNhb?BsZSBub25jZQ=="] {
            assert!(!is_key(key), "{key}");
        }
    }

    #[test]
    fn a_close_frame_holds_as_much_of_the_reason_as_fits() {
        let (frames, _receiver) = mpsc::channel(1);
        let writer = SocketWriter { codec: Codec::new(), frames };
        let frame = writer.close(CloseCode::Error, &"\u{e4}".repeat(100));
        assert_eq!(frame.len(), 2 + 2 + 122, "a character is not cut");
        assert_eq!(&frame[..4], [0x88, 124, 3, 243], "code 1011");
    }
}
