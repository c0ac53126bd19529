//! Calls of functions. `try`, `can` and `convert` evaluate their arguments themselves; all other functions get values.

use super::{Evaluator, Scope};
use crate::{
    environment::TOO_MUCH,
    fault::{Evaluated, Fault},
    functions::Function,
    position::At,
    syntax::{Call, Expression},
    types::Type,
    value::Value,
};

impl Evaluator<'_> {
    /// The result of a function.
    pub(super) fn call(&self, call: &Call, scope: &Scope, at: &At) -> Evaluated {
        match call.name.as_str() {
            "try" => return self.try_function(call, scope),
            "can" => return self.can_function(call, scope, at),
            "convert" => return self.convert_function(call, scope, at),
            _ => {}
        }
        let function = Function::find(call)?;
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(self.value(argument, scope)?);
        }
        if call.spread {
            spread(call, &mut arguments)?;
        }
        function.call(&self.environment, call, arguments, at)
    }

    /// Evaluates the function `try`: the first argument that can be evaluated.
    fn try_function(&self, call: &Call, scope: &Scope) -> Evaluated {
        let mut reasons = Vec::new();
        for argument in &call.arguments {
            match self.value(argument, scope) {
                Ok(value) => return Ok(value),
                Err(fault) if fault.summary == TOO_MUCH => return Err(fault),
                Err(fault) => reasons.push(format!("{} ({})", fault.summary, fault.detail)),
            }
        }
        let detail = match reasons.is_empty() {
            true => "try requires at least 1 argument".to_owned(),
            false => format!("try: none of the expressions can be evaluated: {}", reasons.join(", ")),
        };
        Err(Box::new(Fault::new(call.name_at.clone(), "Error in function call", detail)))
    }

    /// Evaluates the function `can`: whether the argument can be evaluated.
    fn can_function(&self, call: &Call, scope: &Scope, at: &At) -> Evaluated {
        let [argument] = &call.arguments[..] else { return Err(miscounted(call, 1, at)) };
        match self.value(argument, scope) {
            Err(fault) if fault.summary == TOO_MUCH => Err(fault),
            result => Ok(Value::Bool(result.is_ok())),
        }
    }

    /// Evaluates the function `convert`: the first argument, converted to the type in the second.
    fn convert_function(&self, call: &Call, scope: &Scope, at: &At) -> Evaluated {
        let [value, kind] = &call.arguments[..] else { return Err(miscounted(call, 2, at)) };
        let kind = Type::parse(kind, true)?;
        let convert_function = kind.convert(self.value(value, scope)?);
        convert_function.map_err(|reason| {
            let detail = format!("argument 1 of convert: {reason}");
            Box::new(Fault::new(value.at.clone(), "Invalid function argument", detail))
        })
    }
}

/// Replaces the last argument by its elements.
fn spread(call: &Call, arguments: &mut Vec<Value>) -> Evaluated<()> {
    match arguments.pop() {
        Some(Value::List(_, values)) => {
            arguments.extend(values);
            Ok(())
        }
        _ => {
            let at = call.arguments.last().map_or(call.name_at.clone(), |last| last.at.clone());
            let detail = "only a list can be expanded to arguments with ...";
            Err(Box::new(Fault::new(at, "Invalid expanding argument value", detail)))
        }
    }
}

fn miscounted(call: &Call, wanted: usize, at: &At) -> Box<Fault> {
    let given = call.arguments.len();
    let detail = format!("{} requires {wanted} arguments, but has {given}", call.name);
    let summary =
        if given < wanted { "Not enough function arguments" } else { "Too many function arguments" };
    let position = call
        .arguments
        .get(wanted)
        .map_or(at.end.saturating_sub(1)..at.end, |extra: &Expression| extra.at.clone());
    Box::new(Fault::new(position, summary, detail))
}
