//! The HTTP API's JSON, field by field: what the job file parser, the API, the command line and tests speak.
//!
//! A struct is named after the API's object and has its fields in snake case. Every field is optional, also
//! numbers, booleans, lists and maps, because in a request *unset* is not *zero*: an absent `Count` gets a
//! default, a `Count` of 0 stays 0. What the values mean, which defaults apply and what is valid belongs to
//! `model`.
//!
//! On the wire:
//! - keys are UpperCamelCase, such as `JobID` or `MemoryMB`; reading ignores their ASCII case
//!   ([`decode::from_slice`]), unknown ones are skipped;
//! - `null` and an absent key both read as `None`;
//! - `None` is written as `null`, but left out in the objects that omit what is empty ([`Allocation`],
//!   [`Evaluation`], [`NetworkResource`], [`Port`], [`AllocatedPortMapping`]), and for single fields that
//!   reads never show. Zeros are always written: whether a zero shows is the caller's choice of `None`;
//! - durations are integers of nanoseconds, as are points in time of integer type (two exceptions say so);
//!   other points in time are [`Time`], and bytes are [`Base64`].

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
pub use task::*;
pub use time::*;
pub use volume::*;
