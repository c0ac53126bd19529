//! How full the disk with the allocations is.

use std::path::Path;

use nix::sys::statvfs::statvfs;
use telemetry::chain;

/// The usage of the disk with the allocations.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DiskUse {
    /// Used space, in percent.
    pub(crate) percent: f64,
    /// Used inodes, in percent.
    pub(crate) inodes_percent: f64,
}

/// Reads the usage of the disk that contains a directory.
pub(crate) fn disk_use(dir: &Path) -> DiskUse {
    match statvfs(dir) {
        Ok(disk) => DiskUse {
            percent: percent_used(disk.blocks(), disk.blocks_free(), disk.blocks_available()),
            inodes_percent: percent_used(disk.files(), disk.files_free(), disk.files_available()),
        },
        Err(error) => {
            tracing::warn!(dir = %dir.display(), error = chain(&error), "cannot read the disk usage");
            DiskUse::default()
        }
    }
}

/// The used share of a disk in percent, as `df` computes it: space that only root may use counts neither as used nor as
/// available.
pub(crate) fn percent_used(all: u64, free: u64, available: u64) -> f64 {
    let used = all.saturating_sub(free);
    let usable = used.saturating_add(available);
    if usable == 0 { 0.0 } else { 100.0 * used as f64 / usable as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_as_full_as_its_users_see_it() {
        assert!((percent_used(200, 50, 50) - 75.0).abs() < f64::EPSILON);
        assert!((percent_used(200, 50, 0) - 100.0).abs() < f64::EPSILON);
        assert!(percent_used(0, 0, 0).abs() < f64::EPSILON, "some file systems have no inodes");
    }
}
