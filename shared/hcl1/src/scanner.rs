//! Splits HCL text into tokens with their positions: identifiers, strings, heredocs, numbers and punctuation. Skips
//! comments and white space.

use crate::{Error, Number, Position};

/// A token and its position.
#[derive(Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) at: Position,
    pub(crate) kind: TokenKind,
}

/// The kinds of tokens.
#[derive(Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// An identifier.
    Word(String),
    /// A quoted string, with its escapes decoded.
    Text(String),
    /// A heredoc.
    Heredoc(String),
    Number(Number),
    /// `{`
    OpenBody,
    /// `}`
    CloseBody,
    /// `[`
    OpenList,
    /// `]`
    CloseList,
    Assign,
    Comma,
    End,
}

impl TokenKind {
    /// The name of the token in messages.
    pub(crate) fn display_name(&self) -> String {
        match self {
            TokenKind::Word(word) => format!("IDENT {word}"),
            TokenKind::Text(_) => "STRING".to_owned(),
            TokenKind::Heredoc(_) => "HEREDOC".to_owned(),
            TokenKind::Number(number) => format!("NUMBER {}", number.text),
            TokenKind::OpenBody => "LBRACE".to_owned(),
            TokenKind::CloseBody => "RBRACE".to_owned(),
            TokenKind::OpenList => "LBRACK".to_owned(),
            TokenKind::CloseList => "RBRACK".to_owned(),
            TokenKind::Assign => "ASSIGN".to_owned(),
            TokenKind::Comma => "COMMA".to_owned(),
            TokenKind::End => "EOF".to_owned(),
        }
    }
}

/// Reads the characters of a text one by one.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'t> {
    rest: &'t str,
    at: Position,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { rest: text, at: Position::START }
    }

    pub(crate) fn at(&self) -> Position {
        self.at
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    pub(crate) fn advance(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.rest = &self.rest[character.len_utf8()..];
        self.at = self.at.next(character);
        Some(character)
    }

    /// Consumes characters while they match, and returns them.
    pub(crate) fn take_while(&mut self, matches: impl Fn(char) -> bool) -> &'t str {
        let before = self.rest;
        while self.peek().is_some_and(&matches) {
            self.advance();
        }
        &before[..before.len() - self.rest.len()]
    }
}

/// Whether a word may begin with this character.
fn begins_word(character: char) -> bool {
    character == '_' || character.is_alphabetic()
}

/// Whether a word may contain this character after the first.
fn continues_word(character: char) -> bool {
    begins_word(character) || character.is_numeric() || matches!(character, '-' | '.')
}

/// Produces tokens on demand.
#[derive(Debug)]
pub(crate) struct Scanner<'t> {
    cursor: Cursor<'t>,
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { cursor: Cursor::new(text) }
    }

    /// The next token. After the last one, always [`TokenKind::End`].
    pub(crate) fn next(&mut self) -> Result<Token, Error> {
        self.skip_space()?;
        let at = self.cursor.at();
        let Some(first) = self.cursor.peek() else { return Ok(Token { at, kind: TokenKind::End }) };
        let punctuation = match first {
            '{' => Some(TokenKind::OpenBody),
            '}' => Some(TokenKind::CloseBody),
            '[' => Some(TokenKind::OpenList),
            ']' => Some(TokenKind::CloseList),
            '=' => Some(TokenKind::Assign),
            ',' => Some(TokenKind::Comma),
            _ => None,
        };
        let kind = if let Some(kind) = punctuation {
            self.cursor.advance();
            kind
        } else if first == '"' {
            TokenKind::Text(self.string(at)?)
        } else if self.cursor.starts_with("<<") {
            TokenKind::Heredoc(self.heredoc(at)?)
        } else if first.is_ascii_digit() || matches!(first, '-' | '+' | '.') {
            TokenKind::Number(self.number(at)?)
        } else if begins_word(first) {
            TokenKind::Word(self.cursor.take_while(continues_word).to_owned())
        } else {
            return Err(illegal(at, first));
        };
        Ok(Token { at, kind })
    }

    fn skip_space(&mut self) -> Result<(), Error> {
        loop {
            self.cursor.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
            if self.cursor.starts_with("#") || self.cursor.starts_with("//") {
                self.cursor.take_while(|c| c != '\n');
            } else if self.cursor.starts_with("/*") {
                self.skip_block_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    fn skip_block_comment(&mut self) -> Result<(), Error> {
        let begin = self.cursor.at();
        self.cursor.advance();
        self.cursor.advance();
        while !self.cursor.starts_with("*/") {
            if self.cursor.advance().is_none() {
                return Err(error(begin, "comment not terminated: there is no */ after it"));
            }
        }
        self.cursor.advance();
        self.cursor.advance();
        Ok(())
    }

    fn number(&mut self, at: Position) -> Result<Number, Error> {
        let is_part = |c: char| continues_word(c) && c != '-';
        let mut text = self.cursor.take_while(|c| matches!(c, '-' | '+')).to_owned();
        text.push_str(self.cursor.take_while(is_part));
        // An exponent has one sign.
        let in_exponent = text.ends_with(['e', 'E']) && !text.contains(['x', 'X']);
        if let Some(sign) = self.cursor.peek().filter(|c| in_exponent && matches!(c, '-' | '+')) {
            self.cursor.advance();
            text.push(sign);
            text.push_str(self.cursor.take_while(is_part));
        }
        Number::parse(&text).ok_or_else(|| {
            let text =
                format!("illegal number {text}: not a number, or out of range; other values need quotes");
            Error { at, text }
        })
    }

    /// Parses the string that begins here, with its quotes. Text within `${…}` is kept unchanged, including quotes and line
    /// breaks.
    fn string(&mut self, begin: Position) -> Result<String, Error> {
        self.cursor.advance();
        // Octal and hexadecimal escapes are bytes of UTF-8.
        let mut bytes = Vec::new();
        let mut braces = 0_usize;
        loop {
            let at = self.cursor.at();
            let Some(character) = self.cursor.peek().filter(|c| *c != '\n' || braces > 0) else {
                let text = if braces > 0 {
                    format!(
                        "literal not terminated: the string that begins at {begin} has no brace that closes ${{"
                    )
                } else {
                    format!("literal not terminated: the string that begins at {begin} has no closing quote")
                };
                return Err(Error { at, text });
            };
            if braces == 0 && character == '\\' {
                self.cursor.advance();
                self.escape(at, &mut bytes)?;
                continue;
            }
            if braces == 0 && character == '"' {
                self.cursor.advance();
                break;
            }
            if braces == 0 && self.cursor.starts_with("${") {
                bytes.push(b'$');
                self.cursor.advance();
                braces = 1;
            } else if braces > 0 && character == '{' {
                braces += 1;
            } else if braces > 0 && character == '}' {
                braces -= 1;
            } else if braces > 0 && character == '\\' {
                bytes.push(b'\\');
                self.cursor.advance();
            }
            if let Some(character) = self.cursor.advance() {
                push(&mut bytes, character);
            }
        }
        String::from_utf8(bytes).map_err(|_| error(begin, "the escapes of the string are not valid UTF-8"))
    }

    /// Parses an escape whose backslash has been consumed.
    fn escape(&mut self, at: Position, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let invalid =
            || error(at, "illegal char escape: supported are \\n \\t \\r \\\" \\\\ \\uXXXX \\xXX and \\ooo");
        let letter = self.cursor.peek().ok_or_else(invalid)?;
        let (digits, radix) = match letter {
            '0'..='7' => (3, 8),
            'x' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            _ => {
                let character = match letter {
                    'a' => '\x07',
                    'b' => '\x08',
                    'f' => '\x0c',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\x0b',
                    '\\' | '"' => letter,
                    _ => return Err(invalid()),
                };
                self.cursor.advance();
                push(bytes, character);
                return Ok(());
            }
        };
        if radix == 16 {
            self.cursor.advance();
        }
        let mut value = 0_u32;
        for _ in 0..digits {
            let digit = self.cursor.peek().and_then(|c| c.to_digit(radix)).ok_or_else(invalid)?;
            // Eight hexadecimal digits fill 32 bits exactly.
            value = (value << radix.trailing_zeros()) + digit;
            self.cursor.advance();
        }
        if matches!(letter, 'u' | 'U') {
            push(bytes, char::from_u32(value).ok_or_else(invalid)?);
        } else {
            bytes.push(u8::try_from(value).map_err(|_| invalid())?);
        }
        Ok(())
    }

    /// Parses the heredoc that begins here, up to its closing marker, which is not part of the text.
    fn heredoc(&mut self, begin: Position) -> Result<String, Error> {
        self.cursor.advance();
        self.cursor.advance();
        let is_indented = self.cursor.peek() == Some('-');
        if is_indented {
            self.cursor.advance();
        }
        let marker = self.cursor.take_while(|c| c == '_' || c.is_alphanumeric());
        self.cursor.take_while(|c| c == '\r');
        if marker.is_empty() || self.cursor.advance() != Some('\n') {
            return Err(error(begin, "a heredoc begins with << or <<-, a marker, and the end of the line"));
        }
        let mut lines = Vec::new();
        loop {
            let line = self.cursor.take_while(|c| c != '\n');
            let text = line.trim_start_matches([' ', '\t']);
            if text.trim_end_matches('\r') == marker {
                let indentation = &line[..line.len() - text.len()];
                return Ok(heredoc_text(&lines, if is_indented { indentation } else { "" }));
            }
            lines.push(line);
            if self.cursor.advance().is_none() {
                let text = format!("heredoc not terminated: no line after {begin} is {marker} alone");
                return Err(Error { at: self.cursor.at(), text });
            }
        }
    }
}

/// Removes the indentation of the closing marker from all lines. If any line has less, keeps all lines unchanged.
fn heredoc_text(lines: &[&str], indentation: &str) -> String {
    let is_blank = |line: &&str| line.trim().is_empty();
    let fits = lines.iter().all(|line| is_blank(line) || line.starts_with(indentation));
    let cut = if fits { indentation } else { "" };
    lines.iter().flat_map(|line| [line.strip_prefix(cut).unwrap_or(line), "\n"]).collect()
}

fn push(bytes: &mut Vec<u8>, character: char) {
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn error(at: Position, text: &str) -> Error {
    Error { at, text: text.to_owned() }
}

fn illegal(at: Position, character: char) -> Error {
    let text = match character {
        '\u{feff}' => {
            "illegal char: the file begins with a byte order mark; save it as UTF-8 without one".to_owned()
        }
        '\'' => "illegal char ': strings need double quotes".to_owned(),
        ':' => "illegal char ':': a key is set with =".to_owned(),
        ';' => "illegal char ';': items are separated by white space or a comma".to_owned(),
        other => format!("illegal char {other:?}"),
    };
    Error { at, text }
}
