//! A JSON parser that produces the same tree as HCL. `serde_json` does not report the positions of keys.

use crate::scanner::Cursor;
use crate::tree::Limits;
use crate::{Body, Error, Item, Kind, Number, Position, Value};

/// Parses a text that holds one object.
pub(crate) fn parse(text: &str) -> Result<Body, Error> {
    let mut parser = Parser { cursor: Cursor::new(text), limits: Limits::default() };
    parser.skip_space();
    if parser.cursor.peek() == Some('\u{feff}') {
        return Err(parser.error("the file begins with a byte order mark; save it as UTF-8 without one"));
    }
    // An empty file is valid.
    if parser.cursor.peek().is_none() {
        return Ok(Body::default());
    }
    parser.expect('{', "an object is expected here")?;
    let body = parser.object(Position::START, 0)?;
    parser.skip_space();
    match parser.cursor.peek() {
        None => Ok(body),
        Some(_) => Err(parser.error("nothing may follow the object")),
    }
}

struct Parser<'t> {
    cursor: Cursor<'t>,
    limits: Limits,
}

impl Parser<'_> {
    /// An error at the next character, which the message contains.
    fn error(&self, text: &str) -> Error {
        let found = self.cursor.peek().map_or_else(|| "the end of the file".to_owned(), |c| format!("{c:?}"));
        Error { at: self.cursor.at(), text: format!("{text}, found {found}") }
    }

    fn skip_space(&mut self) {
        self.cursor.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    fn expect(&mut self, character: char, text: &str) -> Result<(), Error> {
        if self.cursor.peek() != Some(character) {
            return Err(self.error(text));
        }
        self.cursor.advance();
        Ok(())
    }

    /// Consumes the next character if it is this one, and returns whether it was.
    fn is_next(&mut self, character: char) -> bool {
        let is_next = self.cursor.peek() == Some(character);
        if is_next {
            self.cursor.advance();
        }
        is_next
    }

    /// Parses the members of an object whose brace has been consumed.
    fn object(&mut self, opened: Position, depth: usize) -> Result<Body, Error> {
        Limits::check_depth(depth, opened)?;
        let mut items = Vec::new();
        self.skip_space();
        if self.is_next('}') {
            return Ok(Body { items });
        }
        loop {
            self.skip_space();
            let at = self.cursor.at();
            self.limits.count(at)?;
            self.expect('"', "a key in double quotes is expected here")?;
            let key = self.string(at)?;
            self.skip_space();
            self.expect(':', "a colon must follow the key")?;
            let value = self.value(depth + 1)?;
            items.push(Item { key, at, value });
            self.skip_space();
            if self.is_next('}') {
                return Ok(Body { items });
            }
            self.expect(',', &format!("a comma or a brace is expected here; the object begins at {opened}"))?;
        }
    }

    fn list(&mut self, opened: Position, depth: usize) -> Result<Vec<Value>, Error> {
        Limits::check_depth(depth, opened)?;
        let mut values = Vec::new();
        self.skip_space();
        if self.is_next(']') {
            return Ok(values);
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.skip_space();
            if self.is_next(']') {
                return Ok(values);
            }
            self.expect(',', &format!("a comma or a bracket is expected here; the list begins at {opened}"))?;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        self.skip_space();
        let at = self.cursor.at();
        self.limits.count(at)?;
        let kind = match self.cursor.peek() {
            Some('{') => {
                self.cursor.advance();
                Kind::Body(self.object(at, depth)?)
            }
            Some('[') => {
                self.cursor.advance();
                Kind::List(self.list(at, depth)?)
            }
            Some('"') => {
                self.cursor.advance();
                Kind::Text(self.string(at)?)
            }
            Some('-' | '0'..='9') => Kind::Number(self.number(at)?),
            Some('a'..='z' | 'A'..='Z') => match self.cursor.take_while(|c| c.is_ascii_alphanumeric()) {
                "true" => Kind::Bool(true),
                "false" => Kind::Bool(false),
                "null" => Kind::Null,
                word => {
                    return Err(Error { at, text: format!("unknown word {word}: strings need quotes") });
                }
            },
            _ => return Err(self.error("a value is expected here")),
        };
        Ok(Value { at, kind })
    }

    fn number(&mut self, at: Position) -> Result<Number, Error> {
        let text = self.cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'));
        let digits = text.strip_prefix('-').unwrap_or(text);
        // HCL allows more notations than JSON.
        let is_json =
            digits == "0" || !digits.starts_with('0') || digits.starts_with("0.") || digits.starts_with("0e");
        let number =
            Number::parse(text).filter(|_| is_json && digits.starts_with(|c: char| c.is_ascii_digit()));
        number.ok_or_else(|| Error {
            at,
            text: format!("illegal number {text}: not a number, or out of range"),
        })
    }

    /// Parses a string whose first quote has been consumed.
    fn string(&mut self, begin: Position) -> Result<String, Error> {
        let mut text = String::new();
        loop {
            let at = self.cursor.at();
            match self.cursor.peek() {
                Some('"') => {
                    self.cursor.advance();
                    return Ok(text);
                }
                Some('\\') => {
                    self.cursor.advance();
                    text.push(self.escape(at)?);
                }
                Some('\n') | None => {
                    let text = format!(
                        "literal not terminated: the string that begins at {begin} has no closing quote"
                    );
                    return Err(Error { at, text });
                }
                Some(control) if control < ' ' => {
                    let text = format!("illegal char {control:?} in a string: write it as an escape");
                    return Err(Error { at, text });
                }
                Some(other) => {
                    self.cursor.advance();
                    text.push(other);
                }
            }
        }
    }

    /// Parses an escape whose backslash has been consumed.
    fn escape(&mut self, at: Position) -> Result<char, Error> {
        let invalid = || Error { at, text: "illegal char escape".to_owned() };
        Ok(match self.cursor.advance().ok_or_else(invalid)? {
            same @ ('"' | '\\' | '/') => same,
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.code_unit().ok_or_else(invalid)?;
                let is_high = (0xd800..0xdc00).contains(&first);
                if is_high && self.is_next('\\') && self.is_next('u') {
                    let units = [first, self.code_unit().ok_or_else(invalid)?];
                    let mut decoded = char::decode_utf16(units);
                    let character = decoded.next().and_then(Result::ok).ok_or_else(invalid)?;
                    // A high surrogate must be followed by a low surrogate.
                    if decoded.next().is_some() { return Err(invalid()) } else { character }
                } else {
                    char::from_u32(first.into()).ok_or_else(invalid)?
                }
            }
            _ => return Err(invalid()),
        })
    }

    fn code_unit(&mut self) -> Option<u16> {
        let mut value = 0;
        for _ in 0..4 {
            value = value * 16 + self.cursor.peek()?.to_digit(16)? as u16;
            self.cursor.advance();
        }
        Some(value)
    }
}
