//! All metrics there are. `docs/metrics.md` is checked against it, and so are dashboards and alert rules.

mod drover;
mod nomad;

pub use self::drover::*;
pub use self::nomad::*;

use super::{Meta, Metric};

/// Services of which one process is active.
pub const APPLIER: &str = "plan-applier";
/// See [`APPLIER`].
pub const BROKER: &str = "eval-broker";
/// See [`APPLIER`].
pub const TRACKER: &str = "node-tracker";
/// See [`APPLIER`].
pub const WATCHER: &str = "deployment-watcher";

/// Every metric, by part.
pub fn all() -> impl Iterator<Item = Metric> {
    drover::ALL.iter().chain(nomad::ALL).copied()
}

/// The metric of a name in words with dots between them.
pub fn find(name: &str) -> Option<&'static Meta> {
    all().map(Metric::meta).find(|meta| meta.name == name)
}

/// Makes a static handle of each line, and a list of them all.
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
