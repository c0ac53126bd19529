//! The syntax of job files: text to a tree that knows where everything stood (§2, §3).
//!
//! Ours rather than `hcl-edit`'s: that one refuses keys that are given twice, nests 64 levels at most, takes quadratic
//! time for the attributes of a block, reads two forms of heredocs otherwise than the language has them, and stops at a
//! mistake without a word on its cause. JSON job files come in the same tree.

mod bodies;
mod cursor;
mod expressions;
pub(crate) mod format;
pub(crate) mod json;
mod scanner;
mod templates;
mod tokens;

use std::{ops::Range, rc::Rc};

pub(crate) use self::{
    bodies::{file, literal_body},
    expressions::expression,
    scanner::name_length,
};
use crate::{error::Fault, number::Number};

/// Bytes of the source.
pub(crate) type At = Range<usize>;

/// What a file or a block holds.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// In the language's own syntax.
    Native(Rc<NativeBody>),
    /// In JSON syntax: members of objects, which are attributes or blocks as whoever reads them wants them (§10).
    Json(json::Body),
}

impl Body {
    /// The attribute of a name.
    pub(crate) fn attribute(&self, name: &str) -> Result<Option<Attribute>, Box<Fault>> {
        match self {
            Body::Native(body) => {
                Ok(body.attributes.iter().find(|attribute| attribute.name == name).cloned())
            }
            Body::Json(body) => body.attribute(name),
        }
    }

    /// The blocks of a type, which have so many labels; in the language's own syntax however many they have.
    pub(crate) fn blocks(&self, kind: &str, labels: usize) -> Result<Vec<Block>, Box<Fault>> {
        match self {
            Body::Native(body) => {
                Ok(body.blocks.iter().filter(|block| block.kind == kind).cloned().collect())
            }
            Body::Json(body) => body.blocks(kind, labels),
        }
    }
}

/// Attributes and blocks, each in order.
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

/// A block with its type, its labels and what it holds.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) kind_at: At,
    pub(crate) labels: Vec<(String, At)>,
    pub(crate) body: Body,
}

/// An expression and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    pub(crate) at: At,
    pub(crate) kind: Kind,
}

/// What an expression is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    /// Text without anything in it to evaluate.
    Text(String),
    /// Text with something in it.
    Template(Vec<Part>),
    /// A template that is nothing but this interpolation.
    Wrapped(Box<Interpolation>),
    Tuple(Vec<Expression>),
    Object(Vec<(Expression, Expression)>),
    Parenthesis(Box<Expression>),
    /// A name that stands for a value, or for one that the node knows.
    Name(String),
    /// Steps into a value. Where that is a name, there is also how it is written, up to the first splat.
    Traversal(Box<Expression>, Vec<Step>, String),
    Call(Box<Call>),
    Conditional(Box<[Expression; 3]>),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<[Expression; 2]>),
    For(Box<For>),
    /// From a text of JSON, whose positions are not those of the file: what is wrong in it is wrong with all of it.
    Decoded(Box<Expression>),
}

/// A piece of a template.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(String),
    Interpolation(Interpolation),
    /// Condition, parts if it holds, parts if not.
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
    /// The white space around a reference, which is part of what the node is to look up.
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
    /// `.*` or `[*]`, and the steps that are done with each element.
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
    /// The key of each member, where it makes an object.
    pub(crate) key_result: Option<Expression>,
    pub(crate) result: Expression,
    pub(crate) condition: Option<Expression>,
    /// Whether values of one key are gathered.
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
