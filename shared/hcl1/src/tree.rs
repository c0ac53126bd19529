//! The tree that a text is parsed into: bodies, items and values with their positions; and the parser's error.

use std::fmt;

use crate::{DEPTH_MAX, Number, VALUES_MAX};

/// A position in a text. Lines and columns count from 1. A column is a character, not a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl Position {
    /// The first character of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The position after a text that begins here.
    pub(crate) fn after(self, text: &str) -> Self {
        text.chars().fold(self, Self::next)
    }

    /// The position after a character at this one.
    pub(crate) fn next(self, character: char) -> Self {
        match character {
            '\n' => Self { line: self.line + 1, column: 1 },
            _ => Self { line: self.line, column: self.column + 1 },
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A parse error and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("At {at}: {text}")]
pub struct Error {
    /// The position of the error.
    pub at: Position,
    /// The message.
    pub text: String,
}

/// The contents of a file, a block or an object, in the order of the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Body {
    /// Keys and their values. A key may occur more than once.
    pub items: Vec<Item>,
}

/// A key and its value.
///
/// The labels of a block are keys of their own: `plugin "docker" { … }` is the same as `plugin { docker { … } }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The key without quotes, in its original letter case.
    pub key: String,
    /// The position of the key.
    pub at: Position,
    /// The value of the key.
    pub value: Value,
}

/// The value of a key, or an element of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The position of the value.
    pub at: Position,
    /// The kind of the value, with its content.
    pub kind: Kind,
}

/// The kinds of values.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A string or a heredoc, with its escapes decoded. `${…}` is kept unchanged.
    Text(String),
    /// An integer or a floating point number.
    Number(Number),
    /// `true` or `false`.
    Bool(bool),
    /// A list.
    List(Vec<Value>),
    /// A block or an object.
    Body(Body),
    /// `null`, which exists in JSON only.
    Null,
}

impl Kind {
    /// The name of the kind, with an article.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Text(_) => "a string",
            Kind::Number(_) => "a number",
            Kind::Bool(_) => "a bool",
            Kind::List(_) => "a list",
            Kind::Body(_) => "a block",
            Kind::Null => "null",
        }
    }
}

/// Counts keys and values, and refuses texts beyond the limits.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    values: usize,
}

impl Limits {
    /// Counts a key, a label or a value.
    pub(crate) fn count(&mut self, at: Position) -> Result<(), Error> {
        self.values += 1;
        if self.values <= VALUES_MAX {
            return Ok(());
        }
        Err(Error { at, text: format!("there are more than {VALUES_MAX} keys and values") })
    }

    /// Refuses a body or list that is nested too deeply.
    pub(crate) fn check_depth(depth: usize, at: Position) -> Result<(), Error> {
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        Err(Error { at, text: format!("blocks and lists are nested more than {DEPTH_MAX} deep") })
    }
}
