//! [`Environment`]: the data that the expressions and functions of one file share: the inputs of functions, and the
//! limits on the size and depth of all values and on the time of evaluation.

use std::cell::Cell;

use crate::{
    FunctionInputs,
    fault::{Evaluated, Fault},
    position::At,
    value::Value,
};

/// Maximum total size of all values of one file, including copies, in bytes. Templates, loops and functions can create values
/// that are much larger than the file.
const EXPANSION_BYTES_MAX: usize = 64 << 20;
/// Maximum number of steps of one file. An expression is one step, which takes some 100 ns. Functions that take longer count
/// as more steps, so that no file takes more than a few seconds.
const STEPS_MAX: usize = 16 << 20;
/// Maximum nesting of the lists and maps in a value that a name or a function stands for. Expressions can nest it deeper, by
/// the nesting that the parser allows.
const VALUE_DEPTH_MAX: usize = 200;

/// Summary of the error for a file whose values are too large, or take too long. It cannot be caught with `try`.
pub(crate) const TOO_MUCH: &str = "Too much to evaluate";

/// The inputs of functions, and what has been used of the file's limits.
pub(crate) struct Environment<'a> {
    pub(crate) function_inputs: &'a FunctionInputs,
    bytes_spent: Cell<usize>,
    steps_taken: Cell<usize>,
    /// Number of random values drawn so far.
    random_draws: Cell<u32>,
}

impl<'a> Environment<'a> {
    pub(crate) fn new(function_inputs: &'a FunctionInputs) -> Environment<'a> {
        Environment {
            function_inputs,
            bytes_spent: Cell::new(0),
            steps_taken: Cell::new(0),
            random_draws: Cell::new(0),
        }
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

    /// Counts steps.
    pub(crate) fn take_steps(&self, at: &At, steps: usize) -> Evaluated<()> {
        self.steps_taken.set(self.steps_taken.get().saturating_add(steps));
        if self.steps_taken.get() > STEPS_MAX {
            let detail = format!("the expressions of the file take more than {STEPS_MAX} steps");
            return Err(Box::new(Fault::new(at.clone(), TOO_MUCH, detail)));
        }
        Ok(())
    }

    /// Counts a value that is copied or was created by a function. Refuses a value that is nested too deeply, so that whatever
    /// visits values needs little stack.
    pub(crate) fn spend_value(&self, at: &At, value: &Value) -> Evaluated<()> {
        let cost = value.cost();
        if cost.depth > VALUE_DEPTH_MAX {
            let detail = format!("lists and maps may be nested at most {VALUE_DEPTH_MAX} levels deep");
            return Err(Box::new(Fault::new(at.clone(), "Nested too deeply", detail)));
        }
        self.spend(at, cost.bytes)?;
        self.take_steps(at, cost.steps)
    }

    /// The number of the next random value, from 0.
    pub(crate) fn next_random_draw(&self) -> u32 {
        let number = self.random_draws.get();
        self.random_draws.set(number.wrapping_add(1));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_once_it_is_exceeded() {
        let inputs = FunctionInputs::default();
        let environment = Environment::new(&inputs);
        assert!(environment.spend(&(0..1), EXPANSION_BYTES_MAX).is_ok());
        let fault = environment.spend(&(0..1), 1).unwrap_err();
        assert_eq!(fault.summary, TOO_MUCH);
        assert!(fault.detail.contains("67108864 bytes"), "{}", fault.detail);
        assert!(environment.spend(&(0..1), usize::MAX).is_err());
        assert!(environment.take_steps(&(0..1), STEPS_MAX).is_ok());
        let fault = environment.take_steps(&(0..1), usize::MAX).unwrap_err();
        assert!(fault.detail.contains("16777216 steps"), "{}", fault.detail);
    }

    #[test]
    fn values_may_be_nested_so_deep_and_no_deeper() {
        let inputs = FunctionInputs::default();
        let environment = Environment::new(&inputs);
        let nested = |levels| (0..levels).fold(Value::Null, |inner, _| Value::tuple(vec![inner]));
        assert!(environment.spend_value(&(0..1), &nested(VALUE_DEPTH_MAX)).is_ok());
        let fault = environment.spend_value(&(0..1), &nested(VALUE_DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(fault.summary, "Nested too deeply");
    }
}
