//! PostgreSQL: the log of change sets, its head, and the object tables that people query. All SQL is in this crate.
//!
//! A [`Writer`] belongs to the plan applier. It takes the lease, commits change sets, resolves commits of unknown outcome,
//! and trims the log. A commit appends to the log and moves the head in one statement. A [`Projector`] brings the object
//! tables up to date behind the log. A [`Database`] is for every service that reads: the newest durable state is the
//! content of the object tables plus the log after them. The plan applier decides what is committed and when; the crate
//! `state` defines what a state is.
//!
//! # Statements
//!
//! Statements are checked at compile time (`query!`) against the description of a database in `.sqlx`; builds need no
//! database. After changing a statement or adding a migration, run `.ci/sqlx`: it starts a database and writes `.sqlx`
//! again. A few statements cannot be checked, and say why: they name tables that no migration creates, create tables
//! themselves, or are made of what the kinds of small objects declare.
//!
//! # Failpoints
//!
//! The steps of takeover, commit and projection are named with `fail_point!`, so that tests can stop or kill a process
//! between any two of them. Failpoints compile to nothing unless `fail` is built with its feature `failpoints`, as `tests`
//! does.
//!
//! # Roles
//!
//! Every service logs in with a role of its own, which can read exactly the tables that the service's replica keeps. The
//! plan applier's role owns the database. [`roles`] has the table of rights, and everything that is derived from it.

mod args;
mod atomic_epoch;
mod certificates;
mod database;
mod durability;
mod error;
mod head;
mod load;
mod loading;
mod log;
mod partitions;
mod projection;
mod projector;
mod rebuild;
pub mod roles;
mod schema;
mod secrets;
mod server;
mod tables;
mod touched;
mod trimming;
mod warnings;
mod writer;

/// The row `head`: the last index of the log, and which applier may write.
pub use wire::feed::Head;

pub use args::Args;
pub use database::Database;
pub use error::Error;
pub use head::{Confirmed, TakeOutcome};
pub use load::Loaded;
pub use log::Tail;
pub use projector::Projector;
pub use rebuild::{Difference, compare_with_log};
pub use trimming::{LOG_KEEP_MIN, LogSize};
pub use writer::{Outcome, Writer};
