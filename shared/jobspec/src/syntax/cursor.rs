//! A cursor over tokens. It skips comments, and line breaks where they have no meaning. Tokens that the language does not
//! have are reported before parsing.

use super::tokens::{Token, TokenKind};
use crate::{fault::Fault, position::At};

/// The result of parsing, or the first error.
pub(super) type Parsed<T> = Result<T, Box<Fault>>;

/// Maximum nesting of blocks, expressions and templates.
const DEPTH_MAX: u32 = 200;

/// The tokens of a text and a position among them.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    tokens: Vec<Token>,
    position: usize,
    /// Whether line breaks are tokens; innermost last.
    newlines: Vec<bool>,
    depth: u32,
    /// The range of the token before the next one.
    previous: At,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, tokens: Vec<Token>) -> Cursor<'a> {
        Cursor { text, tokens, position: 0, newlines: vec![true], depth: 0, previous: 0..0 }
    }

    /// The next token and its index. A comment to the end of a line counts as a line break.
    fn next_position(&self) -> (usize, Token) {
        let counts_newlines = self.newlines.last().copied().unwrap_or(true);
        let mut position = self.position;
        loop {
            let token = self.tokens[position];
            match token.kind {
                TokenKind::Newline if !counts_newlines => position += 1,
                TokenKind::Comment => {
                    if counts_newlines && self.text[token.at()].ends_with('\n') {
                        let start = token.end - 1;
                        return (position, Token { kind: TokenKind::Newline, start, end: token.end });
                    }
                    position += 1;
                }
                _ => return (position, token),
            }
        }
    }

    pub(super) fn peek(&self) -> Token {
        self.next_position().1
    }

    pub(super) fn peek_kind(&self) -> TokenKind {
        self.peek().kind
    }

    /// Consumes the next token. At the end of the file, returns the end token each time.
    pub(super) fn read(&mut self) -> Token {
        let (position, token) = self.next_position();
        self.position = (position + 1).min(self.tokens.len() - 1);
        self.previous = token.at();
        token
    }

    /// Consumes the next token if it is of a kind.
    pub(super) fn read_if(&mut self, kind: TokenKind) -> Option<Token> {
        (self.peek_kind() == kind).then(|| self.read())
    }

    /// The range of the last consumed token.
    pub(super) fn previous(&self) -> At {
        self.previous.clone()
    }

    /// Whether the next token is this name.
    pub(super) fn is_word(&self, word: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Name && &self.text[token.at()] == word
    }

    pub(super) fn slice(&self, token: Token) -> &'a str {
        &self.text[token.at()]
    }

    /// Parses a part in which line breaks are tokens, or are not.
    pub(super) fn with_newlines<T>(
        &mut self,
        counted: bool,
        parse: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        self.newlines.push(counted);
        let parsed = parse(self);
        self.newlines.pop();
        parsed
    }

    /// Parses a part that is nested one level deeper.
    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            let detail = format!("blocks and expressions may be nested at most {DEPTH_MAX} levels deep");
            return Err(Box::new(Fault::new(self.peek().at(), "Nested too deeply", detail)));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }
}

/// Returns an error as the result of parsing.
pub(super) fn fail<T>(at: At, summary: &'static str, detail: impl Into<String>) -> Parsed<T> {
    Err(Box::new(Fault::new(at, summary, detail)))
}

/// Reports characters and tokens that the language does not have, before any other error.
pub(super) fn invalid_tokens(text: &str, tokens: &[Token]) -> Parsed<()> {
    for token in tokens {
        let (summary, detail) = match token.kind {
            TokenKind::QuotedNewline => (
                "Invalid multi-line string",
                "a quoted text must end on the line where it begins; close the quotes, or use a heredoc: <<EOT"
                    .to_owned(),
            ),
            TokenKind::Invalid => match &text[token.at()] {
                "&" => ("Unsupported operator", "there are no bitwise operators; logical and is &&".to_owned()),
                "|" => ("Unsupported operator", "there are no bitwise operators; logical or is ||".to_owned()),
                "~" => ("Unsupported operator", "there are no bitwise operators; logical not is !".to_owned()),
                "^" => ("Unsupported operator", "there are no bitwise operators".to_owned()),
                "'" => ("Invalid character", "text needs double quotes: \"…\"".to_owned()),
                "`" => (
                    "Invalid character",
                    "text needs double quotes, or a heredoc if it has several lines: <<EOT".to_owned(),
                ),
                ";" => {
                    ("Invalid character", "a definition ends with the line, not with a semicolon".to_owned())
                }
                other => ("Invalid character", format!("{other:?} is not allowed here")),
            },
            _ => continue,
        };
        return fail(token.at(), summary, detail);
    }
    Ok(())
}
