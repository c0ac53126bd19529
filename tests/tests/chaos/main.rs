//! Real processes must keep their guarantees during failures. Every service is a process of its own, and singletons
//! have two. The head of each module says what its test does to them, and what must hold nevertheless.
//!
//! `make test` runs each test once. `make chaos` repeats each `ROUNDS` times, and prints progress. Random choices
//! follow from `SEED`, which is printed; the timing of the processes depends on the machine.
#![allow(clippy::print_stdout, reason = "long tests print their progress")]

mod deposed;
mod failover;
mod faults;
mod kills;
mod kinds;
mod means;
mod outages;
mod stream;
mod witness;
mod world;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");

/// The number of rounds from the environment, or `None` if it is not set.
fn rounds() -> Option<usize> {
    let text = std::env::var("ROUNDS").ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("ROUNDS must be a number"))
}

/// The seed of random choices.
fn seed() -> u64 {
    let given = std::env::var("SEED").ok().filter(|text| !text.is_empty());
    let seed = given.map(|text| text.parse().expect("SEED must be a number"));
    let seed = seed.unwrap_or_else(|| {
        let [a, b, c, d, ..] = telemetry::clock::random_bytes();
        u32::from_be_bytes([a, b, c, d]).into()
    });
    println!("SEED={seed}");
    seed
}
