//! The binary as it is, under a name of its own: Cargo tells a test only where the binaries of its own package are. And
//! with the failpoints that its environment asks for.

fn main() -> std::process::ExitCode {
    tests::failpoints::arm();
    drover::main()
}
