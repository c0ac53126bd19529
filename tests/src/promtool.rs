//! Runs promtool, which checks metrics and alert rules (`.ci/promtool` installs it).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs promtool with these arguments and this input.
///
/// # Panics
/// If promtool is not installed.
pub fn promtool(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(program())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed (.ci/promtool installs it)");
    let mut stdin = child.stdin.take().expect("the standard input is piped");
    let text = input.to_owned();
    // promtool may write before it has read its whole input.
    let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("promtool exits");
    let _ = writing.join();
    output
}

/// The path of promtool: in the directory of tools if it was installed there, otherwise from `PATH`.
fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let own = target.join("tools/promtool");
    if own.exists() { own } else { "promtool".into() }
}
