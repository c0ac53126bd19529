//! The wire protocol between services: every NATS subject, every header and every message.
//!
//! No other crate spells a subject or a header. Messages are MessagePack maps, so that readers tolerate added and
//! missing fields. A field whose meaning changes gets a new version of its message, and older versions are upgraded
//! when they are decoded. A wake-up message only says that something changed; the index says what is current. Any
//! request may be answered by a [`Refusal`] instead of its own response. Connections, timeouts and the handling of
//! headers belong to the crate `bus`.

pub mod broker;
pub mod checks;
pub mod command;
pub mod directory;
pub mod envelope;
pub mod exec;
pub mod feed;
pub mod files;
pub mod flow;
pub mod inbox;
mod log_row;
pub mod meta;
pub mod metrics;
pub mod node;
pub mod permissions;
pub mod refusal;
pub mod role;
pub mod senders;
mod service_instances;
pub mod services;
pub mod stats;
pub mod subject;
pub mod tasks;
pub mod volumes;
mod write_gate;

pub use envelope::{DecodeError, Wire, decode, decode_message, encode};
pub use inbox::Inbox;
pub use log_row::LogRow;
pub use refusal::{Refusal, RefusalKind, decode_answer};
pub use role::Role;
pub use subject::Subject;
pub use write_gate::WriteGate;

#[cfg(any(test, feature = "samples"))]
pub mod samples;
