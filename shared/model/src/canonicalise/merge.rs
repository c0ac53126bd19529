//! Merging of blocks that exist at several levels. A group inherits members from the block of its job, a task from the
//! block of its group, and all of them from the defaults.

use api_types::{EphemeralDisk, LogConfig, MigrateStrategy, ReschedulePolicy, RestartPolicy, UpdateStrategy};

use super::defaults::Block;
use crate::mirror::Mirror;

/// A block that can inherit members from another block of its type.
pub(super) trait Merge: Default {
    /// Copies the members that are absent in `self` from `outer`.
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

/// Merges a block: its own members take precedence over those of the outer block, and those over the defaults.
pub(super) fn merge_block<T>(own: &mut Option<T::Api>, outer: Option<&T::Api>, block: &Block<T>)
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
