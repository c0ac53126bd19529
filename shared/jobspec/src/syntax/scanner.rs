//! Splits text into tokens. Quoted texts and heredocs are templates, in which `${` and `%{` switch back to expressions. A
//! stack of modes keeps track of the nesting.

use super::tokens::{Token, TokenKind};

/// Splits a whole file into tokens.
pub(crate) fn scan(text: &str) -> Vec<Token> {
    let mut scanner = Scanner::new(text, 0, text.len());
    scanner.modes.push(Mode::Code { braces: 0 });
    scanner.run()
}

/// Splits a template without quotes into tokens.
pub(crate) fn scan_bare_template(text: &str) -> Vec<Token> {
    let mut scanner = Scanner::new(text, 0, text.len());
    scanner.modes.push(Mode::Bare);
    scanner.run()
}

enum Mode {
    /// Expressions and blocks. `braces` is the number of open braces since the mode began.
    Code {
        braces: usize,
    },
    Quoted,
    Heredoc {
        word: (usize, usize),
        at_line_start: bool,
    },
    /// A template that extends to the end of the text.
    Bare,
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    position: usize,
    end: usize,
    modes: Vec<Mode>,
    tokens: Vec<Token>,
    /// Whether the rest of the text may contain `*/`. If a search did not find any, there is no need for another.
    ends_comments: bool,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, position: usize, end: usize) -> Scanner<'a> {
        let tokens = Vec::with_capacity((end - position) / 3);
        Scanner {
            text,
            bytes: text.as_bytes(),
            position,
            end,
            modes: Vec::new(),
            tokens,
            ends_comments: true,
        }
    }

    fn run(mut self) -> Vec<Token> {
        while self.position < self.end {
            match self.modes.last() {
                Some(Mode::Code { .. }) => self.code(),
                Some(Mode::Quoted) => self.quoted(),
                Some(Mode::Heredoc { .. }) => self.heredoc(),
                Some(Mode::Bare) | None => self.bare(),
            }
        }
        self.push(TokenKind::End, 0);
        self.tokens
    }

    /// The byte at an offset from the position.
    fn peek(&self, ahead: usize) -> u8 {
        let at = self.position + ahead;
        if at < self.end { self.bytes[at] } else { 0 }
    }

    fn starts_with(&self, prefix: &[u8]) -> bool {
        self.bytes[self.position..self.end].starts_with(prefix)
    }

    /// Adds a token of a length in bytes.
    fn push(&mut self, kind: TokenKind, length: usize) {
        let end = self.position + length;
        let narrow = |at: usize| u32::try_from(at).expect("a source is smaller than 4 GiB");
        self.tokens.push(Token { kind, start: narrow(self.position), end: narrow(end) });
        self.position = end;
    }

    fn code(&mut self) {
        let first = self.peek(0);
        match first {
            b' ' | b'\t' => self.position += 1,
            b'\n' => self.push(TokenKind::Newline, 1),
            b'\r' if self.peek(1) == b'\n' => self.push(TokenKind::Newline, 2),
            b'0'..=b'9' => self.number(),
            b'#' => self.line_comment(),
            b'/' if self.peek(1) == b'/' => self.line_comment(),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'"' => {
                self.push(TokenKind::OpenQuote, 1);
                self.modes.push(Mode::Quoted);
            }
            b'<' if self.peek(1) == b'<' => self.open_heredoc(),
            b'{' => {
                self.push(TokenKind::OpenBrace, 1);
                self.count_brace(1);
            }
            b'}' => self.close_brace(1),
            b'~' if self.peek(1) == b'}' && self.is_in_sequence() => self.close_brace(2),
            _ if first == b'_' || first.is_ascii_alphabetic() || first >= 0x80 => self.name(),
            _ => self.punctuation(),
        }
    }

    fn punctuation(&mut self) {
        use TokenKind as Kind;
        let (kind, length) = match (self.peek(0), self.peek(1)) {
            (b'=', b'=') => (Kind::Equal, 2),
            (b'=', b'>') => (Kind::Arrow, 2),
            (b'!', b'=') => (Kind::NotEqual, 2),
            (b'<', b'=') => (Kind::LessOrEqual, 2),
            (b'>', b'=') => (Kind::GreaterOrEqual, 2),
            (b'&', b'&') => (Kind::And, 2),
            (b'|', b'|') => (Kind::Or, 2),
            (b'.', b'.') if self.peek(2) == b'.' => (Kind::Ellipsis, 3),
            (b'.', _) => (Kind::Dot, 1),
            (b',', _) => (Kind::Comma, 1),
            (b'(', _) => (Kind::OpenParenthesis, 1),
            (b')', _) => (Kind::CloseParenthesis, 1),
            (b'[', _) => (Kind::OpenBracket, 1),
            (b']', _) => (Kind::CloseBracket, 1),
            (b'*', _) => (Kind::Star, 1),
            (b'/', _) => (Kind::Slash, 1),
            (b'%', _) => (Kind::Percent, 1),
            (b'+', _) => (Kind::Plus, 1),
            (b'-', _) => (Kind::Minus, 1),
            (b'=', _) => (Kind::Assign, 1),
            (b'<', _) => (Kind::Less, 1),
            (b'>', _) => (Kind::Greater, 1),
            (b'!', _) => (Kind::Not, 1),
            (b'?', _) => (Kind::Question, 1),
            (b':', _) => (Kind::Colon, 1),
            _ => (Kind::Invalid, 1),
        };
        self.push(kind, length);
    }

    /// A number: a digit, followed by digits, points and exponents, up to the last digit.
    fn number(&mut self) {
        let mut length = 1;
        let mut ahead = 1;
        loop {
            match self.peek(ahead) {
                b'0'..=b'9' => {
                    ahead += 1;
                    length = ahead;
                }
                b'.' => ahead += 1,
                b'e' | b'E' => {
                    let signed = usize::from(matches!(self.peek(ahead + 1), b'+' | b'-'));
                    if !self.peek(ahead + 1 + signed).is_ascii_digit() {
                        break;
                    }
                    ahead += 2 + signed;
                    length = ahead;
                }
                _ => break,
            }
        }
        self.push(TokenKind::Number, length);
    }

    /// Consumes a comment up to `*/`. If there is none, the slash is a token of its own.
    fn block_comment(&mut self) {
        let content = &self.text[self.position + 2..self.end];
        let length = if self.ends_comments { content.find("*/") } else { None };
        match length {
            Some(length) => self.push(TokenKind::Comment, length + 4),
            None => {
                self.ends_comments = false;
                self.push(TokenKind::Slash, 1);
            }
        }
    }

    fn line_comment(&mut self) {
        let rest = &self.bytes[self.position..self.end];
        let length = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        self.push(TokenKind::Comment, length);
    }

    fn name(&mut self) {
        let length = name_length(&self.text[self.position..self.end]);
        if length == 0 {
            let width = self.text[self.position..].chars().next().map_or(1, char::len_utf8);
            return self.push(TokenKind::Invalid, width);
        }
        self.push(TokenKind::Name, length);
    }

    fn count_brace(&mut self, change: isize) {
        if let Some(Mode::Code { braces }) = self.modes.last_mut() {
            *braces = braces.saturating_add_signed(change);
        }
    }

    /// Whether the next brace closes an interpolation or a directive.
    fn is_in_sequence(&self) -> bool {
        self.modes.len() > 1 && matches!(self.modes.last(), Some(Mode::Code { braces: 0 }))
    }

    fn close_brace(&mut self, length: usize) {
        if self.is_in_sequence() {
            self.push(TokenKind::SequenceEnd, length);
            self.modes.pop();
            return;
        }
        self.push(TokenKind::CloseBrace, 1);
        self.count_brace(-1);
    }

    fn open_sequence(&mut self, kind: TokenKind) {
        let length = if self.peek(2) == b'~' { 3 } else { 2 };
        self.push(kind, length);
        self.modes.push(Mode::Code { braces: 0 });
    }

    /// The number of following bytes that are literal text in a template, up to a sequence or a byte for which `stops` is true.
    fn literal_length(&self, stops: impl Fn(u8) -> bool, has_escapes: bool) -> usize {
        let bytes = &self.bytes[self.position..self.end];
        let mut at = 0;
        while at < bytes.len() {
            let next = bytes.get(at + 1).copied().unwrap_or_default();
            match bytes[at] {
                // A doubled sign stands for the sign itself and does not begin a sequence.
                sign @ (b'$' | b'%') if next == sign && bytes.get(at + 2) == Some(&b'{') => at += 3,
                b'$' | b'%' if next == b'{' => break,
                b'\\' if has_escapes && at + 1 < bytes.len() && next != b'\n' && next != b'\r' => at += 2,
                byte if stops(byte) => break,
                _ => at += 1,
            }
        }
        at.min(bytes.len())
    }

    /// Consumes the start of an interpolation or a directive, if there is one.
    fn sequence(&mut self) -> bool {
        let kind = match (self.peek(0), self.peek(1)) {
            (b'$', b'{') => TokenKind::Interpolation,
            (b'%', b'{') => TokenKind::Directive,
            _ => return false,
        };
        self.open_sequence(kind);
        true
    }

    fn quoted(&mut self) {
        if self.sequence() {
            return;
        }
        match self.peek(0) {
            b'"' => {
                self.push(TokenKind::CloseQuote, 1);
                self.modes.pop();
            }
            b'\n' => self.push(TokenKind::QuotedNewline, 1),
            b'\r' if self.peek(1) == b'\n' => self.push(TokenKind::QuotedNewline, 2),
            _ => {
                let length = self.literal_length(|byte| matches!(byte, b'"' | b'\n' | b'\r'), true).max(1);
                self.push(TokenKind::QuotedText, length);
            }
        }
    }

    fn bare(&mut self) {
        if !self.sequence() {
            let length = self.literal_length(|_| false, false).max(1);
            self.push(TokenKind::QuotedText, length);
        }
    }

    /// Consumes `<<NAME` and the end of its line. Anything else is a less-than sign.
    fn open_heredoc(&mut self) {
        let flush = usize::from(self.peek(2) == b'-');
        let start = self.position + 2 + flush;
        let length = name_length(&self.text[start.min(self.end)..self.end]);
        let end = start + length;
        let newline = match self.bytes[end.min(self.end)..self.end] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => 0,
        };
        if length == 0 || newline == 0 {
            return self.push(TokenKind::Less, 1);
        }
        self.push(TokenKind::OpenHeredoc, end + newline - self.position);
        self.modes.push(Mode::Heredoc { word: (start, end), at_line_start: true });
    }

    fn heredoc(&mut self) {
        if self.starts_with(b"${") || self.starts_with(b"%{") {
            if let Some(Mode::Heredoc { at_line_start, .. }) = self.modes.last_mut() {
                *at_line_start = false;
            }
            self.sequence();
            return;
        }
        let length = self.literal_length(|byte| byte == b'\n', false);
        let line = &self.text[self.position..self.position + length];
        let ends_line = self.peek(length) == b'\n';
        let Some(Mode::Heredoc { word, at_line_start }) = self.modes.last_mut() else { return };
        if *at_line_start && ends_line && line.trim() == &self.text[word.0..word.1] {
            let marker = line.strip_suffix('\r').unwrap_or(line).len();
            let newline = length + 1 - marker;
            self.modes.pop();
            self.push(TokenKind::CloseHeredoc, marker);
            self.push(TokenKind::Newline, newline);
            return;
        }
        *at_line_start = ends_line;
        self.push(TokenKind::HeredocText, length + usize::from(ends_line));
    }
}

/// The length in bytes of the name at the start of a text.
pub(crate) fn name_length(text: &str) -> usize {
    let mut length = 0;
    for character in text.chars() {
        let fits = match character {
            '_' => true,
            '-' => length > 0,
            _ if length == 0 => unicode_ident::is_xid_start(character),
            _ => unicode_ident::is_xid_continue(character),
        };
        if !fits {
            break;
        }
        length += character.len_utf8();
    }
    length
}
