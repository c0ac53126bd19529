//! Unmounts what agents have mounted for the secrets of tasks, which outlives agents that are killed.

use std::path::Path;

use nix::mount::{MntFlags, umount2};

/// Unmounts everything in a directory.
pub fn unmount_below(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
    for point in points.filter(|point| point.starts_with(dir)) {
        // If it cannot be unmounted, the directory stays.
        let _ = umount2(point, MntFlags::MNT_DETACH);
    }
}
