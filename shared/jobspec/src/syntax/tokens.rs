//! The words of the language.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// The end of the file.
    End,
    Newline,
    /// To the end of its line, with it, or between `/*` and `*/`.
    Comment,
    Name,
    Number,
    /// The quotes around text.
    OpenQuote,
    CloseQuote,
    /// Text between quotes.
    QuotedText,
    /// A line feed where text in quotes should go on.
    QuotedNewline,
    /// `<<NAME` and its line feed; `<<-` if indentation is to be removed.
    OpenHeredoc,
    CloseHeredoc,
    /// A line of a heredoc, or what is left of it beside what is to be evaluated.
    HeredocText,
    /// `${` or `${~`
    Interpolation,
    /// `%{` or `%{~`
    Directive,
    /// `}` or `~}` of either
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
    /// Of no use in the language.
    Invalid,
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Token {
    pub(crate) fn at(&self) -> super::At {
        self.start as usize..self.end as usize
    }
}
