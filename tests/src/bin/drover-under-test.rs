//! The binary as it is, under a name of its own: Cargo tells a test only where the binaries of its own package are.

fn main() -> std::process::ExitCode {
    drover::main()
}
