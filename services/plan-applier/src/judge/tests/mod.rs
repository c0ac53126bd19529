//! Tests of judging: commands, rule by rule, and properties that hold after any sequence of commands.

mod cluster;
mod deployments;
mod describe;
mod drains;
mod eligibility;
mod garbage;
mod jobs;
mod launches;
mod nodes;
mod plans;
mod properties;
mod reconnect;
mod reports;
mod rollouts;
mod scaling;
mod scene;
mod services;
mod versions;
mod volumes;
