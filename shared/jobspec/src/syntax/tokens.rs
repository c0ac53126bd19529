//! Tokens of the language.

use crate::position::At;

/// The kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// The end of the file.
    End,
    Newline,
    /// From `#` or `//` to the end of the line, including the line break; or from `/*` to `*/`.
    Comment,
    Name,
    Number,
    /// The quotes around text.
    OpenQuote,
    CloseQuote,
    /// Text between quotes.
    QuotedText,
    /// A line break within quoted text, which is an error.
    QuotedNewline,
    /// `<<NAME` and its line break; `<<-` removes common indentation.
    OpenHeredoc,
    CloseHeredoc,
    /// A line of a heredoc, or the part of a line outside of `${…}` and `%{…}`.
    HeredocText,
    /// `${` or `${~`
    Interpolation,
    /// `%{` or `%{~`
    Directive,
    /// `}` or `~}`, which ends either.
    SequenceEnd,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    OpenParenthesis,
    CloseParenthesis,
    Comma,
    Dot,
    Colon,
    Question,
    Ellipsis,
    Arrow,
    Assign,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Not,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    /// A character that the language does not allow.
    Invalid,
}

/// A token and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Token {
    pub(crate) fn at(&self) -> At {
        self.start as usize..self.end as usize
    }
}
