//! Tests of the API over HTTP, with a replica made for the test, a real NATS server, a fake applier and a fake agent, and
//! of what its requests may say.

mod acl;
mod agent;
mod blocking;
mod children;
mod deployments;
mod drains;
mod evaluations;
mod exec;
mod files;
mod fuzz;
mod garbage;
mod harness;
mod hostile;
mod keyring;
mod node_meta;
mod operator;
mod parameters;
mod reads;
mod scaling;
mod search;
mod services;
mod signals;
mod stats;
mod statuses;
mod submissions;
mod transport;
mod versions;
mod volumes;
mod writes;
