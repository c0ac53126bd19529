//! Containers for tests: a private engine, images that are made without a registry, and Docker Compose.

pub mod compose;
pub mod engine;
pub mod images;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::skips::target_dir;

/// Programs that these tests need, each with its Debian package.
const PROGRAMS: &[(&str, &str)] = &[
    ("dockerd", "docker.io"),
    ("docker", "docker.io"),
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("debootstrap", "debootstrap"),
    ("strip", "binutils"),
];

/// Returns why no engine can run here, or `None` if one can.
pub fn unavailable() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("a private engine needs root".to_owned());
    }
    let missing = PROGRAMS.iter().find(|(program, _)| find(program).is_none());
    if let Some((program, package)) = missing {
        return Some(format!("there is no {program} (Debian: apt-get install {package})"));
    }
    if engine::client().is_none() {
        return Some("no docker client here can build with BuildKit (buildx is missing)".to_owned());
    }
    let namespaces = Command::new("unshare").args(["-n", "-m", "-p", "--fork", "true"]).output();
    let denied = namespaces.map_or_else(
        |error| Some(error.to_string()),
        |output| (!output.status.success()).then(|| output_text(&output)),
    );
    denied.map(|cause| format!("private namespaces are refused: {cause}"))
}

/// Directory for data that is expensive to make: the base image, the engine's images, Compose.
pub(crate) fn cache() -> PathBuf {
    target_dir().join("containers")
}

/// All programs of that name, in the order of `PATH` and then Debian's directories for daemons.
pub(crate) fn find_all(program: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.map(|directory| directory.join(program)).filter(|file| file.is_file()).collect()
}

fn find(program: &str) -> Option<PathBuf> {
    find_all(program).into_iter().next()
}

/// The output of a command, standard output first.
pub(crate) fn output_text(output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    text.join("\n").trim().to_owned()
}

/// Runs a command to its end and returns its standard output without the last line break.
///
/// # Panics
/// If it fails. The message has its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed: {}", output_text(&output));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Creates a directory and its parents.
///
/// # Panics
/// If that fails.
pub(crate) fn make_dir(path: &Path) {
    std::fs::create_dir_all(path).unwrap_or_else(|error| panic!("cannot create {}: {error}", path.display()));
}
