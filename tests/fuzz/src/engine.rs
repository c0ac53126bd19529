//! Runs the inputs of libFuzzer, and what a program needs for that: the seeds as files, and a stack for signal
//! handlers.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;
use std::sync::Once;

use nix::libc;

use crate::limits::Limits;
use crate::target::Target;

/// The environment variable with the directory to which a program writes the inputs to begin with.
const VARIABLE: &str = "FUZZ_SEEDS";
/// Size of the stack for signal handlers, in bytes. libFuzzer's handlers write the input to a file.
const SIGNAL_STACK_BYTES: usize = 256 << 10;

/// Runs an input of libFuzzer. The first one also prepares the process.
///
/// # Panics
/// If something does not hold, or the input takes more than the limits.
pub fn fuzz(target: &Target, input: &[u8]) {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| prepare(target));
    target.check(input, Limits::FUZZING);
}

/// Prepares the process. Called on the thread that runs the inputs, after libFuzzer has set its signal handlers.
fn prepare(target: &Target) {
    use_signal_stack();
    if let Some(directory) = std::env::var_os(VARIABLE) {
        let directory = Path::new(&directory);
        let written = write_seeds(target, directory);
        written.unwrap_or_else(|error| panic!("cannot write seeds to {}: {error}", directory.display()));
    }
}

/// Writes the seeds to `seeds`, the large inputs to `large`, and the words as libFuzzer's dictionary to `words`.
fn write_seeds(target: &Target, directory: &Path) -> io::Result<()> {
    let large = target.repeated.iter().map(|repeated| repeated.input(target.size_max)).collect();
    for (name, inputs) in [("seeds", (target.seeds)()), ("large", large)] {
        let folder = directory.join(name);
        fs::create_dir_all(&folder)?;
        for (number, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("{number:05}")), input)?;
        }
    }
    fs::write(directory.join("words"), dictionary(target.words))
}

/// Words in the notation of libFuzzer's dictionaries.
fn dictionary(words: &[&str]) -> String {
    let mut lines = String::new();
    for word in words {
        lines.push('"');
        for byte in word.bytes() {
            match byte {
                b'"' | b'\\' => lines.extend(['\\', char::from(byte)]),
                b' '..=b'~' => lines.push(char::from(byte)),
                _ => lines.push_str(&format!("\\x{byte:02X}")),
            }
        }
        lines.push_str("\"\n");
    }
    lines
}

/// Lets the handlers of memory faults run on a stack of their own. Otherwise an overflow of the stack ends the
/// process before libFuzzer has written the input.
fn use_signal_stack() {
    let stack = Vec::leak(vec![0_u8; SIGNAL_STACK_BYTES]);
    let settings =
        libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: SIGNAL_STACK_BYTES };
    // SAFETY: the memory is never freed, and nothing else uses it.
    let failed = unsafe { libc::sigaltstack(&settings, ptr::null_mut()) };
    assert_eq!(failed, 0, "the stack for signal handlers can be set");
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: this only writes the current action to valid memory.
        let failed = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
        assert_eq!(failed, 0, "the action of signal {signal} can be read");
        // SAFETY: the call above has written the action.
        let mut action = unsafe { action.assume_init() };
        action.sa_flags |= libc::SA_ONSTACK;
        // SAFETY: the handler stays the same; only its stack changes.
        let failed = unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
        assert_eq!(failed, 0, "the action of signal {signal} can be set");
    }
}

#[test]
fn a_dictionary_has_a_word_in_each_line() {
    assert_eq!(dictionary(&["a b", "\"\\\n"]), "\"a b\"\n\"\\\"\\\\\\x0A\"\n");
}
