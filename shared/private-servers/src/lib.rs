//! Starts a private PostgreSQL and a private nats-server, for `drover dev` and for tests.
//!
//! Both listen only on 127.0.0.1, on a free port. PostgreSQL requires a random password, which its URL contains.
//! nats-server requires credentials ([`Nats::credentials`]) or, as an option, such a password.
//!
//! The process that starts a server holds a pipe to a guard process. The pipe closes when the value is dropped or when
//! the process dies for any reason. The guard then stops the server and removes temporary files. Schema, subjects and
//! everything else inside the servers belong to their clients.

mod error;
mod guard;
mod host;
mod nats;
mod paused;
mod postgres;
mod programs;
mod template;

pub use error::Error;
pub use nats::{Nats, NatsAccess, NatsOptions, NatsTls};
pub use paused::Paused;
pub use postgres::{Certificate, Postgres, PostgresOptions};
