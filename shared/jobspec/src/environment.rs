//! [`Environment`]: what the expressions and functions of one file share: the inputs of functions, and the limit on the size of
//! all values.

use std::cell::Cell;

use crate::{
    FunctionInputs,
    fault::{Evaluated, Fault},
    position::At,
};

/// Maximum total size of all values of one file, including copies, in bytes. Templates, loops and functions can create values
/// that are much larger than the file.
const EXPANSION_BYTES_MAX: usize = 64 << 20;

/// Summary of the error for a file whose values are too large. It cannot be caught with `try`.
pub(crate) const TOO_MUCH: &str = "Too much to evaluate";

/// The inputs of functions, and what has been used of the file's limits.
pub(crate) struct Environment<'a> {
    pub(crate) function_inputs: &'a FunctionInputs,
    bytes_spent: Cell<usize>,
    /// Number of random values drawn so far.
    random_draws: Cell<u32>,
}

impl<'a> Environment<'a> {
    pub(crate) fn new(function_inputs: &'a FunctionInputs) -> Environment<'a> {
        Environment { function_inputs, bytes_spent: Cell::new(0), random_draws: Cell::new(0) }
    }

    /// Counts the bytes of a value.
    pub(crate) fn spend(&self, at: &At, bytes: usize) -> Evaluated<()> {
        self.bytes_spent.set(self.bytes_spent.get().saturating_add(bytes));
        if self.bytes_spent.get() > EXPANSION_BYTES_MAX {
            let detail = format!("the values of the file need more than {EXPANSION_BYTES_MAX} bytes");
            return Err(Box::new(Fault::new(at.clone(), TOO_MUCH, detail)));
        }
        Ok(())
    }

    /// The number of the next random value, from 0.
    pub(crate) fn next_random_draw(&self) -> u32 {
        let number = self.random_draws.get();
        self.random_draws.set(number + 1);
        number
    }
}
