//! Operators: their operands are converted from text, except for equality (§3).

use hcl_edit::expr::{BinaryOp, BinaryOperator, Expression, UnaryOp, UnaryOperator};

use crate::{
    error::Fault,
    eval::{Evaluated, Evaluator, Scope},
    number::Number,
    source::span,
    value::Value,
};

impl Evaluator<'_> {
    pub(super) fn unary(&self, operation: &UnaryOp, scope: &Scope) -> Evaluated {
        match operation.operator.value() {
            UnaryOperator::Neg => Ok(Value::Number(self.number_of(&operation.expr, scope)?.negated())),
            UnaryOperator::Not => Ok(Value::Bool(!self.bool_of(&operation.expr, scope)?)),
        }
    }

    pub(super) fn binary(&self, operation: &BinaryOp, scope: &Scope) -> Evaluated {
        let BinaryOp { lhs_expr: left, rhs_expr: right, .. } = operation;
        let bools = |result: fn(bool, bool) -> bool| {
            Ok(Value::Bool(result(self.bool_of(left, scope)?, self.bool_of(right, scope)?)))
        };
        let compared = |result: fn(&Number, &Number) -> bool| {
            Ok(Value::Bool(result(&self.number_of(left, scope)?, &self.number_of(right, scope)?)))
        };
        let calculated = |result: fn(Number, Number) -> Option<Number>| {
            let (a, b) = (self.number_of(left, scope)?, self.number_of(right, scope)?);
            let number = result(a, b).map(Value::Number);
            number.ok_or_else(|| Box::new(not_exact(operation, a, b)))
        };
        match operation.operator.value() {
            BinaryOperator::Eq => Ok(Value::Bool(self.value(left, scope)? == self.value(right, scope)?)),
            BinaryOperator::NotEq => Ok(Value::Bool(self.value(left, scope)? != self.value(right, scope)?)),
            BinaryOperator::And => bools(|a, b| a && b),
            BinaryOperator::Or => bools(|a, b| a || b),
            BinaryOperator::Less => compared(Number::lt),
            BinaryOperator::LessEq => compared(Number::le),
            BinaryOperator::Greater => compared(Number::gt),
            BinaryOperator::GreaterEq => compared(Number::ge),
            BinaryOperator::Plus => calculated(Number::plus),
            BinaryOperator::Minus => calculated(Number::minus),
            BinaryOperator::Mul => calculated(Number::times),
            BinaryOperator::Div => calculated(Number::divided_by),
            BinaryOperator::Mod => calculated(Number::remainder),
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
    let detail = format!("{wanted}, and this is of the kind {}", value.kind());
    Box::new(Fault::new(span(operand), "Invalid operand", detail))
}

fn not_exact(operation: &BinaryOp, a: Number, b: Number) -> Fault {
    let at = span(operation);
    let divided = matches!(operation.operator.value(), BinaryOperator::Div);
    if divided && b.is_zero() {
        return Fault::new(at, "Division by zero", format!("{a} divided by zero is no number"));
    }
    Fault::not_built(at, &format!("a number without an exact decimal form of 37 digits, from {a} and {b},"))
}
