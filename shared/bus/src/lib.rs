//! NATS: the connection, requests and answers, commands, the change feed that keeps a replica up to date, and the leases
//! of singletons.
//!
//! What is said stands in `wire`; here is how it gets there: envelopes, deadlines, repeats. NATS delivers at most once
//! and may lose anything, so whoever needs an answer asks again, and whoever follows the feed repairs gaps from the log.
//! Where that log is kept is the business of whoever brings a [`feed::Log`].

mod args;
mod backoff;
mod call;
mod command;
mod connection;
mod contact;
mod envelope;
pub mod feed;
mod gathered;
mod identity;
pub mod lease;
pub mod metrics;
mod publisher;
mod returned;
mod serve;
mod span;
mod trouble;
mod turn;

pub use args::{Address, Args};
pub use call::RequestError;
pub use command::CommandError;
pub use connection::{Bus, Error, Reconnections};
pub use contact::Contact;
pub use gathered::{Gathered, GatheredRequests, Hearing};
pub use publisher::Publisher;
pub use returned::{Answers, Returned};
pub use serve::{Request, Requests};
pub use turn::WriteTurn;
