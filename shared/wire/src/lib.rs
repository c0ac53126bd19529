//! What services say to each other: every NATS subject there is, and every message.
//!
//! Nobody else spells a subject or a header. Messages are MessagePack maps, so that a field more or less is forgiven;
//! what a changed meaning needs is a new version, and an upgrade on the way in. A message says *look*; the index says
//! what is so. Any request may be answered by a [`Refusal`] instead of its own answer. Connections, time-outs and the
//! envelope's handling are `bus`'s business.

pub mod broker;
pub mod command;
pub mod envelope;
pub mod feed;
pub mod files;
pub mod inbox;
pub mod metrics;
pub mod node;
pub mod permissions;
pub mod refusal;
pub mod role;
pub mod senders;
pub mod stats;
pub mod subject;
pub mod tasks;

pub use envelope::{DecodeError, Wire, decode, decode_answer, decode_message, encode};
pub use inbox::Inbox;
pub use refusal::{Refusal, RefusalKind};
pub use role::Role;
pub use subject::Subject;

#[cfg(test)]
mod samples;
