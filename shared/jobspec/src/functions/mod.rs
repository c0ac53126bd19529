//! The functions of job files (§14) and their parameters. The functions are implemented in sub-modules by subject. `try`,
//! `can` and `convert` are in `eval`, because they evaluate their arguments themselves.

mod collections;
mod encoding;
mod files;
mod format;
mod hashes;
mod network;
mod numbers;
mod regex;
mod sets;
mod table;
mod text;
mod time;
mod yaml;

use std::rc::Rc;

use crate::{
    environment::Environment,
    fault::{Evaluated, Fault},
    number::Number,
    position::At,
    shown::quoted,
    suggest::nearest,
    syntax::Call,
    types::Type,
    value::Value,
};

/// A function and its parameters.
pub(crate) struct Function {
    name: &'static str,
    /// The kinds of the required parameters, in order.
    parameters: &'static [Parameter],
    /// The kind of further arguments, if they are allowed.
    rest: Option<Parameter>,
    run: fn(&Context<'_>, Vec<Value>) -> FunctionResult,
}

/// The kind of a parameter. Arguments are converted to it if possible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameter {
    /// Any value except null.
    Any,
    /// Any value.
    Nullable,
    Text,
    Number,
    /// Elements of one kind.
    List,
    /// Strings, some of which may be null.
    Texts,
    Set,
}

/// The result of a function.
type FunctionResult = Result<Value, Failure>;

/// Why a function failed.
enum Failure {
    /// The call as a whole is wrong.
    Call(String),
    /// An argument is wrong; its index.
    Argument(usize, String),
    /// An error with its own position.
    Fault(Box<Fault>),
}

fn fail<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Call(reason.into()))
}

fn bad_argument<T>(argument: usize, reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Argument(argument, reason.into()))
}

/// The inputs of a function besides its arguments.
struct Context<'c> {
    environment: &'c Environment<'c>,
    at: &'c At,
}

impl Context<'_> {
    /// Counts bytes of a result before they are allocated.
    fn reserve(&self, bytes: usize) -> Result<(), Failure> {
        self.environment.spend(self.at, bytes).map_err(Failure::Fault)
    }

    /// Counts the steps of a function that takes longer than reading its arguments, before they are taken.
    fn take_steps(&self, steps: usize) -> Result<(), Failure> {
        self.environment.take_steps(self.at, steps).map_err(Failure::Fault)
    }

    /// Random bytes derived from the seed.
    fn random(&self) -> [u8; 16] {
        hashes::derived(&self.environment.function_inputs.seed, self.environment.next_random_draw())
    }
}

impl Function {
    /// The function that a call names.
    pub(crate) fn find(call: &Call) -> Evaluated<&'static Function> {
        table::find(&call.name).ok_or_else(|| unknown(call))
    }

    /// Calls the function with the values of its arguments.
    pub(crate) fn call(
        &self,
        environment: &Environment<'_>,
        call: &Call,
        arguments: Vec<Value>,
        at: &At,
    ) -> Evaluated {
        let position = |argument: usize| {
            let expression = call.arguments.get(argument).or(call.arguments.last());
            expression.map_or(at.clone(), |expression| expression.at.clone())
        };
        let arguments = convert_arguments(self, arguments, call, at, &position)?;
        let context = Context { environment, at };
        let value = (self.run)(&context, arguments).map_err(|failure| match failure {
            Failure::Call(reason) => {
                let detail = format!("{}: {reason}", call.name);
                Box::new(Fault::new(call.name_at.clone(), "Error in function call", detail))
            }
            Failure::Argument(argument, reason) => {
                let detail = format!("argument {} of {}: {reason}", argument + 1, call.name);
                Box::new(Fault::new(position(argument), "Invalid function argument", detail))
            }
            Failure::Fault(fault) => fault,
        })?;
        environment.spend_value(at, &value)?;
        Ok(value)
    }
}

fn unknown(call: &Call) -> Box<Fault> {
    let name = call.name.as_str();
    let near = nearest(name, &table::names()).map(|near| format!(". Did you mean {near:?}?"));
    let detail = format!("there is no function named {}{}", quoted(name), near.unwrap_or_default());
    Box::new(Fault::new(call.name_at.clone(), "Call to unknown function", detail))
}

/// Converts the arguments to the kinds of the parameters.
fn convert_arguments(
    function: &Function,
    arguments: Vec<Value>,
    call: &Call,
    at: &At,
    position: &dyn Fn(usize) -> At,
) -> Evaluated<Vec<Value>> {
    let (given, wanted) = (arguments.len(), function.parameters.len());
    let count =
        |count: usize| if count == 1 { "1 argument".to_owned() } else { format!("{count} arguments") };
    if given < wanted {
        let least = if function.rest.is_some() { "at least " } else { "" };
        let detail = format!("{} requires {least}{}, but has {given}", call.name, count(wanted));
        return Err(Box::new(Fault::new(
            at.end.saturating_sub(1)..at.end,
            "Not enough function arguments",
            detail,
        )));
    }
    if given > wanted && function.rest.is_none() {
        let detail = format!("{} requires {}, but has {given}", call.name, count(wanted));
        return Err(Box::new(Fault::new(position(wanted), "Too many function arguments", detail)));
    }
    let kinds =
        function.parameters.iter().copied().chain(std::iter::repeat(function.rest.unwrap_or(Parameter::Any)));
    let pairs = arguments.into_iter().zip(kinds).enumerate();
    pairs
        .map(|(index, (value, parameter))| {
            convert_argument(value, parameter).map_err(|reason| {
                let detail = format!("argument {} of {}: {reason}", index + 1, call.name);
                Box::new(Fault::new(position(index), "Invalid function argument", detail))
            })
        })
        .collect()
}

fn convert_argument(value: Value, parameter: Parameter) -> Result<Value, String> {
    if value == Value::Null && parameter != Parameter::Nullable {
        return Err("the argument must not be null".to_owned());
    }
    match parameter {
        Parameter::Any | Parameter::Nullable => Ok(value),
        Parameter::Text => Type::Text.convert(value),
        Parameter::Number => Type::Number.convert(value),
        Parameter::List => Type::List(Rc::new(Type::Any)).convert(value),
        Parameter::Texts => Type::List(Rc::new(Type::Text)).convert(value),
        Parameter::Set => Type::Set(Rc::new(Type::Any)).convert(value),
    }
}

// Access to arguments after their conversion.

fn text_of(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(..) | Value::Map(..) => {
            unreachable!("the argument was converted to a string")
        }
    }
}

fn number_of(value: &Value) -> &Number {
    match value {
        Value::Number(number) => number,
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(..) | Value::Map(..) => {
            unreachable!("the argument was converted to a number")
        }
    }
}

fn elements_of(value: Value) -> Vec<Value> {
    match value {
        Value::List(_, values) => values,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Map(..) => {
            unreachable!("the argument was converted to a list or a set")
        }
    }
}

/// A whole number from an argument.
fn whole(arguments: &[Value], index: usize) -> Result<i64, Failure> {
    match number_of(&arguments[index]).to_i64() {
        Some(number) => Ok(number),
        None => {
            bad_argument(index, format!("a whole number between {} and {} is required", i64::MIN, i64::MAX))
        }
    }
}
