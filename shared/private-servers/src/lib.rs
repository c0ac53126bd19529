//! Starts a private PostgreSQL and nats-server, for `drover dev` and for tests.
//!
//! Both listen on 127.0.0.1 only, on a port that was free. PostgreSQL wants a random password, which its URL carries;
//! nats-server wants credentials ([`Nats::credentials`]) or, if it is to, such a password. Whoever
//! starts one holds a pipe to a guard process; when the pipe closes, because the value was dropped or because its
//! process died in whatever way, the guard stops the server and removes what was temporary. Schema, subjects and
//! everything else inside the servers is left to those who connect.

mod error;
mod guard;
mod nats;
mod paused;
mod places;
mod postgres;
mod programs;
mod template;

pub use error::Error;
pub use nats::{Nats, NatsAccess, NatsOptions, NatsTls};
pub use paused::Paused;
pub use postgres::{Certificate, Postgres, PostgresOptions};
