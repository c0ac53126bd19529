//! Migrations are part of the program: a new one makes it anew.

#[allow(clippy::print_stdout, reason = "it is how Cargo is told")]
fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
