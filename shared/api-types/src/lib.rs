//! The JSON objects of the HTTP API as Rust types. The job file parser, the API, the command line and tests use them.
//!
//! A struct is named after the API's object and has its fields in snake case. Every field is optional, including
//! numbers, booleans, lists and maps, because in a request *unset* differs from *zero*: an absent `Count` gets a
//! default, a `Count` of 0 stays 0. The meaning of the values, their defaults and their validation belong to
//! `model`.
//!
//! The JSON format:
//! - Keys are UpperCamelCase, such as `JobID` or `MemoryMB`. Decoding ignores their ASCII case
//!   ([`decode::from_slice`]) and skips unknown keys.
//! - `null` and an absent key both decode to `None`.
//! - `None` is encoded as `null`. It is left out in the objects that omit empty fields ([`Allocation`],
//!   [`Evaluation`], [`NetworkResource`], [`Port`], [`AllocatedPortMapping`]), and in single fields that
//!   responses never contain. Zeros are always written; a caller that wants to hide a zero sets `None`.
//! - Durations are integers of nanoseconds, and so are points in time of integer type, with two documented exceptions.
//!   Other points in time are [`Time`], and bytes are [`Base64`].

mod alloc;
mod base64;
mod connect;
pub mod decode;
mod deployment;
mod diff;
pub mod duration;
mod eval;
mod job;
mod job_read;
mod network;
mod node;
mod node_resources;
mod operator;
mod plan;
mod request;
mod resources;
mod service;
mod service_registration;
mod task;
mod time;
mod volume;

pub use alloc::*;
pub use base64::*;
pub use connect::*;
pub use deployment::*;
pub use diff::*;
pub use eval::*;
pub use job::*;
pub use job_read::*;
pub use network::*;
pub use node::*;
pub use node_resources::*;
pub use operator::*;
pub use plan::*;
pub use request::*;
pub use resources::*;
pub use service::*;
pub use service_registration::*;
pub use task::*;
pub use time::*;
pub use volume::*;
