//! Contents of responses: bodies, whole or streamed, and the token of the next page.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use actix_web::web::Bytes;
use futures::Stream;
use serde::Serialize;

use super::gzip;
use super::memory::{Memory, Reservation};

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
/// Maximum size of a body that is compressed as a whole on the serving thread, in bytes. That takes some milliseconds.
pub(super) const COMPRESSED_INLINE_BYTES_MAX: usize = 1 << 20;

/// Body of a response, and the token of the next page.
pub(crate) struct Content {
    /// Body.
    pub(crate) body: Body,
    /// Token of the next page, if there is one.
    pub(crate) next_token: Option<String>,
}

impl From<Body> for Content {
    fn from(body: Body) -> Self {
        Self { body, next_token: None }
    }
}

/// Response body with its content type.
pub(crate) enum Body {
    /// No body and no content type.
    Empty,
    /// JSON without indentation.
    Json(Vec<u8>),
    /// JSON that several responses share.
    Shared(Arc<SharedBody>),
    /// JSON that is produced while it is sent.
    JsonStream(BodyStream),
    /// JSON values, one in each line, as events occur. Must not be cached.
    Events(BodyStream),
    /// Any other content type.
    Other {
        /// MIME type.
        content_type: String,
        /// Whole body.
        bytes: Bytes,
    },
    /// Plain text that browsers must not take for anything else.
    Unsniffed(String),
    /// The frames of a WebSocket.
    Socket {
        /// What shows the client that its handshake was understood.
        accept: String,
        /// The frames.
        pieces: BodyStream,
    },
    /// Any other content type, produced while it is sent.
    OtherStream {
        /// MIME type.
        content_type: String,
        /// Whether a job has written it, so that a browser must not show more of it than text.
        is_untrusted: bool,
        /// Body.
        pieces: BodyStream,
    },
}

/// Body that is produced while it is sent.
pub(crate) type BodyStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>>>>;

impl Body {
    /// Serializes a value as JSON.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        Self::Json(serde_json::to_vec(value).expect("plain data always serializes to JSON"))
    }

    /// Plain text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Other { content_type: TEXT.to_owned(), bytes: text.into().into() }
    }
}

/// JSON body that several responses share.
#[derive(Debug)]
pub(crate) struct SharedBody {
    /// The body, uncompressed.
    pub(crate) json: Bytes,
    next_token: Option<String>,
    gzipped: OnceLock<Option<Bytes>>,
    /// Whether compression on another thread has started.
    is_compressing: AtomicBool,
    /// Memory of the body, which is taken until the last response has been sent, however old the body is by then.
    _memory: Reservation,
}

impl SharedBody {
    /// A body that no response has had yet. `next_token` is the token of the next page. Returns the body if there is no
    /// memory to share it.
    pub(super) fn new(
        json: Vec<u8>,
        next_token: Option<String>,
        memory: &Memory,
    ) -> Result<Arc<Self>, (Vec<u8>, Option<String>)> {
        let Some(reservation) = memory.reserve(Self::bytes(json.len())) else {
            return Err((json, next_token));
        };
        Ok(Arc::new(Self {
            json: json.into(),
            next_token,
            gzipped: OnceLock::new(),
            is_compressing: AtomicBool::new(false),
            _memory: reservation,
        }))
    }

    /// Memory of a body of this length together with its compressed form, in bytes. JSON shrinks to a fourth or less.
    pub(super) fn bytes(json_bytes: usize) -> usize {
        json_bytes + json_bytes / 4
    }

    /// The body compressed, which happens once; `None` if it is too small. A long body is compressed on another thread and
    /// sent uncompressed until that is done, so that no request of the serving thread waits for it.
    pub(crate) fn gzipped(self: &Arc<Self>) -> Option<Bytes> {
        if self.json.len() <= COMPRESSED_INLINE_BYTES_MAX {
            return self.compress();
        }
        if !self.is_compressing.swap(true, Ordering::Relaxed) {
            let shared = Arc::clone(self);
            tokio::task::spawn_blocking(move || shared.compress());
        }
        self.gzipped.get().cloned().flatten()
    }

    fn compress(&self) -> Option<Bytes> {
        self.gzipped.get_or_init(|| gzip(&self.json).map(Bytes::from)).clone()
    }

    /// The body as the content of one more response.
    pub(super) fn content(self: Arc<Self>) -> Content {
        Content { next_token: self.next_token.clone(), body: Body::Shared(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix_web::test]
    async fn a_long_body_is_compressed_beside() {
        let shared = |bytes| SharedBody::new(vec![b' '; bytes], None, &Memory::new(8 << 20)).unwrap();
        let long = shared(COMPRESSED_INLINE_BYTES_MAX + 1);
        assert_eq!(long.gzipped(), None, "it is sent uncompressed until then");
        while long.gzipped().is_none() {
            tokio::task::yield_now().await;
        }
        assert!(long.gzipped().is_some_and(|smaller| smaller.len() < COMPRESSED_INLINE_BYTES_MAX / 100));
        assert!(shared(COMPRESSED_INLINE_BYTES_MAX).gzipped().is_some());
    }
}
