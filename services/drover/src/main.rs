//! The `drover` binary.

#[global_allocator]
static ALLOCATOR: drover::Allocator = drover::Allocator;

fn main() -> std::process::ExitCode {
    drover::main()
}
