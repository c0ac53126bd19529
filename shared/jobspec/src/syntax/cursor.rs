//! A cursor over tokens. It skips comments, and line breaks where they have no meaning. Tokens that the language does not
//! have are reported before parsing.

use std::cell::Cell;

use super::tokens::{Token, TokenKind};
use crate::{fault::Fault, position::At};

/// The result of parsing, or the first error.
pub(super) type Parsed<T> = Result<T, Box<Fault>>;

/// Maximum nesting of blocks, expressions, templates and directives. No part of the tree is nested deeper.
const DEPTH_MAX: u32 = 200;
/// Maximum number of tokens of a text. An expression takes much more memory than its text.
const TOKENS_MAX: usize = 1 << 20;

/// The tokens of a text and a position among them.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    tokens: Vec<Token>,
    position: usize,
    /// The next token, if it has been looked up. It may follow many comments and line breaks.
    found: Cell<Option<Next>>,
    /// Whether line breaks are tokens; innermost last.
    newlines: Vec<bool>,
    depth: u32,
    /// The range of the token before the next one.
    previous: At,
}

/// The next token from a position, and its index.
#[derive(Clone, Copy)]
struct Next {
    from: usize,
    counts_newlines: bool,
    index: usize,
    token: Token,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, tokens: Vec<Token>) -> Cursor<'a> {
        Cursor {
            text,
            tokens,
            position: 0,
            found: Cell::new(None),
            newlines: vec![true],
            depth: 0,
            previous: 0..0,
        }
    }

    /// The next token. A comment to the end of a line counts as a line break.
    fn next(&self) -> Next {
        let (from, counts_newlines) = (self.position, self.newlines.last().copied().unwrap_or(true));
        if let Some(found) = self.found.get()
            && (found.from, found.counts_newlines) == (from, counts_newlines)
        {
            return found;
        }
        let mut index = from;
        let token = loop {
            let token = self.tokens[index];
            match token.kind {
                TokenKind::Newline if !counts_newlines => index += 1,
                TokenKind::Comment => {
                    if counts_newlines && self.text[token.at()].ends_with('\n') {
                        break Token { kind: TokenKind::Newline, start: token.end - 1, end: token.end };
                    }
                    index += 1;
                }
                _ => break token,
            }
        };
        let next = Next { from, counts_newlines, index, token };
        self.found.set(Some(next));
        next
    }

    pub(super) fn peek(&self) -> Token {
        self.next().token
    }

    pub(super) fn peek_kind(&self) -> TokenKind {
        self.peek().kind
    }

    /// Consumes the next token. At the end of the file, returns the end token each time.
    pub(super) fn read(&mut self) -> Token {
        let Next { index, token, .. } = self.next();
        self.position = (index + 1).min(self.tokens.len() - 1);
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
        self.enter()?;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Begins a part that is nested one level deeper, and ends with [`Self::leave`].
    pub(super) fn enter(&mut self) -> Parsed<()> {
        if self.depth >= DEPTH_MAX {
            let detail = format!("blocks and expressions may be nested at most {DEPTH_MAX} levels deep");
            return fail(self.peek().at(), "Nested too deeply", detail);
        }
        self.depth += 1;
        Ok(())
    }

    /// Ends levels of nesting.
    pub(super) fn leave(&mut self, levels: u32) {
        self.depth -= levels;
    }
}

/// Returns an error as the result of parsing.
pub(super) fn fail<T>(at: At, summary: &'static str, detail: impl Into<String>) -> Parsed<T> {
    Err(Box::new(Fault::new(at, summary, detail)))
}

/// Reports too many tokens, and characters and tokens that the language does not have, before any other error.
pub(super) fn invalid_tokens(text: &str, tokens: &[Token]) -> Parsed<()> {
    if let Some(excess) = tokens.get(TOKENS_MAX) {
        let detail = format!("the text has more than {TOKENS_MAX} words, numbers and signs");
        return fail(excess.at(), "File too large", detail);
    }
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
