//! What tests of networks need of the machine. A test that lacks it is skipped, or fails if `DROVER_REQUIRE` says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::conflist::BRIDGE_PLUGINS;
use super::super::namespace;
use super::super::plugin::Plugins;
use super::super::settings::PLUGIN_PATH;

/// The name of the facility in `DROVER_REQUIRE`.
const FACILITY: &str = "bridge";
/// Programs that the tests call.
const PROGRAMS: [&str; 5] = ["ip", "iptables", "iptables-save", "nsenter", "unshare"];

/// Skips a test.
fn skip(test: &str, cause: &str) {
    let required = std::env::var("DROVER_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == FACILITY);
    assert!(!is_required, "{test} needs {FACILITY}, which DROVER_REQUIRE requires: {cause}");
    println!("skipped {test}: {cause}");
}

/// Whether this process may make network namespaces and mount them.
pub(super) fn has_namespaces(test: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("probe");
    let made = namespace::create(&path);
    namespace::remove(&path).unwrap();
    if let Err(error) = &made {
        skip(test, &format!("network namespaces cannot be made here: {error}"));
    }
    made.is_ok()
}

/// Whether the plugins of the bridge and the programs that the tests call are there.
pub(super) fn has_bridge(test: &str) -> bool {
    if !has_namespaces(test) {
        return false;
    }
    if let Err(error) = namespace::has_bridges() {
        skip(test, &format!("bridges cannot be made here: {error}"));
        return false;
    }
    let plugins = Plugins::new(PLUGIN_PATH.split(':').map(PathBuf::from).collect());
    if let Some(error) = BRIDGE_PLUGINS.iter().find_map(|name| plugins.find(name).err()) {
        skip(test, &error.to_string());
        return false;
    }
    let is_there = |name: &&str| {
        let dirs = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        dirs.iter().any(|dir| Path::new(dir).join(name).exists())
    };
    if let Some(missing) = PROGRAMS.iter().find(|name| !is_there(name)) {
        skip(test, &format!("the program {missing} is not installed"));
        return false;
    }
    true
}

/// The output of a shell script.
pub(super) fn shell(script: &str) -> String {
    output(Command::new("sh").args(["-c", script]))
}

/// The output of a shell script that runs in a network namespace.
pub(super) fn inside(namespace: &Path, script: &str) -> String {
    output(Command::new("nsenter").arg(format!("--net={}", namespace.display())).args(["sh", "-c", script]))
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
