//! [`Target`]: a function for arbitrary input, and the inputs to begin with.

use std::fs;
use std::path::{Path, PathBuf};

use crate::limits::Limits;

/// A fuzz target.
#[derive(Debug)]
pub struct Target {
    /// Name of the target, of its program and of its directory in `corpus`.
    pub name: &'static str,
    /// Takes an input through its door, and panics if something does not hold.
    pub run: fn(&[u8]),
    /// Makes inputs of the recorded data.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Texts with a meaning for the target, from which mutations are made.
    pub words: &'static [&'static str],
    /// Patterns of large inputs.
    pub repeated: &'static [Repeated],
    /// Size of the largest input that the door accepts, in bytes.
    pub size_max: usize,
}

/// A pattern of large inputs: a text between two others, each repeated as often as the size allows.
#[derive(Debug)]
pub struct Repeated {
    /// Text at the start, once.
    pub before: &'static str,
    /// Text that is repeated before the middle.
    pub open: &'static str,
    /// Text in the middle, once.
    pub middle: &'static str,
    /// Text that is repeated as often after the middle.
    pub close: &'static str,
    /// Text at the end, once.
    pub after: &'static str,
}

impl Repeated {
    /// An input of at most this size, in bytes.
    pub fn input(&self, size: usize) -> Vec<u8> {
        let Self { before, open, middle, close, after } = *self;
        let once = before.len() + middle.len() + after.len();
        let times = size.saturating_sub(once) / (open.len() + close.len()).max(1);
        let (open, close) = (open.repeat(times), close.repeat(times));
        [before, open.as_str(), middle, close.as_str(), after].concat().into_bytes()
    }
}

impl Target {
    /// Runs an input within limits.
    ///
    /// # Panics
    /// If something does not hold, or the input takes more than the limits.
    pub fn check(&self, input: &[u8], limits: Limits) {
        limits.check(self.name, || (self.run)(input));
    }

    /// The directory with the kept inputs.
    pub fn corpus(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }

    /// The kept inputs with their names, in the order of these.
    ///
    /// # Panics
    /// If a file cannot be read. A target without a directory has no kept inputs.
    pub fn kept(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.corpus()) else { return Vec::new() };
        let mut kept: Vec<_> = entries
            .map(|entry| {
                let path = entry.expect("the directory can be listed").path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let input = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                (name, input)
            })
            .collect();
        kept.sort();
        kept
    }
}
