//! Parser of templates: text with `${…}` and `%{…}`, in quotes, as a heredoc, or bare (§2).
//!
//! Strip markers remove the white space of the adjacent text. In a heredoc that is white space of the same line, because
//! each line is a piece of its own. Common indentation is removed from heredocs afterwards.

use super::{
    Expression, ForPart, Interpolation, Kind as Form, Part,
    cursor::{Cursor, Parsed, fail, invalid_tokens},
    expressions,
    scanner::scan_bare_template,
    tokens::{Token, TokenKind as Kind},
};
use crate::{fault::Fault, position::At};

/// Parses a label, which is quoted text without sequences. The opening quote has been consumed.
pub(super) fn label(cursor: &mut Cursor<'_>, open: Token) -> Parsed<(String, At)> {
    let mut label = String::new();
    loop {
        let token = cursor.read();
        match token.kind {
            Kind::QuotedText => label.push_str(&unescape(cursor.slice(token), token.at())?),
            Kind::CloseQuote => return Ok((label, open.start as usize..token.end as usize)),
            Kind::End => {
                let detail = "the quotes around this label are not closed";
                return fail(open.at(), "Unterminated string literal", detail);
            }
            _ => {
                let detail =
                    "a label must be plain text; to write a dollar sign before a brace, double it: $${";
                return fail(token.at(), "Invalid string literal", detail);
            }
        }
    }
}

/// Parses a template in quotes or in a heredoc.
pub(super) fn template(cursor: &mut Cursor<'_>) -> Parsed<Expression> {
    let open = cursor.read();
    let close = if open.kind == Kind::OpenQuote { Kind::CloseQuote } else { Kind::CloseHeredoc };
    let mut pieces = pieces(cursor, close, open)?;
    if open.kind == Kind::OpenHeredoc && cursor.slice(open).starts_with("<<-") {
        dedent(&mut pieces);
    }
    let at = open.start as usize..cursor.previous().end;
    assemble(pieces, at, cursor.previous())
}

/// Parses a text in JSON as a template. All positions in it are those of the whole text.
pub(crate) fn json_template(text: &str, at: At) -> Parsed<Expression> {
    if !text.contains("${") && !text.contains("%{") {
        return Ok(Expression { at, kind: Form::Text(text.to_owned()) });
    }
    let tokens = scan_bare_template(text);
    invalid_tokens(text, &tokens).map_err(|fault| relocated(fault, &at))?;
    let mut cursor = Cursor::new(text, tokens);
    let open = cursor.peek();
    let parsed =
        pieces(&mut cursor, Kind::End, open).and_then(|pieces| assemble(pieces, 0..text.len(), 0..0));
    let inner = parsed.map_err(|fault| relocated(fault, &at))?;
    Ok(Expression { at, kind: Form::Decoded(Box::new(inner)) })
}

fn relocated(mut fault: Box<Fault>, at: &At) -> Box<Fault> {
    fault.at = Some(at.clone());
    fault
}

/// Assembles a template from its pieces. `end` is the end of the template, where missing directives are reported.
fn assemble(pieces: Vec<Piece>, at: At, end: At) -> Parsed<Expression> {
    let mut parts = Assembler { pieces: pieces.into_iter().peekable(), end }.parts(&[])?;
    let kind = match (parts.pop(), parts.is_empty()) {
        (None, _) => Form::Text(String::new()),
        (Some(Part::Text(text)), true) => Form::Text(text),
        (Some(Part::Interpolation(inner)), true) => Form::Wrapped(Box::new(inner)),
        (Some(last), _) => {
            parts.push(last);
            Form::Template(parts)
        }
    };
    Ok(Expression { at, kind })
}

/// A piece of a template, before directives are combined with their contents.
enum Piece {
    Text(String),
    Interpolation(Interpolation),
    If(Expression),
    Else(At),
    EndIf(At),
    For(Box<ForPart>),
    EndFor(At),
}

/// Parses pieces up to the token that ends the template.
fn pieces(cursor: &mut Cursor<'_>, close: Kind, open: Token) -> Parsed<Vec<Piece>> {
    let mut pieces = Vec::new();
    // The number of directives whose ends have not been read.
    let mut directives = 0;
    // Whether a marker strips the following white space.
    let mut strips_next = false;
    loop {
        let token = cursor.read();
        let strips = std::mem::take(&mut strips_next);
        match token.kind {
            kind if kind == close => {
                cursor.leave(directives);
                return Ok(pieces);
            }
            Kind::QuotedText | Kind::HeredocText => {
                let text = match (token.kind, close) {
                    (Kind::QuotedText, Kind::CloseQuote) => unescape(cursor.slice(token), token.at())?,
                    _ => unescape_signs(cursor.slice(token)),
                };
                pieces.push(Piece::Text(if strips { text.trim_start().to_owned() } else { text }));
            }
            Kind::Interpolation | Kind::Directive => {
                if token.end - token.start == 3
                    && let Some(Piece::Text(text)) = pieces.last_mut()
                {
                    text.truncate(text.trim_end().len());
                }
                let piece =
                    cursor.deeper(|cursor| cursor.with_newlines(false, |cursor| sequence(cursor, token)))?;
                match &piece {
                    Piece::If(_) | Piece::For(_) => {
                        cursor.enter()?;
                        directives += 1;
                    }
                    // An end without a beginning is reported when the template is assembled.
                    Piece::EndIf(_) | Piece::EndFor(_) if directives > 0 => {
                        cursor.leave(1);
                        directives -= 1;
                    }
                    Piece::EndIf(_)
                    | Piece::EndFor(_)
                    | Piece::Else(_)
                    | Piece::Text(_)
                    | Piece::Interpolation(_) => {}
                }
                pieces.push(piece);
                strips_next = cursor.text.as_bytes()[cursor.previous().start] == b'~';
            }
            Kind::End => {
                let line = cursor.text[..open.start as usize].matches('\n').count() + 1;
                let detail = match close {
                    Kind::CloseHeredoc => {
                        let word = cursor.slice(open).trim_start_matches(['<', '-']).trim_end();
                        format!("the heredoc of line {line} must end with a line that contains only {word}")
                    }
                    _ => format!("the quotes of line {line} are not closed"),
                };
                return fail(token.at(), "Unterminated template string", detail);
            }
            _ => return fail(token.at(), "Invalid template", "this is not allowed in a text"),
        }
    }
}

fn sequence(cursor: &mut Cursor<'_>, open: Token) -> Parsed<Piece> {
    if open.kind == Kind::Interpolation {
        if cursor.peek_kind() == Kind::SequenceEnd {
            let detail = "an expression is expected between ${ and }; to write ${ as text, double the dollar sign: $${";
            return fail(cursor.peek().at(), "Invalid expression", detail);
        }
        let expression = expressions::any(cursor)?;
        end_sequence(cursor, "Extra characters after interpolation expression")?;
        let padding = match expression.kind {
            Form::Name(_) | Form::Traversal(..) => {
                let close = cursor.previous();
                let strips = (open.end - open.start == 3, close.len() == 2);
                let before = spaces(cursor, open.end as usize..expression.at.start);
                let after = spaces(cursor, expression.at.end..close.start);
                (
                    before.filter(|_| !strips.0).unwrap_or_default(),
                    after.filter(|_| !strips.1).unwrap_or_default(),
                )
            }
            _ => <(String, String)>::default(),
        };
        return Ok(Piece::Interpolation(Interpolation { expression, padding }));
    }
    const SUMMARY: &str = "Invalid template directive";
    let word = cursor.read();
    if word.kind != Kind::Name {
        let detail = "if, else, endif, for or endfor is expected after %{; to write %{ as text, double the percent sign: %%{";
        return fail(word.at(), SUMMARY, detail);
    }
    let piece = match cursor.slice(word) {
        "if" => Piece::If(expressions::any(cursor)?),
        "else" => Piece::Else(open.at()),
        "endif" => Piece::EndIf(open.at()),
        "for" => {
            let (key, value, collection) = expressions::for_introduction(cursor, "Invalid 'for' directive")?;
            Piece::For(Box::new(ForPart { key, value, collection, parts: Vec::new() }))
        }
        "endfor" => Piece::EndFor(open.at()),
        other => {
            let detail =
                format!("{other:?} is not a directive; directives are if, else, endif, for and endfor");
            return fail(word.at(), SUMMARY, detail);
        }
    };
    end_sequence(cursor, "Extra characters in template directive")?;
    Ok(piece)
}

/// The text between a reference and its brace, if it is white space only.
fn spaces(cursor: &Cursor<'_>, at: At) -> Option<String> {
    let between = &cursor.text[at];
    between.trim().is_empty().then(|| between.to_owned())
}

fn end_sequence(cursor: &mut Cursor<'_>, summary: &'static str) -> Parsed<()> {
    let close = cursor.peek();
    if close.kind != Kind::SequenceEnd {
        let detail =
            "a closing brace is expected here; to write ${ or %{ as text, double the first character";
        return fail(close.at(), summary, detail);
    }
    cursor.read();
    Ok(())
}

/// Combines directives with their contents. The cursor has limited their nesting.
struct Assembler {
    pieces: std::iter::Peekable<std::vec::IntoIter<Piece>>,
    end: At,
}

impl Assembler {
    /// Parts up to one of the directives in `until`, which is not consumed.
    fn parts(&mut self, until: &[&str]) -> Parsed<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::new();
        loop {
            if let Some((name, at)) = self.pieces.peek().and_then(Piece::as_end) {
                if until.contains(&name) {
                    return Ok(parts);
                }
                let detail = format!("%{{ {name} }} has no matching directive");
                return fail(at, "Unexpected directive", detail);
            }
            match self.pieces.next() {
                None => return Ok(parts),
                Some(Piece::Text(text)) => match parts.last_mut() {
                    Some(Part::Text(before)) => before.push_str(&text),
                    _ => parts.push(Part::Text(text)),
                },
                Some(Piece::Interpolation(inner)) => parts.push(Part::Interpolation(inner)),
                Some(Piece::If(condition)) => {
                    let chosen = self.parts(&["else", "endif"])?;
                    let mut other = Vec::new();
                    if matches!(self.pieces.peek(), Some(Piece::Else(_))) {
                        self.pieces.next();
                        other = self.parts(&["endif"])?;
                    }
                    self.end("if")?;
                    parts.push(Part::If(condition, chosen, other));
                }
                Some(Piece::For(mut part)) => {
                    part.parts = self.parts(&["endfor"])?;
                    self.end("for")?;
                    parts.push(Part::For(part));
                }
                Some(Piece::Else(_) | Piece::EndIf(_) | Piece::EndFor(_)) => {
                    unreachable!("closing directives are handled above")
                }
            }
        }
    }

    fn end(&mut self, what: &str) -> Parsed<()> {
        match self.pieces.next() {
            Some(_) => Ok(()),
            None => {
                let detail = format!("%{{ end{what} }} is missing");
                fail(self.end.clone(), "Unexpected end of template", detail)
            }
        }
    }
}

impl Piece {
    fn as_end(&self) -> Option<(&'static str, At)> {
        match self {
            Piece::Else(at) => Some(("else", at.clone())),
            Piece::EndIf(at) => Some(("endif", at.clone())),
            Piece::EndFor(at) => Some(("endfor", at.clone())),
            Piece::Text(_) | Piece::Interpolation(_) | Piece::If(_) | Piece::For(_) => None,
        }
    }
}

/// Removes the common indentation of all lines. Lines of white space only are ignored and stay unchanged.
fn dedent(pieces: &mut [Piece]) {
    let mut common = usize::MAX;
    let mut indented = Vec::new();
    let mut at_line_start = true;
    for (at, piece) in pieces.iter().enumerate() {
        let text = if let Piece::Text(text) = piece { Some(text.as_str()) } else { None };
        if at_line_start {
            let is_blank = text.is_some_and(|text| text.trim().is_empty() && text.ends_with('\n'));
            if !is_blank {
                let width = |text: &str| text.chars().take_while(|c| c.is_whitespace()).count();
                common = common.min(text.map_or(0, width));
                indented.push(at);
            }
        }
        at_line_start = text.is_some_and(|text| text.ends_with('\n'));
    }
    for at in indented {
        if let Piece::Text(text) = &mut pieces[at] {
            let from = text.char_indices().nth(common).map_or(text.len(), |(at, _)| at);
            text.drain(..from);
        }
    }
}

/// Text outside of quotes, where only doubled signs are escapes.
fn unescape_signs(text: &str) -> String {
    text.replace("$${", "${").replace("%%{", "%{")
}

/// Decodes the escapes in quoted text.
fn unescape(text: &str, at: At) -> Parsed<String> {
    if !text.contains(['\\', '$', '%']) {
        return Ok(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.find(['\\', '$', '%']) {
        plain.push_str(&rest[..next]);
        rest = &rest[next..];
        if let Some(after) = rest.strip_prefix("$${") {
            plain.push_str("${");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("%%{") {
            plain.push_str("%{");
            rest = after;
        } else if let Some(after) = rest.strip_prefix('\\') {
            let start = at.start + text.len() - rest.len();
            let (character, length) = escape(after, start)?;
            plain.push(character);
            rest = &after[length..];
        } else {
            plain.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    plain.push_str(rest);
    Ok(plain)
}

/// Decodes the escape after a backslash at `start`. Returns the character and the length of the escape in bytes.
fn escape(text: &str, start: usize) -> Parsed<(char, usize)> {
    let invalid =
        |length: usize, detail: &str| fail(start..start + 1 + length, "Invalid escape sequence", detail);
    let digits = |count: usize| {
        let code = text.get(1..=count).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code.and_then(char::from_u32) {
            Some(character) => Ok((character, 1 + count)),
            None => invalid(
                1,
                "\\u needs four hexadecimal digits and \\U needs eight, which must be the code of a character",
            ),
        }
    };
    match text.chars().next() {
        Some('n') => Ok(('\n', 1)),
        Some('r') => Ok(('\r', 1)),
        Some('t') => Ok(('\t', 1)),
        Some('"') => Ok(('"', 1)),
        Some('\\') => Ok(('\\', 1)),
        Some('u') => digits(4),
        Some('U') => digits(8),
        other => invalid(
            other.map_or(0, char::len_utf8),
            "escapes are \\n, \\r, \\t, \\\", \\\\, \\uXXXX and \\UXXXXXXXX; to write a backslash, double it",
        ),
    }
}
