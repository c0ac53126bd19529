//! The NATS client: the connection, requests and responses, commands, the change feed that keeps a replica up to date,
//! and the leases of singletons.
//!
//! The crate `wire` defines the messages; this crate transports them: headers, deadlines and retries. NATS delivers a
//! message at most once and may lose any message. So a process that needs a response repeats its request, and a process
//! that follows the feed reads missing change sets from the log. The caller provides the log as a [`feed::Log`].

mod args;
mod backoff;
mod batched;
mod call;
mod command;
mod connection;
mod contact;
pub mod continuity;
mod conversation;
mod database;
mod diagnostics;
mod envelope;
mod error;
pub mod feed;
mod identity;
pub mod lease;
mod lease_connection;
mod lease_status;
pub mod metrics;
mod outgoing;
mod publisher;
mod refusals;
mod serve;
mod span;
mod undelivered;

pub use args::{Address, Args};
pub use batched::{Batched, BatchedRequests, EchoMonitor};
pub use call::RequestError;
pub use connection::{Bus, Reconnections};
pub use contact::{Contact, LogFailure};
pub use continuity::LostChangeSet;
pub use conversation::{Conversation, Replies};
pub use database::{DatabaseMatch, OtherDatabase};
pub use error::Error;
pub use lease_status::{LeaseStatus, LeaseStatuses};
pub use publisher::{Commit, Publisher};
pub use serve::{Request, Requests};
pub use undelivered::{TrackedResponses, Undelivered};
