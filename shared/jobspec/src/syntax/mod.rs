//! The syntax of job files: parses text to a tree with positions (§2, §3).
//!
//! The parser replaces `hcl-edit`, which refuses repeated keys, nests at most 64 levels, takes quadratic time for the
//! attributes of a block, reads two forms of heredocs differently from the language, and does not explain the cause of
//! errors. JSON job files are parsed to the same tree.

mod bodies;
mod cursor;
mod expressions;
pub(crate) mod format;
pub(crate) mod json;
mod scanner;
mod templates;
mod tokens;

use std::rc::Rc;

pub(crate) use self::{
    bodies::{file, literal_body, repeatable_attributes},
    expressions::expression,
    scanner::name_length,
};
use crate::{fault::Fault, number::Number, position::At};

/// The contents of a file or a block.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// In the native syntax.
    Native(Rc<NativeBody>),
    /// In JSON syntax: members of objects, which the reader interprets as attributes or blocks (§10).
    Json(json::Body),
}

impl Body {
    /// The attribute with a name.
    pub(crate) fn attribute(&self, name: &str) -> Result<Option<Attribute>, Box<Fault>> {
        match self {
            Body::Native(body) => {
                Ok(body.attributes.iter().find(|attribute| attribute.name == name).cloned())
            }
            Body::Json(body) => body.attribute(name),
        }
    }

    /// The blocks of a type. `labels` is their number of labels, which the native syntax ignores.
    pub(crate) fn blocks(&self, kind: &str, labels: usize) -> Result<Vec<Block>, Box<Fault>> {
        match self {
            Body::Native(body) => {
                Ok(body.blocks.iter().filter(|block| block.kind == kind).cloned().collect())
            }
            Body::Json(body) => body.blocks(kind, labels),
        }
    }
}

/// Attributes and blocks, each in the order of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct NativeBody {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) blocks: Vec<Block>,
}

/// A name and its value.
#[derive(Debug, Clone)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) name_at: At,
    pub(crate) value: Rc<Expression>,
}

/// A block with its type, its labels and its contents.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) kind_at: At,
    pub(crate) labels: Vec<(String, At)>,
    pub(crate) body: Body,
}

/// An expression and its position.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    pub(crate) at: At,
    pub(crate) kind: Kind,
}

/// The kinds of expressions.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    /// Text without interpolations and directives.
    Text(String),
    /// Text with interpolations or directives.
    Template(Vec<Part>),
    /// A template that consists of one interpolation only.
    Wrapped(Box<Interpolation>),
    Tuple(Vec<Expression>),
    Object(Vec<(Expression, Expression)>),
    Parenthesis(Box<Expression>),
    /// A name in scope, or a name that the node resolves.
    Name(String),
    /// Steps into a value. If the value is a name, also contains the text of the reference up to the first splat.
    Traversal(Box<Expression>, Vec<Step>, String),
    Call(Box<Call>),
    Conditional(Box<[Expression; 3]>),
    Unary(Unary, Box<Expression>),
    Chain(Box<Chain>),
    For(Box<For>),
    /// An expression within a JSON text. Its positions are not those of the file, so errors are reported for the whole text.
    Decoded(Box<Expression>),
}

/// Operands with operators between them, which apply from left to right. Operands contain the operators that bind more
/// strongly. A chain is one level of the tree, however long it is.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) first: Expression,
    pub(crate) rest: Vec<(Binary, Expression)>,
}

/// A part of a template.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(String),
    Interpolation(Interpolation),
    /// The condition, the parts if it is true, and the parts if it is false.
    If(Expression, Vec<Part>, Vec<Part>),
    For(Box<ForPart>),
}

/// `%{ for key, value in collection }…%{ endfor }`.
#[derive(Debug, Clone)]
pub(crate) struct ForPart {
    pub(crate) key: Option<String>,
    pub(crate) value: String,
    pub(crate) collection: Expression,
    pub(crate) parts: Vec<Part>,
}

/// `${…}`.
#[derive(Debug, Clone)]
pub(crate) struct Interpolation {
    pub(crate) expression: Expression,
    /// The white space around a reference. It is part of the text that the node resolves.
    pub(crate) padding: (String, String),
}

/// One step into a value.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// `.name`
    Attribute(String),
    /// `.0`
    LegacyIndex(Number, At),
    /// `[expression]`
    Index(Expression, At),
    /// `.*` or `[*]`, and the steps that are applied to each element.
    Splat(Vec<Step>, At),
}

/// A call of a function.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) name_at: At,
    pub(crate) arguments: Vec<Expression>,
    /// Whether the last argument is a collection of arguments.
    pub(crate) spread: bool,
}

/// `[for …]` or `{for …}`.
#[derive(Debug, Clone)]
pub(crate) struct For {
    pub(crate) key: Option<String>,
    pub(crate) value: String,
    pub(crate) collection: Expression,
    /// The key of each member, if the result is an object.
    pub(crate) key_result: Option<Expression>,
    pub(crate) result: Expression,
    pub(crate) condition: Option<Expression>,
    /// Whether values with the same key are grouped.
    pub(crate) grouping: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Negate,
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
}
