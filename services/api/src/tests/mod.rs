//! The API as its clients meet it: over HTTP, with a replica made for the test, a real NATS, and stand-ins for the applier
//! and an agent.

mod blocking;
mod deployments;
mod evaluations;
mod files;
mod fuzz;
mod house;
mod reads;
mod submissions;
mod transport;
mod writes;
