//! PostgreSQL: the log of change sets, its head, and the tables that people query. All SQL is here.
//!
//! A [`Writer`] is the plan applier's: the lease, commits, what became of them, and trimming the log. A commit appends to
//! the log and moves the head, in one statement. A [`Projector`] brings the object tables up to date behind it, a
//! [`Database`] is for everybody who reads: the newest durable state is what the tables hold, and the log from there. What
//! is committed, and when, is the applier's business; what a state is, that of `state`.
//!
//! # Statements
//!
//! Statements are checked when they are compiled (`query!`), against what `.sqlx` remembers of a database; builds need
//! none. After changing a statement or adding a migration, `.ci/sqlx` starts a database and writes `.sqlx` anew. A few
//! statements cannot be checked so, and say why: they name tables that no migration makes, or make tables themselves.
//!
//! # Failpoints
//!
//! The steps of take-over, commit and projection are named (`fail_point!`), so that tests can have a process stop or die
//! between any two of them. They are nothing unless `fail` is built with its feature `failpoints`, as `tests` does.
//!
//! # Roles
//!
//! Every service logs in with a role of its own, which can read what the service's replica keeps, and no more; the plan
//! applier's owns the database. [`roles`] has the table of rights and all that is made from it.

mod args;
mod database;
mod error;
mod head;
mod load;
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
mod writer;

/// How far the log is and who writes it: what the row `head` says.
pub use wire::feed::Head;

pub use args::Args;
pub use database::Database;
pub use error::Error;
pub use head::Take;
pub use load::Loaded;
pub use log::{LogRow, Tail};
pub use projector::Projector;
pub use rebuild::{Difference, compare_with_log};
pub use trimming::{KEPT_MIN, LogSize};
pub use writer::{Outcome, Writer};
