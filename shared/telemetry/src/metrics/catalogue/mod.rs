//! The catalogue of all metrics. Tests check `docs/metrics.md`, the dashboards and the alert rules against it.

mod drover;
mod nomad;

pub use self::drover::*;
pub use self::nomad::*;

use super::{Meta, Metric};

/// The plan applier: a service with one active process.
pub const APPLIER: &str = "plan-applier";
/// The evaluation broker: a service with one active process.
pub const BROKER: &str = "eval-broker";
/// The node-tracker: a service with one active process.
pub const TRACKER: &str = "node-tracker";
/// The deployment watcher: a service with one active process.
pub const WATCHER: &str = "deployment-watcher";

/// All metrics, those of Drover first.
pub fn all() -> impl Iterator<Item = Metric> {
    drover::ALL.iter().chain(nomad::ALL).copied()
}

/// Finds the metric with this name, which is written with dots.
pub fn find(name: &str) -> Option<&'static Meta> {
    all().map(Metric::meta).find(|meta| meta.name == name)
}

/// Defines a static handle for each line, and a list of all handles.
macro_rules! metrics {
    ($( $help:literal $kind:ident $handle:ident = $name:literal [$($label:literal),*] $merge:expr; )+) => {
        $(
            #[doc = $help]
            pub static $handle: $kind = $kind::new(Meta {
                name: $name,
                kind: Kind::$kind,
                labels: &[$($label),*],
                help: $help,
                merge: $merge,
            });
        )+

        pub(super) static ALL: &[Metric] = &[$( Metric::$kind(&$handle) ),+];
    };
}
use metrics;
