//! Parser of expressions, from conditionals down to names and literals (§3).

use super::{
    Binary, Call, Chain, Expression, For, Kind as Form, Step, Unary,
    cursor::{Cursor, Parsed, fail, invalid_tokens},
    scanner::scan,
    templates,
    tokens::{Token, TokenKind as Kind},
};
use crate::{number::Number, position::At, shown::quoted};

/// Parses a text that contains one expression.
pub(crate) fn expression(text: &str) -> Parsed<Expression> {
    let tokens = scan(text);
    invalid_tokens(text, &tokens)?;
    let mut cursor = Cursor::new(text, tokens);
    cursor.with_newlines(false, |cursor| {
        let expression = any(cursor)?;
        let end = cursor.peek();
        if end.kind != Kind::End {
            return fail(
                end.at(),
                "Extra characters after expression",
                "the expression has ended before this",
            );
        }
        Ok(expression)
    })
}

fn joined(from: &At, to: &At) -> At {
    from.start..to.end
}

/// Parses any expression.
pub(super) fn any(cursor: &mut Cursor<'_>) -> Parsed<Expression> {
    cursor.deeper(|cursor| {
        let condition = operation(cursor, 0)?;
        if cursor.read_if(Kind::Question).is_none() {
            return Ok(condition);
        }
        let chosen = any(cursor)?;
        let colon = cursor.peek();
        if colon.kind != Kind::Colon {
            let detail = "a conditional needs a colon and a second result: condition ? result : other result";
            return fail(colon.at(), "Missing false expression in conditional", detail);
        }
        cursor.read();
        let other = any(cursor)?;
        let at = joined(&condition.at, &other.at);
        Ok(Expression { at, kind: Form::Conditional(Box::new([condition, chosen, other])) })
    })
}

/// The operator of a token and its precedence.
fn operator(kind: Kind) -> Option<(Binary, u8)> {
    Some(match kind {
        Kind::Or => (Binary::Or, 1),
        Kind::And => (Binary::And, 2),
        Kind::Equal => (Binary::Equal, 3),
        Kind::NotEqual => (Binary::NotEqual, 3),
        Kind::Less => (Binary::Less, 4),
        Kind::LessOrEqual => (Binary::LessOrEqual, 4),
        Kind::Greater => (Binary::Greater, 4),
        Kind::GreaterOrEqual => (Binary::GreaterOrEqual, 4),
        Kind::Plus => (Binary::Plus, 5),
        Kind::Minus => (Binary::Minus, 5),
        Kind::Star => (Binary::Times, 6),
        Kind::Slash => (Binary::Divide, 6),
        Kind::Percent => (Binary::Remainder, 6),
        _ => return None,
    })
}

/// Parses operands and the operators between them with a precedence higher than `above`.
fn operation(cursor: &mut Cursor<'_>, above: u8) -> Parsed<Expression> {
    let first = with_steps(cursor)?;
    let mut rest = Vec::new();
    while let Some((operator, strength)) = operator(cursor.peek_kind()).filter(|(_, it)| *it > above) {
        cursor.read();
        rest.push((operator, cursor.deeper(|cursor| operation(cursor, strength))?));
    }
    let Some((_, last)) = rest.last() else { return Ok(first) };
    let at = joined(&first.at, &last.at);
    Ok(Expression { at, kind: Form::Chain(Box::new(Chain { first, rest })) })
}

/// Parses a term and the steps after it.
fn with_steps(cursor: &mut Cursor<'_>) -> Parsed<Expression> {
    let term = term(cursor)?;
    let (steps, end) = steps(cursor, true)?;
    let Some(end) = end else { return Ok(term) };
    let at = joined(&term.at, &end);
    let written = match &term.kind {
        // The parser evaluates the steps after a splat, even if only the node can resolve the name.
        Form::Name(_) => {
            let splat = steps.iter().find_map(|step| match step {
                Step::Splat(_, at) => Some(at.start),
                Step::Attribute(..) | Step::LegacyIndex(..) | Step::Index(..) => None,
            });
            cursor.text[at.start..splat.unwrap_or(at.end)].trim_end().to_owned()
        }
        _ => String::new(),
    };
    Ok(Expression { at, kind: Form::Traversal(Box::new(term), steps, written) })
}

/// Parses steps, and returns them with the range of the last. In the steps after `.*`, indexes do not apply to each element.
fn steps(cursor: &mut Cursor<'_>, with_indexes: bool) -> Parsed<(Vec<Step>, Option<At>)> {
    let mut steps = Vec::new();
    let mut end = None;
    loop {
        match cursor.peek_kind() {
            Kind::Dot => step_by_dot(cursor, &mut steps)?,
            Kind::OpenBracket if with_indexes => steps.push(step_by_bracket(cursor)?),
            _ => return Ok((steps, end)),
        }
        end = Some(cursor.previous());
    }
}

fn step_by_dot(cursor: &mut Cursor<'_>, steps: &mut Vec<Step>) -> Parsed<()> {
    let dot = cursor.read().at();
    let token = cursor.peek();
    match token.kind {
        Kind::Name => {
            cursor.read();
            steps.push(Step::Attribute(cursor.slice(token).to_owned()));
        }
        Kind::Number => {
            cursor.read();
            // Two indexes look like a decimal fraction.
            for digits in cursor.slice(token).split('.') {
                let Some(index) =
                    Number::parse(digits).filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
                else {
                    return fail(
                        token.at(),
                        "Invalid legacy index syntax",
                        "an index must be a whole number",
                    );
                };
                steps.push(Step::LegacyIndex(index, joined(&dot, &token.at())));
            }
        }
        Kind::Star => {
            cursor.read();
            let (inner, _) = cursor.deeper(|cursor| self::steps(cursor, false))?;
            steps.push(Step::Splat(inner, joined(&dot, &cursor.previous())));
        }
        _ => return fail(token.at(), "Invalid attribute name", "a name is expected after a dot"),
    }
    Ok(())
}

fn step_by_bracket(cursor: &mut Cursor<'_>) -> Parsed<Step> {
    let open = cursor.read().at();
    let step = cursor.with_newlines(false, |cursor| {
        if cursor.read_if(Kind::Star).is_some() {
            close_index(cursor, "Missing close bracket on splat index")?;
            return Ok(None);
        }
        let index = any(cursor)?;
        close_index(cursor, "Missing close bracket on index")?;
        Ok(Some(index))
    })?;
    match step {
        Some(index) => Ok(Step::Index(index, joined(&open, &cursor.previous()))),
        None => {
            let (inner, _) = cursor.deeper(|cursor| steps(cursor, true))?;
            Ok(Step::Splat(inner, joined(&open, &cursor.previous())))
        }
    }
}

fn close_index(cursor: &mut Cursor<'_>, summary: &'static str) -> Parsed<()> {
    let close = cursor.peek();
    if close.kind != Kind::CloseBracket {
        return fail(close.at(), summary, "an index must end with a closing bracket: ]");
    }
    cursor.read();
    Ok(())
}

fn term(cursor: &mut Cursor<'_>) -> Parsed<Expression> {
    let token = cursor.peek();
    match token.kind {
        Kind::OpenParenthesis => parenthesis(cursor),
        Kind::Number => {
            cursor.read();
            let digits = cursor.slice(token);
            match Number::parse(digits) {
                Some(number) => Ok(Expression { at: token.at(), kind: Form::Number(number) }),
                None => {
                    let detail = format!("{} is not a number, or too large or too long", quoted(digits));
                    fail(token.at(), "Invalid number literal", detail)
                }
            }
        }
        Kind::Name => name(cursor),
        Kind::OpenQuote | Kind::OpenHeredoc => templates::template(cursor),
        Kind::Minus => unary(cursor, Unary::Negate),
        Kind::Not => unary(cursor, Unary::Not),
        Kind::OpenBracket => tuple(cursor),
        Kind::OpenBrace => object(cursor),
        Kind::End => fail(token.at(), "Missing expression", "a value is expected before the end of the text"),
        Kind::Newline => fail(token.at(), "Invalid expression", "a value is expected on this line"),
        _ => {
            let detail = format!("a value is expected here, not {}", quoted(cursor.slice(token)));
            fail(token.at(), "Invalid expression", detail)
        }
    }
}

fn unary(cursor: &mut Cursor<'_>, operator: Unary) -> Parsed<Expression> {
    let sign = cursor.read().at();
    let operand = cursor.deeper(with_steps)?;
    Ok(Expression { at: joined(&sign, &operand.at), kind: Form::Unary(operator, Box::new(operand)) })
}

fn parenthesis(cursor: &mut Cursor<'_>) -> Parsed<Expression> {
    let open = cursor.read().at();
    let inner = cursor.with_newlines(false, |cursor| {
        let inner = any(cursor)?;
        let close = cursor.peek();
        if close.kind != Kind::CloseParenthesis {
            return fail(close.at(), "Unbalanced parentheses", "a closing parenthesis is expected here");
        }
        cursor.read();
        Ok(inner)
    })?;
    Ok(Expression { at: joined(&open, &cursor.previous()), kind: Form::Parenthesis(Box::new(inner)) })
}

fn name(cursor: &mut Cursor<'_>) -> Parsed<Expression> {
    let token = cursor.read();
    let name = cursor.slice(token);
    if cursor.peek_kind() == Kind::OpenParenthesis {
        return call(cursor, token);
    }
    let kind = match name {
        "true" => Form::Bool(true),
        "false" => Form::Bool(false),
        "null" => Form::Null,
        _ => Form::Name(name.to_owned()),
    };
    Ok(Expression { at: token.at(), kind })
}

fn call(cursor: &mut Cursor<'_>, name: Token) -> Parsed<Expression> {
    let open = cursor.read();
    let (arguments, spread) = cursor.with_newlines(false, |cursor| {
        let mut arguments = Vec::new();
        loop {
            if cursor.read_if(Kind::CloseParenthesis).is_some() {
                return Ok((arguments, false));
            }
            arguments.push(any(cursor)?);
            let separator = cursor.read();
            match separator.kind {
                Kind::CloseParenthesis => return Ok((arguments, false)),
                Kind::Comma => {}
                Kind::Ellipsis => {
                    let close = cursor.peek();
                    if close.kind != Kind::CloseParenthesis {
                        let detail = "a closing parenthesis is expected after an argument with ...";
                        return fail(close.at(), "Missing closing parenthesis", detail);
                    }
                    cursor.read();
                    return Ok((arguments, true));
                }
                Kind::End => {
                    let at = joined(&name.at(), &open.at());
                    let detail = "the closing parenthesis of this call is missing";
                    return fail(at, "Unterminated function call", detail);
                }
                _ => {
                    let detail = "arguments are separated by commas";
                    return fail(separator.at(), "Missing argument separator", detail);
                }
            }
        }
    })?;
    let call = Call { name: cursor.slice(name).to_owned(), name_at: name.at(), arguments, spread };
    Ok(Expression { at: joined(&name.at(), &cursor.previous()), kind: Form::Call(Box::new(call)) })
}

fn tuple(cursor: &mut Cursor<'_>) -> Parsed<Expression> {
    let open = cursor.read();
    let kind = cursor.with_newlines(false, |cursor| {
        if cursor.is_word("for") {
            return for_expression(cursor, false);
        }
        let mut items = Vec::new();
        loop {
            if cursor.read_if(Kind::CloseBracket).is_some() {
                return Ok(Form::Tuple(items));
            }
            items.push(any(cursor)?);
            let separator = cursor.peek();
            match separator.kind {
                Kind::CloseBracket => {}
                Kind::Comma => {
                    cursor.read();
                }
                Kind::End => {
                    let detail = "the closing bracket of this list is missing";
                    return fail(open.at(), "Unterminated tuple constructor expression", detail);
                }
                _ => {
                    let detail = "a comma is expected between the items of a list";
                    return fail(separator.at(), "Missing item separator", detail);
                }
            }
        }
    })?;
    Ok(Expression { at: joined(&open.at(), &cursor.previous()), kind })
}

fn object(cursor: &mut Cursor<'_>) -> Parsed<Expression> {
    let open = cursor.read();
    let is_for = cursor.with_newlines(false, |cursor| Ok(cursor.is_word("for")))?;
    let kind = if is_for {
        cursor.with_newlines(false, |cursor| for_expression(cursor, true))?
    } else {
        cursor.with_newlines(true, |cursor| members(cursor, open))?
    };
    Ok(Expression { at: joined(&open.at(), &cursor.previous()), kind })
}

fn members(cursor: &mut Cursor<'_>, open: Token) -> Parsed<Form> {
    let unterminated = || {
        let detail = "the closing brace of this object is missing";
        fail(open.at(), "Unterminated object constructor expression", detail)
    };
    let mut members = Vec::new();
    loop {
        match cursor.peek_kind() {
            Kind::Newline => {
                cursor.read();
                continue;
            }
            Kind::CloseBrace => {
                cursor.read();
                return Ok(Form::Object(members));
            }
            _ => {}
        }
        let key = any(cursor)?;
        let separator = cursor.peek();
        match separator.kind {
            Kind::Assign | Kind::Colon => {}
            Kind::End => return unterminated(),
            Kind::Newline | Kind::Comma => {
                let detail = "a value is expected after the key: key = value";
                return fail(separator.at(), "Missing attribute value", detail);
            }
            _ => {
                let detail =
                    "an equals sign is expected after the key; put a key with dots or spaces in quotes";
                return fail(separator.at(), "Missing key/value separator", detail);
            }
        }
        cursor.read();
        let value = any(cursor)?;
        members.push((key, value));
        let separator = cursor.peek();
        match separator.kind {
            Kind::CloseBrace => {}
            Kind::Comma | Kind::Newline => {
                cursor.read();
            }
            Kind::End => return unterminated(),
            _ => {
                let detail = "a line break or a comma is expected between the members of an object";
                return fail(separator.at(), "Missing attribute separator", detail);
            }
        }
    }
}

/// Parses the names after `for`, and the collection after `in`.
pub(super) fn for_introduction(
    cursor: &mut Cursor<'_>,
    summary: &'static str,
) -> Parsed<(Option<String>, String, Expression)> {
    let name = |cursor: &mut Cursor<'_>| match cursor.peek() {
        token if token.kind == Kind::Name => {
            cursor.read();
            Ok(cursor.slice(token).to_owned())
        }
        token => fail(token.at(), summary, "a name for the elements is expected after \"for\""),
    };
    let mut key = None;
    let mut value = name(cursor)?;
    if cursor.read_if(Kind::Comma).is_some() {
        key = Some(value);
        value = name(cursor)?;
    }
    if !cursor.is_word("in") {
        return fail(cursor.peek().at(), summary, "\"in\" is expected after the names");
    }
    cursor.read();
    let collection = any(cursor)?;
    Ok((key, value, collection))
}

fn for_expression(cursor: &mut Cursor<'_>, is_object: bool) -> Parsed<Form> {
    const SUMMARY: &str = "Invalid 'for' expression";
    cursor.read();
    let (key, value, collection) = for_introduction(cursor, SUMMARY)?;
    let colon = cursor.read();
    if colon.kind != Kind::Colon {
        return fail(colon.at(), SUMMARY, "a colon is expected after the collection");
    }
    let mut result = any(cursor)?;
    let (mut key_result, mut grouping) = (None, false);
    if let Some(arrow) = cursor.read_if(Kind::Arrow) {
        if !is_object {
            return fail(arrow.at(), SUMMARY, "only an object has keys: { for … : key => value }");
        }
        key_result = Some(result);
        result = any(cursor)?;
        grouping = cursor.read_if(Kind::Ellipsis).is_some();
    } else if is_object {
        return fail(cursor.peek().at(), SUMMARY, "an object needs a key for each value: key => value");
    }
    let condition = if cursor.is_word("if") {
        cursor.read();
        Some(any(cursor)?)
    } else {
        None
    };
    let close = cursor.read();
    let wanted = if is_object { Kind::CloseBrace } else { Kind::CloseBracket };
    if close.kind != wanted {
        return fail(close.at(), SUMMARY, "the expression should end before this");
    }
    Ok(Form::For(Box::new(For { key, value, collection, key_result, result, condition, grouping })))
}
