//! Operators. They convert operands from text, except for equality (§3).

use crate::{
    eval::{Evaluator, Scope},
    fault::{Evaluated, Fault},
    number::Number,
    position::At,
    syntax::{Binary, Chain, Expression, Unary},
    value::Value,
};

/// The value left of an operator, and the range of the expressions that it comes from.
struct Left {
    value: Value,
    at: At,
}

impl Evaluator<'_> {
    pub(super) fn unary(&self, operator: Unary, operand: &Expression, scope: &Scope, at: &At) -> Evaluated {
        match operator {
            Unary::Negate => self.number(self.number_of(operand, scope)?.negated(), at),
            Unary::Not => Ok(Value::Bool(!self.bool_of(operand, scope)?)),
        }
    }

    /// Applies the operators of a chain from left to right.
    pub(super) fn chain(&self, chain: &Chain, scope: &Scope) -> Evaluated {
        let mut left = Left { value: self.value(&chain.first, scope)?, at: chain.first.at.clone() };
        for (operator, right) in &chain.rest {
            let at = left.at.start..right.at.end;
            self.environment.take_steps(&at, 1)?;
            left = Left { value: self.binary(*operator, &left, right, scope, &at)?, at };
        }
        Ok(left.value)
    }

    fn binary(&self, operator: Binary, left: &Left, right: &Expression, scope: &Scope, at: &At) -> Evaluated {
        let bools = |result: fn(bool, bool) -> bool| {
            Ok(Value::Bool(result(left.to_bool()?, self.bool_of(right, scope)?)))
        };
        let compared = |result: fn(&Number, &Number) -> bool| {
            Ok(Value::Bool(result(&left.to_number()?, &self.number_of(right, scope)?)))
        };
        let calculated = |result: fn(&Number, &Number) -> Option<Number>| {
            let (a, b) = (left.to_number()?, self.number_of(right, scope)?);
            let number = result(&a, &b).ok_or_else(|| {
                let detail = format!("the result for {a} and {b} is not a number, or too large");
                Box::new(Fault::new(at.clone(), "Operation failed", detail))
            })?;
            self.number(number, at)
        };
        match operator {
            Binary::Equal => Ok(Value::Bool(left.value == self.value(right, scope)?)),
            Binary::NotEqual => Ok(Value::Bool(left.value != self.value(right, scope)?)),
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
        to_number(&self.value(expression, scope)?, &expression.at)
    }

    fn bool_of(&self, expression: &Expression, scope: &Scope) -> Evaluated<bool> {
        to_bool(&self.value(expression, scope)?, &expression.at)
    }
}

impl Left {
    fn to_number(&self) -> Evaluated<Number> {
        to_number(&self.value, &self.at)
    }

    fn to_bool(&self) -> Evaluated<bool> {
        to_bool(&self.value, &self.at)
    }
}

fn to_number(value: &Value, at: &At) -> Evaluated<Number> {
    value.to_number().ok_or_else(|| unsuitable(at, "a number is required", value))
}

fn to_bool(value: &Value, at: &At) -> Evaluated<bool> {
    value.to_bool().ok_or_else(|| unsuitable(at, "a bool is required", value))
}

fn unsuitable(at: &At, wanted: &str, value: &Value) -> Box<Fault> {
    let detail = format!("{wanted}, but have {}", value.kind());
    Box::new(Fault::new(at.clone(), "Invalid operand", detail))
}
