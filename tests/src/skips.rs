//! Tests that this machine cannot run: which and why, printed and counted, or failures where [`REQUIRE`] says so.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Variable with the names of what must be there, parted by commas: tests that miss it fail in place of being skipped.
pub const REQUIRE: &str = "DROVER_REQUIRE";

/// File that `make test` and `make drill` empty before the tests and print after them, a line a skipped test.
const FILE: &str = "skipped";

/// Skips a test that needs `what` because of `cause`.
///
/// # Panics
/// If [`REQUIRE`] names `what`.
#[allow(clippy::print_stdout, reason = "whoever runs the test should know that it did nothing")]
pub fn skip(test: &str, what: &str, cause: &str) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let is_required = required.split(',').any(|name| name.trim() == what);
    assert!(!is_required, "{test} needs {what}, which {REQUIRE} says must be there: {cause}");
    println!("skipped {test}: {cause}");
    let file = File::options().create(true).append(true).open(target_dir().join(FILE));
    // Not being counted is no reason to fail.
    let _ = file.and_then(|mut file| writeln!(file, "{test}: {cause}"));
}

/// Where Cargo builds, and tests keep what is expensive to make.
pub fn target_dir() -> PathBuf {
    let root = root();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// The directory of the repository.
///
/// # Panics
/// If this crate is not in one.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is in a directory").to_owned()
}
