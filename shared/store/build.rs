//! Recompiles the crate when a migration is added, because migrations are part of the program.

#[allow(clippy::print_stdout, reason = "it is how Cargo is told")]
fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
