//! Tests that this machine cannot run: they are printed and counted, or fail if [`REQUIRE`] says so.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Environment variable with the names of required facilities, separated by commas. A test that lacks one of them fails
/// instead of being skipped.
pub const REQUIRE: &str = "DROVER_REQUIRE";

/// File that `make test` and `make drill` empty before the tests and print after them, with one line for each skipped
/// test.
const FILE: &str = "skipped";

/// Skips a test that needs `what`, because of `cause`.
///
/// # Panics
/// If [`REQUIRE`] names `what`.
#[allow(clippy::print_stdout, reason = "a skipped test is reported to the user")]
pub fn skip(test: &str, what: &str, cause: &str) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == what);
    assert!(!is_required, "{test} needs {what}, which {REQUIRE} requires: {cause}");
    println!("skipped {test}: {cause}");
    let file = File::options().create(true).append(true).open(target_dir().join(FILE));
    // A test does not fail because its line cannot be written.
    let _ = file.and_then(|mut file| writeln!(file, "{test}: {cause}"));
}

/// The directory in which Cargo builds, and in which tests store data that is expensive to make.
pub fn target_dir() -> PathBuf {
    let root = root();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// The directory of the repository.
///
/// # Panics
/// If the crate's directory has no parent.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate's directory has a parent").to_owned()
}
