//! The grammar of HCL: bodies of items, blocks with labels, lists and objects.

use crate::scanner::{Scanner, Token, TokenKind};
use crate::tree::Limits;
use crate::{Body, Error, Item, Kind, Position, Value};

/// Parses a text as the body of a file.
pub(crate) fn parse(text: &str) -> Result<Body, Error> {
    let mut parser = Parser { scanner: Scanner::new(text), peeked: None, limits: Limits::default() };
    parser.body(None, 0)
}

/// Reads tokens, with at most one token of look-ahead, so that the first of several errors is reported.
struct Parser<'t> {
    scanner: Scanner<'t>,
    peeked: Option<Token>,
    limits: Limits,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, Error> {
        match self.peeked.take() {
            Some(token) => Ok(token),
            None => self.scanner.next(),
        }
    }

    fn peek(&mut self) -> Result<&Token, Error> {
        let token = self.advance()?;
        Ok(self.peeked.insert(token))
    }

    /// Consumes the next token if it is this one.
    fn skip(&mut self, kind: &TokenKind) -> Result<bool, Error> {
        let is_next = self.peek()?.kind == *kind;
        if is_next {
            self.peeked = None;
        }
        Ok(is_next)
    }

    /// Parses items up to the brace that closes the body, or up to the end of the text if `opened` is `None`.
    fn body(&mut self, opened: Option<Position>, depth: usize) -> Result<Body, Error> {
        Limits::check_depth(depth, opened.unwrap_or(Position::START))?;
        let mut items = Vec::new();
        loop {
            let token = self.advance()?;
            match (token.kind, opened) {
                (TokenKind::End, None) | (TokenKind::CloseBody, Some(_)) => return Ok(Body { items }),
                (TokenKind::End, Some(opened)) => {
                    let text = format!(
                        "object expected closing RBRACE got: EOF: the block that begins at {opened} is not closed"
                    );
                    return Err(Error { at: token.at, text });
                }
                (TokenKind::Word(key) | TokenKind::Text(key), _) => {
                    items.push(self.item(key, token.at, depth)?);
                    self.skip(&TokenKind::Comma)?;
                }
                (other, _) => {
                    let text = format!(
                        "expected: IDENT | STRING got: {}: a key is expected here",
                        other.display_name()
                    );
                    return Err(Error { at: token.at, text });
                }
            }
        }
    }

    /// Parses what follows a key: a value, or a block after optional labels. If there are labels, returns the outermost item.
    fn item(&mut self, key: String, at: Position, depth: usize) -> Result<Item, Error> {
        self.limits.count(at)?;
        let mut keys = vec![(key, at)];
        let mut value = loop {
            let token = self.advance()?;
            match token.kind {
                TokenKind::Word(label) | TokenKind::Text(label) => {
                    self.limits.count(token.at)?;
                    Limits::check_depth(depth + keys.len(), token.at)?;
                    keys.push((label, token.at));
                }
                TokenKind::OpenBody => {
                    let body = self.body(Some(token.at), depth + keys.len())?;
                    break Value { at: token.at, kind: Kind::Body(body) };
                }
                TokenKind::Assign if keys.len() == 1 => break self.value(depth + 1)?,
                TokenKind::Assign => {
                    let text = "nested object expected: LBRACE got: ASSIGN: a label is followed by a block, without =";
                    return Err(Error { at: token.at, text: text.to_owned() });
                }
                other @ (TokenKind::Heredoc(_)
                | TokenKind::Number(_)
                | TokenKind::CloseBody
                | TokenKind::OpenList
                | TokenKind::CloseList
                | TokenKind::Comma
                | TokenKind::End) => {
                    let (key, _) = &keys[0];
                    let text = format!(
                        "key '{key}' expected start of object ('{{') or assignment ('='), got: {}",
                        other.display_name()
                    );
                    return Err(Error { at: token.at, text });
                }
            }
        };
        // Wraps the value in its labels, from the innermost outwards.
        while keys.len() > 1 {
            let Some((key, at)) = keys.pop() else { break };
            value = Value { at, kind: Kind::Body(Body { items: vec![Item { key, at, value }] }) };
        }
        let (key, at) = keys.swap_remove(0);
        Ok(Item { key, at, value })
    }

    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        let token = self.advance()?;
        self.limits.count(token.at)?;
        let at = token.at;
        let kind = match token.kind {
            TokenKind::Text(text) | TokenKind::Heredoc(text) => Kind::Text(text),
            TokenKind::Number(number) => Kind::Number(number),
            TokenKind::Word(word) if word == "true" => Kind::Bool(true),
            TokenKind::Word(word) if word == "false" => Kind::Bool(false),
            TokenKind::OpenBody => Kind::Body(self.body(Some(at), depth)?),
            TokenKind::OpenList => Kind::List(self.list(at, depth)?),
            TokenKind::Word(word) => {
                let text = format!(
                    "Unknown token: {at} IDENT {word}: strings need quotes; there are no variables, functions or null"
                );
                return Err(Error { at, text });
            }
            other @ (TokenKind::CloseBody
            | TokenKind::CloseList
            | TokenKind::Assign
            | TokenKind::Comma
            | TokenKind::End) => {
                let text = format!("Unknown token: {at} {}: a value is expected here", other.display_name());
                return Err(Error { at, text });
            }
        };
        Ok(Value { at, kind })
    }

    /// Parses values up to the bracket that closes the list.
    fn list(&mut self, opened: Position, depth: usize) -> Result<Vec<Value>, Error> {
        Limits::check_depth(depth, opened)?;
        let mut values = Vec::new();
        loop {
            if self.skip(&TokenKind::CloseList)? {
                return Ok(values);
            }
            values.push(self.value(depth + 1)?);
            if !self.skip(&TokenKind::Comma)? && self.peek()?.kind != TokenKind::CloseList {
                let Token { at, kind } = self.advance()?;
                let text = format!(
                    "error parsing list, expected comma or list end, got: {}: the list begins at {opened}",
                    kind.display_name()
                );
                return Err(Error { at, text });
            }
        }
    }
}
