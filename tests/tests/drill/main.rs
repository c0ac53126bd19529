//! Checks the deployment with containers: the image alone (`image`), and the compose file, used as its README describes
//! (`drill`).
//!
//! Both use a private Docker engine and images that are made from this machine's packages. Where no engine can run they
//! are skipped, and the cause is printed (`DROVER_REQUIRE=docker` turns that into a failure). `make test` checks the
//! image of the binary that it tests. `make drill` does the rest with the release, and with `FULL=1` compiles it in the
//! Dockerfile.
#![allow(clippy::print_stdout, reason = "long tests print their progress")]

mod drill;
mod image;
mod policy;
mod registrar;
mod timeline;

use std::path::PathBuf;

use tests::containers::images::Binary;

/// The name in `DROVER_REQUIRE` of the facility without which these tests are skipped.
const DOCKER: &str = "docker";

/// The binary that `make drill` has built, or that the Dockerfile compiles.
fn release_binary() -> Binary {
    let full = std::env::var("FULL").is_ok_and(|value| !value.is_empty() && value != "0");
    if full {
        return Binary::Compiled;
    }
    let binary = std::env::var_os("DROVER_BINARY").map(PathBuf::from);
    let binary = binary.unwrap_or_else(|| tests::skips::target_dir().join("release/drover"));
    assert!(binary.exists(), "{} does not exist: `make drill` builds it", binary.display());
    Binary::Prebuilt(binary)
}
