//! The `drover` binary under a name of its own, because Cargo tells a test only the paths of its own package's
//! binaries. It arms the failpoints that its environment asks for.

/// The same as in `drover`.
#[global_allocator]
static ALLOCATOR: drover::Allocator = drover::Allocator;

fn main() -> std::process::ExitCode {
    tests::failpoints::arm();
    drover::main()
}
