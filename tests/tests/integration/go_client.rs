//! Does the published Go client of Nomad's API find what it expects? Only where there is a Go toolchain that can have the
//! client's module.

use std::process::{Command, Output};

use tests::skips::skip;

use crate::dev::Dev;

const TEST: &str = "the_go_client_finds_what_it_expects";
/// The program that uses it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/go");

#[test]
fn the_go_client_finds_what_it_expects() {
    if Command::new("go").arg("version").output().is_err() {
        return skip(TEST, "go", "there is no Go toolchain here");
    }
    if !go(&["mod", "download"]).status.success() {
        return skip(TEST, "go", "the client's module cannot be had here");
    }
    let dir = tempfile::tempdir().expect("there is room for temporary files");
    let program = dir.path().join("program");
    let built = go(&["build", "-o", program.to_str().expect("temporary paths are text"), "."]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let dev = Dev::start(&["agent", "-dev"]);
    let output = Command::new(&program).env("NOMAD_ADDR", &dev.address).output().expect("it was built");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.trim_end().ends_with("all is well"), "{told}");
}

/// What the Go toolchain does with the program.
fn go(arguments: &[&str]) -> Output {
    let output = Command::new("go").args(arguments).current_dir(PROGRAM).output();
    output.expect("it was there a moment ago")
}
