//! Is what people deploy with containers what it says? The image by itself (`image`), and the whole compose file through
//! everything that its README promises (`drill`).
//!
//! Both run in a Docker engine of their own, with images made from this machine's packages; where none can run they are
//! skipped, with the cause (`DROVER_REQUIRE=docker` makes that a failure). `make test` looks at the image of the binary
//! that it tests; `make drill` does the rest with the release, and with `FULL=1` has the Dockerfile compile it.
#![allow(clippy::print_stdout, reason = "long tests show how far they are")]

mod drill;
mod image;
mod policy;
mod registrar;
mod timeline;

use std::path::PathBuf;

use tests::containers::images::Binary;

/// What tests need that are skipped without an engine, as `DROVER_REQUIRE` names it.
const DOCKER: &str = "docker";

/// The binary that `make drill` has built, or that the Dockerfile is to compile.
fn released() -> Binary {
    let full = std::env::var("FULL").is_ok_and(|value| !value.is_empty() && value != "0");
    if full {
        return Binary::Compiled;
    }
    let binary = std::env::var_os("DROVER_BINARY").map(PathBuf::from);
    let binary = binary.unwrap_or_else(|| tests::skips::target_dir().join("release/drover"));
    assert!(binary.exists(), "{} is not there: `make drill` builds it", binary.display());
    Binary::Prebuilt(binary)
}
