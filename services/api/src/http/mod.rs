//! HTTP plumbing that all routes share: parameters, bodies, consistency, blocking queries, pages, headers, errors, and the
//! spans and metrics of requests.

mod background;
mod body;
mod compress;
mod content;
pub(crate) mod cors;
mod error;
mod failures;
mod frames;
mod ids;
mod indent;
pub(crate) mod list;
mod memory;
mod origin;
mod page_token;
mod params;
mod path;
mod permits;
mod read;
mod request_metrics;
mod response;
mod response_cache;
mod span;
mod transfer;
mod websocket;

pub(crate) use background::{Background, Work};
pub(crate) use body::{REQUEST_MEMORY_MAX, RequestBody, decode, receive};
pub(crate) use compress::{accepts_gzip, gzip};
pub(crate) use content::{Body, BodyStream, Content};
pub(crate) use error::{Cause, Error, NO_LEADER, NO_REGION};
pub(crate) use failures::{Answered, FailureLog};
pub(crate) use frames::{Framing, StreamItem};
pub(crate) use ids::{parse_id, prefix_range};
pub(crate) use list::{Effort, Piece, creation_token, ordered, piece, remaining};
pub(crate) use memory::{Memory, Reservation};
pub(crate) use origin::Origins;
pub(crate) use params::{Namespace, Page, Query, ReadOptions, integer, unsigned};
pub(crate) use path::{CleanPath, clean, escape, unescape};
pub(crate) use permits::{Permit, PermitKind, Permits};
pub(crate) use read::{HeadClient, Selection, Watched, head_client};
pub(crate) use request_metrics::record_request;
pub(crate) use response::{Meta, RESPONSE_MEMORY_MAX, Response, no_response_memory};
pub(crate) use response_cache::{CacheKey, ResponseCache};
pub(crate) use span::{Spans, client_trace, record_status};
pub(crate) use websocket::{Received, Socket, SocketError, SocketReader, SocketRequest, SocketWriter};
