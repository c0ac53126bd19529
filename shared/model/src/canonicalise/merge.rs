//! Blocks that stand in several places: those of a job under its groups', a group's under its tasks', and defaults
//! under all of them, member by member.

use api_types::{EphemeralDisk, LogConfig, MigrateStrategy, ReschedulePolicy, RestartPolicy, UpdateStrategy};

use super::defaults::Block;
use crate::mirror::Mirror;

/// A block that takes over members from another of its kind.
pub(super) trait Merge: Default {
    /// Takes over what it lacks.
    fn fill_from(&mut self, outer: &Self);
}

macro_rules! merge {
    ($($block:ident { $($member:ident),+ })+) => { $(
        impl Merge for $block {
            fn fill_from(&mut self, outer: &Self) {
                let Self { $($member),+ } = outer;
                $( if self.$member.is_none() { self.$member.clone_from($member); } )+
            }
        }
    )+ };
}

merge! {
    UpdateStrategy {
        stagger, max_parallel, health_check, min_healthy_time, healthy_deadline, progress_deadline, auto_revert,
        auto_promote, canary
    }
    MigrateStrategy { max_parallel, health_check, min_healthy_time, healthy_deadline }
    RestartPolicy { attempts, interval, delay, mode, render_templates }
    ReschedulePolicy { attempts, interval, delay, delay_function, max_delay, unlimited }
    EphemeralDisk { sticky, size_mb, migrate }
    LogConfig { max_files, max_file_size_mb, disabled, enabled }
}

/// Settles a block: first by what it says itself, then by the one around it, then by the default.
pub(super) fn settle<T>(own: &mut Option<T::Api>, outer: Option<&T::Api>, block: &Block<T>)
where
    T: Mirror,
    T::Api: Merge,
{
    if let Some(outer) = outer {
        own.get_or_insert_default().fill_from(outer);
    }
    if block.always {
        own.get_or_insert_default();
    }
    if let Some(own) = own {
        own.fill_from(&block.default.to_api());
    }
}
