//! The API as its clients meet it: over HTTP, with a replica made for the test, a real NATS, and stand-ins for the applier
//! and an agent.

mod agent;
mod blocking;
mod deployments;
mod evaluations;
mod files;
mod fuzz;
mod harness;
mod keyring;
mod reads;
mod stats;
mod statuses;
mod submissions;
mod transport;
mod writes;
