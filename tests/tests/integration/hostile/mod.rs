//! Attacks on the permissions of NATS: with the credentials of a node, with those of a scheduler, and without valid
//! credentials. NATS must refuse each attempt, or the attempt must do no harm, and the cluster must keep working.
//!
//! NATS runs with the configuration and the credentials of a cluster, and each service in a process of its own. An
//! auditor with all permissions receives every message, so that a test can verify that a refused message did not
//! arrive.

mod node;
mod scene;
mod scheduler;
mod unauthenticated;
