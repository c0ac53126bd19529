//! Parser of filter expressions: from text to a tree. Names are not resolved here.

use super::{BYTES_MAX, DEPTH_MAX, SyntaxError};

/// Maximum number of parts of a selector. The paths of nested quantifiers add up.
const STEPS_MAX: usize = 20;

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    /// At least one holds.
    Or(Vec<Expr>),
    /// All hold.
    And(Vec<Expr>),
    /// It does not hold.
    Not(Box<Expr>),
    /// Applies an operator to a value.
    Match { selector: Vec<String>, operator: Operator, is_negated: bool },
    /// A quantifier over the elements of a list or the entries of a map.
    Each {
        /// Whether the body must hold for all of them; otherwise for any.
        all: bool,
        selector: Vec<String>,
        bind: Bind,
        body: Box<Expr>,
    },
}

/// An operator with its operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operator {
    Equals(String),
    /// A string contains the substring, a list the element, a map the key. `in` is the same with its operands swapped.
    Contains(String),
    Matches(String),
    IsEmpty,
    IsNil,
}

/// The names that a quantifier binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bind {
    /// A list element or a map key.
    One(String),
    /// The list index or map key, and the value; `None` is `_`.
    Two(Option<String>, Option<String>),
}

/// Parses an expression.
///
/// # Errors
/// If the text is not a valid expression.
pub(super) fn parse(text: &str) -> Result<Expr, SyntaxError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    if text.len() > BYTES_MAX {
        return Err(parser.error(format!("the expression is longer than {BYTES_MAX} bytes")));
    }
    let expr = parser.or()?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.error("no match found, expected \"and\", \"or\" or the end"));
    }
    Ok(expr)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, what: impl Into<String>) -> SyntaxError {
        SyntaxError { offset: self.at, what: what.into() }
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    /// Consumes a symbol, with optional space before it.
    fn symbol(&mut self, symbol: &str) -> bool {
        let before = self.at;
        self.skip_space();
        let is_match = self.rest().starts_with(symbol);
        self.at = if is_match { self.at + symbol.len() } else { before };
        is_match
    }

    /// Consumes a sequence of words, with optional space before each. Consumes nothing if one does not match.
    fn words(&mut self, words: &[&str]) -> bool {
        let before = self.at;
        for word in words {
            self.skip_space();
            let rest = self.rest();
            let ends = |rest: &str| !rest.starts_with(|next: char| is_in_ident(next) || next == '.');
            match rest.strip_prefix(word) {
                Some(after) if ends(after) => self.at += word.len(),
                _ => {
                    self.at = before;
                    return false;
                }
            }
        }
        true
    }

    fn or(&mut self) -> Result<Expr, SyntaxError> {
        let mut alternatives = vec![self.and()?];
        while self.words(&["or"]) {
            alternatives.push(self.and()?);
        }
        Ok(if alternatives.len() == 1 { alternatives.remove(0) } else { Expr::Or(alternatives) })
    }

    fn and(&mut self) -> Result<Expr, SyntaxError> {
        let mut parts = vec![self.not()?];
        while self.words(&["and"]) {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expr::And(parts) })
    }

    fn not(&mut self) -> Result<Expr, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(format!("the expression nests deeper than {DEPTH_MAX}")));
        }
        let expr = if self.words(&["not"]) { Expr::Not(Box::new(self.not()?)) } else { self.primary()? };
        self.depth -= 1;
        Ok(expr)
    }

    fn primary(&mut self) -> Result<Expr, SyntaxError> {
        if self.symbol("(") {
            let inner = self.or()?;
            return if self.symbol(")") {
                Ok(inner)
            } else {
                Err(self.error("no match found, expected \")\""))
            };
        }
        for (word, all) in [("any", false), ("all", true)] {
            let before = self.at;
            if self.words(&[word]) {
                // A field may have the same name as a quantifier.
                match self.each(all)? {
                    Some(expr) => return Ok(expr),
                    None => self.at = before,
                }
            }
        }
        self.comparison()
    }

    fn each(&mut self, all: bool) -> Result<Option<Expr>, SyntaxError> {
        self.skip_space();
        let Ok((Some(selector), _)) = self.operand() else { return Ok(None) };
        if !self.words(&["as"]) {
            return Ok(None);
        }
        let first = self.binding()?;
        let bind = if self.symbol(",") {
            Bind::Two(first, self.binding()?)
        } else {
            Bind::One(first.ok_or_else(|| self.error("no match found, expected a name"))?)
        };
        if !self.symbol("{") {
            return Err(self.error("no match found, expected \"{\""));
        }
        let body = Box::new(self.or()?);
        if !self.symbol("}") {
            return Err(self.error("no match found, expected \"}\""));
        }
        Ok(Some(Expr::Each { all, selector, bind, body }))
    }

    /// A name to bind; `None` for `_`.
    fn binding(&mut self) -> Result<Option<String>, SyntaxError> {
        self.skip_space();
        if self.rest().starts_with('_') {
            self.at += 1;
            return Ok(None);
        }
        match self.ident() {
            Some(name) => Ok(Some(name.to_owned())),
            None => Err(self.error("no match found, expected a name")),
        }
    }

    fn comparison(&mut self) -> Result<Expr, SyntaxError> {
        self.skip_space();
        let (selector, value) = self.operand()?;
        for (words, is_negated) in [(&["in"][..], false), (&["not", "in"][..], true)] {
            if self.words(words) {
                self.skip_space();
                let (Some(selector), _) = self.operand()? else {
                    return Err(self.error("no match found, expected a selector"));
                };
                return Ok(Expr::Match { selector, operator: Operator::Contains(value), is_negated });
            }
        }
        let Some(selector) = selector else {
            return Err(self.error("no match found, expected \"in\" or \"not in\""));
        };
        let (operator, is_negated) = self.operator()?;
        Ok(Expr::Match { selector, operator, is_negated })
    }

    fn operator(&mut self) -> Result<(Operator, bool), SyntaxError> {
        if self.symbol("==") {
            return Ok((Operator::Equals(self.value()?), false));
        }
        if self.symbol("!=") {
            return Ok((Operator::Equals(self.value()?), true));
        }
        for (words, is_negated) in [(&["contains"][..], false), (&["not", "contains"], true)] {
            if self.words(words) {
                return Ok((Operator::Contains(self.value()?), is_negated));
            }
        }
        for (words, is_negated) in [(&["matches"][..], false), (&["not", "matches"], true)] {
            if self.words(words) {
                return Ok((Operator::Matches(self.value()?), is_negated));
            }
        }
        for (words, operator, is_negated) in [
            (&["is", "empty"][..], Operator::IsEmpty, false),
            (&["is", "not", "empty"], Operator::IsEmpty, true),
            (&["is", "nil"], Operator::IsNil, false),
            (&["is", "not", "nil"], Operator::IsNil, true),
        ] {
            if self.words(words) {
                return Ok((operator, is_negated));
            }
        }
        Err(self.error(
            "no match found, expected an operator such as \"==\", \"!=\", \"contains\" or \"is empty\"",
        ))
    }

    fn value(&mut self) -> Result<String, SyntaxError> {
        self.skip_space();
        self.operand().map(|(_, value)| value)
    }

    /// Parses an operand, which may be a selector or a value. The context decides which of them it is: every selector is
    /// also a valid value, but not every value is a selector.
    fn operand(&mut self) -> Result<(Option<Vec<String>>, String), SyntaxError> {
        let begin = self.at;
        if let Some(text) = self.quoted()? {
            let is_pointer = |pointer: &&str| pointer.split('/').nth(STEPS_MAX).is_none();
            let pointer = text.strip_prefix('/').filter(is_pointer).map(|pointer| {
                pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
            });
            return Ok((pointer, text));
        }
        if self.rest().starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            let rest = self.rest();
            let end = rest.find(|char: char| !(char.is_ascii_digit() || matches!(char, '-' | '.')));
            let number = &rest[..end.unwrap_or(rest.len())];
            if number.parse::<f64>().is_err() || rest[number.len()..].starts_with(is_in_ident) {
                return Err(self.error("no match found, expected a number"));
            }
            self.at += number.len();
            return Ok((None, number.to_owned()));
        }
        let Some(first) = self.ident() else {
            return Err(self.error("no match found, expected a selector, a value, \"not\" or \"(\""));
        };
        let mut steps = vec![first.to_owned()];
        loop {
            if steps.len() > STEPS_MAX {
                return Err(self.error(format!("a selector has at most {STEPS_MAX} parts")));
            }
            if self.rest().starts_with('.') {
                self.at += 1;
                let rest = self.rest();
                let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
                let step = match self.ident() {
                    Some(step) => step,
                    None if digits > 0 => {
                        self.at += digits;
                        &rest[..digits]
                    }
                    None => return Err(self.error("no match found, expected a name or a number")),
                };
                steps.push(step.to_owned());
            } else if self.rest().starts_with('[') {
                self.at += 1;
                let key = self.quoted()?;
                steps.push(key.ok_or_else(|| self.error("no match found, expected a quoted key"))?);
                if !self.rest().starts_with(']') {
                    return Err(self.error("no match found, expected \"]\""));
                }
                self.at += 1;
            } else {
                return Ok((Some(steps), self.text[begin..self.at].to_owned()));
            }
        }
    }

    fn ident(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        if !rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return None;
        }
        let end = rest.find(|char| !is_in_ident(char)).unwrap_or(rest.len());
        self.at += end;
        Some(&rest[..end])
    }

    fn quoted(&mut self) -> Result<Option<String>, SyntaxError> {
        let rest = self.rest();
        let Some(quote) = rest.chars().next().filter(|first| matches!(first, '"' | '`')) else {
            return Ok(None);
        };
        let (mut text, mut is_escaped) = (String::new(), false);
        for (at, char) in rest.char_indices().skip(1) {
            match char {
                char if is_escaped => {
                    is_escaped = false;
                    match char {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        '"' | '\\' => text.push(char),
                        // Regular expressions contain other escapes, so these stay as they are.
                        other => text.extend(['\\', other]),
                    }
                }
                '\\' if quote == '"' => is_escaped = true,
                char if char == quote => {
                    self.at += at + quote.len_utf8();
                    return Ok(Some(text));
                }
                char => text.push(char),
            }
        }
        Err(self.error("string literal not terminated"))
    }
}

fn is_in_ident(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '/')
}
