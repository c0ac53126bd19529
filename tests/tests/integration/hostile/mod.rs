//! Who may speak to whom, tried by attackers: with the credentials of a node, with those of a scheduler, and with none that
//! are good. What they try is refused by NATS or does no harm, and the cluster works on.
//!
//! NATS runs with the configuration and the credentials of a cluster, and each service in a process of its own. An auditor
//! whom everything is permitted sees every message, so that *refused* means that it did not arrive.

mod node;
mod scene;
mod scheduler;
mod stranger;
