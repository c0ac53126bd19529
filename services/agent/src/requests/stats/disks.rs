//! Disk usage.

use std::fs;
use std::path::{Path, PathBuf};

use model::Text;
use nix::sys::statvfs::{Statvfs, statvfs};
use wire::stats::{DISKS_MAX, DiskStats};

use crate::disk::usage::percent_used;

/// The kernel's list of mounts.
const MOUNTS: &str = "/proc/self/mounts";
/// The path prefix of disk devices. Other mounts are not disks.
const DEVICES: &str = "/dev/";

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    device: String,
    mount_point: PathBuf,
}

/// All mounted disks, each at its first mount point.
pub(super) fn mounted() -> Vec<DiskStats> {
    let mut disks: Vec<DiskStats> = Vec::new();
    for mount in mounts(&fs::read_to_string(MOUNTS).unwrap_or_default()) {
        let is_known = disks.iter().any(|disk| *disk.device == *mount.device);
        if disks.len() == DISKS_MAX || is_known || !mount.device.starts_with(DEVICES) {
            continue;
        }
        if let Ok(usage) = statvfs(&mount.mount_point) {
            disks.push(stats(&mount, &usage));
        }
    }
    disks
}

/// The disk that contains a directory.
pub(super) fn of(dir: &Path) -> Option<DiskStats> {
    let dir = dir.canonicalize().ok()?;
    let mounts = mounts(&fs::read_to_string(MOUNTS).ok()?);
    let mount = mount_of(&mounts, &dir)?;
    Some(stats(mount, &statvfs(&dir).ok()?))
}

/// The mount of a directory: the innermost one that contains it. Of several mounts at the same path the last one counts,
/// because it hides the others.
fn mount_of<'a>(mounts: &'a [Mount], dir: &Path) -> Option<&'a Mount> {
    let holds = mounts.iter().filter(|mount| dir.starts_with(&mount.mount_point));
    holds.max_by_key(|mount| mount.mount_point.components().count())
}

fn mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let mut fields = line.split(' ');
        Some(Mount { device: unescape(fields.next()?), mount_point: unescape(fields.next()?).into() })
    };
    text.lines().filter_map(mount).collect()
}

/// Decodes the octal escapes of spaces and similar characters, such as `\040`.
fn unescape(field: &str) -> String {
    const DIGITS: usize = 3;
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let escaped = part.split_at_checked(DIGITS);
        match escaped.and_then(|(digits, rest)| Some((u8::from_str_radix(digits, 8).ok()?, rest))) {
            Some((byte, rest)) => {
                plain.push(char::from(byte));
                plain.push_str(rest);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

fn stats(mount: &Mount, disk: &Statvfs) -> DiskStats {
    let bytes = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
    DiskStats {
        device: Text::from(mount.device.as_str()),
        mountpoint: mount.mount_point.display().to_string().into(),
        size_bytes: bytes(disk.blocks()),
        used_bytes: bytes(disk.blocks().saturating_sub(disk.blocks_free())),
        available_bytes: bytes(disk.blocks_available()),
        used_percent: percent_used(disk.blocks(), disk.blocks_free(), disk.blocks_available()),
        inodes_percent: percent_used(disk.files(), disk.files_free(), disk.files_available()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_on_the_innermost_mount() {
        let mounts =
            mounts("/dev/vda1 / ext4 rw 0 0\ntmpfs /a\\040b tmpfs rw 0 0\n/dev/vdb /a\\040b/c ext4 rw 0 0\n");
        let device = |dir: &str| mount_of(&mounts, Path::new(dir)).map(|mount| mount.device.as_str());
        assert_eq!(device("/a b/c/d"), Some("/dev/vdb"));
        assert_eq!(device("/a b/x"), Some("tmpfs"));
        assert_eq!(device("/a b c"), Some("/dev/vda1"), "path components are compared as a whole");
    }

    #[test]
    fn escapes_in_mount_paths_are_decoded() {
        assert_eq!(unescape("a\\040b\\134c"), "a b\\c");
        assert_eq!(unescape("a\\9"), "a\\9");
        assert_eq!(unescape("\\04\u{e9}"), "\\04\u{e9}");
    }

    #[test]
    fn this_machine_has_a_disk_with_free_space() {
        let disk = of(Path::new("/")).unwrap();
        assert!(disk.size_bytes >= disk.used_bytes && (0.0..=100.0).contains(&disk.used_percent), "{disk:?}");
    }
}
