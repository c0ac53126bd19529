//! What commands do, rule by rule, and what holds whatever they do.

mod cluster;
mod deployments;
mod describe;
mod eligibility;
mod garbage;
mod jobs;
mod nodes;
mod plans;
mod properties;
mod reconnect;
mod reports;
mod scene;
