//! The arguments of functions. Scalars stand for texts and numbers where that is unambiguous.

use gotmpl::Value;

/// The arguments of a call.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a>(pub(crate) &'a [Value]);

impl<'a> Arguments<'a> {
    /// Refuses another number of arguments.
    pub(crate) fn count(self, min: usize, max: usize) -> Result<(), String> {
        let given = self.0.len();
        if (min..=max).contains(&given) {
            return Ok(());
        }
        let expected = match (min, max) {
            (min, max) if min == max => format!("{min}"),
            (min, usize::MAX) => format!("at least {min}"),
            (min, max) => format!("{min} to {max}"),
        };
        Err(format!("it takes {expected} arguments, not {given}"))
    }

    /// An argument.
    pub(crate) fn value(self, position: usize) -> &'a Value {
        self.0.get(position).unwrap_or(&Value::Nil)
    }

    /// An argument as a text.
    pub(crate) fn text(self, position: usize) -> Result<String, String> {
        text(self.value(position)).ok_or_else(|| self.unfit(position, "a text"))
    }

    /// An argument as a whole number.
    pub(crate) fn whole(self, position: usize) -> Result<i64, String> {
        whole(self.value(position)).ok_or_else(|| self.unfit(position, "a whole number"))
    }

    /// An argument as a number of things, which is at most `max`.
    pub(crate) fn length(self, position: usize, max: usize) -> Result<usize, String> {
        let number = usize::try_from(self.whole(position)?).ok().filter(|number| *number <= max);
        number.ok_or_else(|| self.unfit(position, &format!("a number from 0 to {max}")))
    }

    /// An argument as a list. Nothing is an empty list.
    pub(crate) fn list(self, position: usize) -> Result<Vec<Value>, String> {
        match self.value(position) {
            Value::List(items) => Ok(items.to_vec()),
            Value::Nil => Ok(Vec::new()),
            Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Map(_)
            | Value::Function(_) => Err(self.unfit(position, "a list")),
        }
    }

    /// An argument as a list of texts.
    pub(crate) fn texts(self, position: usize) -> Result<Vec<String>, String> {
        let items = self.list(position)?.iter().map(text).collect::<Option<Vec<_>>>();
        items.ok_or_else(|| self.unfit(position, "a list of texts"))
    }

    fn unfit(self, position: usize, expected: &str) -> String {
        let given = self.value(position).type_name();
        format!("argument {} must be {expected}, not {given}", position.saturating_add(1))
    }
}

/// A scalar as a text; nothing is the empty text.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Nil => Some(String::new()),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Float(_) => Some(value.to_string()),
        Value::List(_) | Value::Map(_) | Value::Function(_) => None,
    }
}

/// A scalar as a whole number. A text is parsed, and a fraction is cut off.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Uint(number) => i64::try_from(*number).ok(),
        Value::Float(_) => value.as_int(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::Nil | Value::List(_) | Value::Map(_) | Value::Function(_) => None,
    }
}
