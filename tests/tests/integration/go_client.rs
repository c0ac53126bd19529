//! The published Go client of Nomad's API works with Drover. Needs a Go toolchain that can obtain the client's module.

use std::process::{Command, Output};

use tests::skips::skip;

use crate::dev::Dev;

const TEST: &str = "the_go_client_finds_what_it_expects";
/// The program that uses the client.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/go");

#[test]
fn the_go_client_finds_what_it_expects() {
    if Command::new("go").arg("version").output().is_err() {
        return skip(TEST, "go", "there is no Go toolchain");
    }
    if !go(&["mod", "download"]).status.success() {
        return skip(TEST, "go", "the client's module cannot be downloaded");
    }
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let program = dir.path().join("program");
    let built = go(&["build", "-o", program.to_str().expect("the path is UTF-8"), "."]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let dev = Dev::start(&["agent", "-dev"]);
    let output =
        Command::new(&program).env("NOMAD_ADDR", &dev.address).output().expect("the program can be started");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.trim_end().ends_with("all checks passed"), "{stdout}");
}

/// Runs the Go toolchain in the program's directory.
fn go(arguments: &[&str]) -> Output {
    let output = Command::new("go").args(arguments).current_dir(PROGRAM).output();
    output.expect("the Go toolchain can be started")
}
