//! Fuzz targets: functions that pass arbitrary bytes to the same functions as real input, and check the result: no
//! panic, no stack overflow, limits of time and memory, and rules of each target, such as that formatting twice is the
//! same as formatting once.
//!
//! Two programs call them. The test `replay` runs the kept inputs (`corpus/<target>`), a sample of the recorded data
//! and some mutations of both in the ordinary build. `make fuzz` builds a program for each target that libFuzzer
//! drives, guided by the coverage of all crates (`docs/architecture/testing.md`).
//!
//! `targets` holds the targets. `target` defines a target, `limits` and `memory` measure an input, `engine` contains
//! the other parts of a program under libFuzzer, `mutator` changes inputs for the test, `seeds` reads the recorded
//! data, and `world` and `http` are the cluster that the targets work on.

mod engine;
mod http;
mod limits;
mod memory;
mod mutator;
mod seeds;
mod target;
pub mod targets;
mod world;

pub use engine::fuzz;
pub use limits::{Limits, cpu_time};
pub use memory::Memory;
pub use mutator::Mutator;
pub use target::{Repeated, Target};

/// Makes the program of a target, which libFuzzer drives.
#[macro_export]
macro_rules! program {
    ($target:expr) => {
        #[global_allocator]
        static MEMORY: $crate::Memory = $crate::Memory;

        libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::fuzz(&$target, input));
    };
}
