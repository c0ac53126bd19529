//! Do real processes keep their promises on bad days? Every service is a process of its own, singletons doubled; what each
//! test does to them, and what must hold nonetheless, stands at the top of its module.
//!
//! `make test` does each thing once; `make chaos` does it `ROUNDS` times, and shows how it goes. What is left to chance
//! follows from `SEED`, which is printed; when processes do what, the machine decides.
#![allow(clippy::print_stdout, reason = "long tests show how far they are")]

mod bad_days;
mod deposed;
mod kills;
mod steady;
mod stream;
mod witness;

/// The binary that is tested.
const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");

/// How often each thing is done; `None` where nobody has asked for more than a look.
fn rounds() -> Option<usize> {
    let text = std::env::var("ROUNDS").ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("ROUNDS is a number"))
}

/// What chance begins with.
fn seed() -> u64 {
    let given = std::env::var("SEED").ok().filter(|text| !text.is_empty());
    let seed = given.map(|text| text.parse().expect("SEED is a number"));
    let seed = seed.unwrap_or_else(|| {
        let [a, b, c, d, ..] = telemetry::clock::random_bytes();
        u32::from_be_bytes([a, b, c, d]).into()
    });
    println!("SEED={seed}");
    seed
}
