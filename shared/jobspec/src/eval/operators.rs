//! Operators. They convert operands from text, except for equality (§3).

use crate::{
    eval::{Evaluator, Scope},
    fault::{Evaluated, Fault},
    number::Number,
    position::At,
    syntax::{Binary, Expression, Unary},
    value::Value,
};

impl Evaluator<'_> {
    pub(super) fn unary(&self, operator: Unary, operand: &Expression, scope: &Scope) -> Evaluated {
        match operator {
            Unary::Negate => Ok(Value::Number(self.number_of(operand, scope)?.negated())),
            Unary::Not => Ok(Value::Bool(!self.bool_of(operand, scope)?)),
        }
    }

    pub(super) fn binary(
        &self,
        operator: Binary,
        [left, right]: &[Expression; 2],
        scope: &Scope,
        at: &At,
    ) -> Evaluated {
        let bools = |result: fn(bool, bool) -> bool| {
            Ok(Value::Bool(result(self.bool_of(left, scope)?, self.bool_of(right, scope)?)))
        };
        let compared = |result: fn(&Number, &Number) -> bool| {
            Ok(Value::Bool(result(&self.number_of(left, scope)?, &self.number_of(right, scope)?)))
        };
        let calculated = |result: fn(&Number, &Number) -> Option<Number>| {
            let (a, b) = (self.number_of(left, scope)?, self.number_of(right, scope)?);
            result(&a, &b).map(Value::Number).ok_or_else(|| {
                let detail = format!("the result for {a} and {b} is not a number, or too large");
                Box::new(Fault::new(at.clone(), "Operation failed", detail))
            })
        };
        match operator {
            Binary::Equal => Ok(Value::Bool(self.value(left, scope)? == self.value(right, scope)?)),
            Binary::NotEqual => Ok(Value::Bool(self.value(left, scope)? != self.value(right, scope)?)),
            Binary::And => bools(|a, b| a && b),
            Binary::Or => bools(|a, b| a || b),
            Binary::Less => compared(Number::lt),
            Binary::LessOrEqual => compared(Number::le),
            Binary::Greater => compared(Number::gt),
            Binary::GreaterOrEqual => compared(Number::ge),
            Binary::Plus => calculated(Number::plus),
            Binary::Minus => calculated(Number::minus),
            Binary::Times => calculated(Number::times),
            Binary::Divide => calculated(Number::divided_by),
            Binary::Remainder => calculated(Number::remainder),
        }
    }

    fn number_of(&self, expression: &Expression, scope: &Scope) -> Evaluated<Number> {
        let value = self.value(expression, scope)?;
        value.to_number().ok_or_else(|| unsuitable(expression, "a number is required", &value))
    }

    fn bool_of(&self, expression: &Expression, scope: &Scope) -> Evaluated<bool> {
        let value = self.value(expression, scope)?;
        value.to_bool().ok_or_else(|| unsuitable(expression, "a bool is required", &value))
    }
}

fn unsuitable(operand: &Expression, wanted: &str, value: &Value) -> Box<Fault> {
    let detail = format!("{wanted}, but have {}", value.kind());
    Box::new(Fault::new(operand.at.clone(), "Invalid operand", detail))
}
