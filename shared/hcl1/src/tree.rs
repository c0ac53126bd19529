//! The tree that a text is parsed into: bodies, items and values with their positions, and the parser's error.

use std::fmt;

use crate::{DEPTH_MAX, Number, VALUES_MAX};

/// A place in a text. Lines and columns count from 1; a column is a character, not a byte.
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

    /// The position after a character that stands here.
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

/// Why a text cannot be parsed, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("At {at}: {text}")]
pub struct Error {
    /// Where the text is wrong.
    pub at: Position,
    /// What is wrong with it.
    pub text: String,
}

/// What stands in a file, a block or an object, in the order of the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Body {
    /// Keys and what they are set to. A key may occur more than once.
    pub items: Vec<Item>,
}

/// A key and what it is set to.
///
/// A block's labels are keys of their own: `plugin "docker" { … }` is the same as `plugin { docker { … } }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The key as it is written, without quotes.
    pub key: String,
    /// Where the key begins.
    pub at: Position,
    /// What the key is set to.
    pub value: Value,
}

/// What a key is set to, or an element of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Where the value begins.
    pub at: Position,
    /// What it is.
    pub kind: Kind,
}

/// The kinds of values.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A string or a heredoc, its escapes resolved. `${…}` is kept as it is written.
    Text(String),
    /// An integer or a floating point number.
    Number(Number),
    /// `true` or `false`.
    Bool(bool),
    /// A list.
    List(Vec<Value>),
    /// A block or an object.
    Body(Body),
    /// `null`, which JSON has and HCL has not.
    Null,
}

impl Kind {
    /// The kind in words, with an article.
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

/// Counts what is parsed, and refuses what is beyond a limit.
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

    /// Refuses a body or list that lies too deep.
    pub(crate) fn check_depth(depth: usize, at: Position) -> Result<(), Error> {
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        Err(Error { at, text: format!("blocks and lists are nested more than {DEPTH_MAX} deep") })
    }
}
