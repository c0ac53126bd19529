//! What commands do, rule by rule, and what holds whatever they do.

mod cluster;
mod describe;
mod jobs;
mod nodes;
mod plans;
mod properties;
mod reports;
mod scene;
