//! Tests of the API over HTTP, with a replica made for the test, a real NATS server, a fake applier and a fake agent, and
//! of what its requests may say.

mod agent;
mod blocking;
mod deployments;
mod evaluations;
mod exec;
mod files;
mod fuzz;
mod garbage;
mod harness;
mod hostile;
mod keyring;
mod parameters;
mod reads;
mod services;
mod stats;
mod statuses;
mod submissions;
mod transport;
mod versions;
mod writes;
