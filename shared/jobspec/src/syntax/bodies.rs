//! Parser of attributes and blocks.

use std::{collections::BTreeSet, rc::Rc};

use super::{
    Attribute, Block, Body, NativeBody,
    cursor::{Cursor, Parsed, fail, invalid_tokens},
    expressions,
    scanner::scan,
    templates,
    tokens::{Token, TokenKind as Kind},
};

/// Parses a file.
pub(crate) fn file(text: &str) -> Parsed<Body> {
    literal_body(text).map(|body| Body::Native(Rc::new(body)))
}

/// Parses a text that may only contain attributes, such as `name = 1`.
pub(crate) fn literal_body(text: &str) -> Parsed<NativeBody> {
    let tokens = scan(text);
    invalid_tokens(text, &tokens)?;
    body(&mut Cursor::new(text, tokens), None)
}

/// Parses a text of attributes only, in which a name may occur several times: the texts of several files, one after another.
pub(crate) fn repeatable_attributes(text: &str) -> Parsed<Vec<Attribute>> {
    let tokens = scan(text);
    invalid_tokens(text, &tokens)?;
    let cursor = &mut Cursor::new(text, tokens);
    let mut attributes = Vec::new();
    loop {
        let token = cursor.read();
        match token.kind {
            Kind::Newline => {}
            Kind::End => return Ok(attributes),
            Kind::Name => match item(cursor, token, false)? {
                Item::Attribute(attribute) => attributes.push(attribute),
                Item::Block(block) => {
                    return fail(block.kind_at, "Unsupported block type", "only arguments are expected here");
                }
            },
            _ => return fail(token.at(), "Argument definition required", expected(cursor, token)),
        }
    }
}

/// Parses the contents of a file, or of a block up to its closing brace. `opened` is the block's opening brace.
fn body(cursor: &mut Cursor<'_>, opened: Option<Token>) -> Parsed<NativeBody> {
    let mut body = NativeBody::default();
    let mut names = BTreeSet::new();
    loop {
        let token = cursor.read();
        match (token.kind, opened) {
            (Kind::Newline, _) => {}
            (Kind::Name, _) => match item(cursor, token, false)? {
                Item::Attribute(attribute) => {
                    if !names.insert(attribute.name.clone()) {
                        let detail =
                            format!("{:?} is already set; each argument may be set once", attribute.name);
                        return fail(attribute.name_at, "Attribute redefined", detail);
                    }
                    body.attributes.push(attribute);
                }
                Item::Block(block) => body.blocks.push(block),
            },
            (Kind::CloseBrace, Some(_)) | (Kind::End, None) => return Ok(body),
            (Kind::End, Some(opened)) => {
                let detail =
                    "the closing brace of this block is missing, or a brace in the block is missing or extra";
                return fail(opened.at(), "Unclosed configuration block", detail);
            }
            (Kind::OpenQuote, _) => {
                return fail(token.at(), "Invalid argument name", "argument names have no quotes");
            }
            _ => {
                return fail(token.at(), "Argument or block definition required", expected(cursor, token));
            }
        }
    }
}

fn expected(cursor: &Cursor<'_>, token: Token) -> String {
    match token.kind {
        Kind::CloseBrace => {
            "this brace closes no block; one is missing above, or this is one too many".to_owned()
        }
        _ => format!("neither an argument nor a block can begin with {:?}", cursor.slice(token)),
    }
}

enum Item {
    Attribute(Attribute),
    Block(Block),
}

/// Parses an attribute or a block, which begins with a name.
fn item(cursor: &mut Cursor<'_>, name: Token, on_one_line: bool) -> Parsed<Item> {
    let next = cursor.peek();
    match next.kind {
        Kind::Assign => {
            cursor.read();
            attribute(cursor, name, on_one_line).map(Item::Attribute)
        }
        Kind::OpenQuote | Kind::OpenBrace | Kind::Name if on_one_line => {
            let detail = "a block on one line may contain one argument; give this block a line of its own";
            fail(name.start as usize..next.end as usize, "Invalid single-argument block definition", detail)
        }
        Kind::OpenQuote | Kind::OpenBrace | Kind::Name => block(cursor, name).map(Item::Block),
        Kind::Equal | Kind::Colon => fail(
            name.at(),
            "Argument or block definition required",
            format!("set an argument with one equals sign: {} = …", cursor.slice(name)),
        ),
        _ => fail(
            name.at(),
            "Argument or block definition required",
            format!(
                "{0:?} is incomplete; write an argument as {0} = …, or a block as {0} {{ … }}",
                cursor.slice(name)
            ),
        ),
    }
}

fn attribute(cursor: &mut Cursor<'_>, name: Token, on_one_line: bool) -> Parsed<Attribute> {
    let value = expressions::any(cursor)?;
    if !on_one_line {
        let end = cursor.peek();
        match end.kind {
            Kind::Newline | Kind::End => {
                cursor.read();
            }
            Kind::Comma => {
                let detail = "arguments are separated by line breaks, not by commas";
                return fail(end.at(), "Unexpected comma after argument", detail);
            }
            _ => {
                let detail = format!("an argument must end with the line, before {}", quoted(cursor, end));
                return fail(end.at(), "Missing newline after argument", detail);
            }
        }
    }
    Ok(Attribute { name: cursor.slice(name).to_owned(), name_at: name.at(), value: Rc::new(value) })
}

fn quoted(cursor: &Cursor<'_>, token: Token) -> String {
    format!("{:?}", cursor.slice(token))
}

fn block(cursor: &mut Cursor<'_>, kind: Token) -> Parsed<Block> {
    let invalid = |at, detail: String| fail(at, "Invalid block definition", detail);
    let mut labels = Vec::new();
    let opened = loop {
        let token = cursor.read();
        match token.kind {
            Kind::OpenBrace => break token,
            Kind::OpenQuote => labels.push(templates::label(cursor, token)?),
            Kind::Name => labels.push((cursor.slice(token).to_owned(), token.at())),
            Kind::Assign => {
                let detail = "an argument has no labels; if this is a block, leave out the equals sign";
                return invalid(token.at(), detail.to_owned());
            }
            Kind::Newline | Kind::End => {
                let detail = format!(
                    "the block {} has no body: {{ is expected on the same line",
                    quoted(cursor, kind)
                );
                return invalid(token.at(), detail);
            }
            _ => {
                let detail =
                    format!("a label in quotes or {{ is expected here, not {}", quoted(cursor, token));
                return invalid(token.at(), detail);
            }
        }
    };
    let body = cursor.deeper(|cursor| match cursor.peek_kind() {
        Kind::Newline | Kind::End | Kind::CloseBrace => body(cursor, Some(opened)),
        _ => one_line_body(cursor),
    })?;
    let end = cursor.peek();
    if !matches!(end.kind, Kind::Newline | Kind::End) {
        let detail = format!("a block must end with the line, before {}", quoted(cursor, end));
        return fail(end.at(), "Missing newline after block definition", detail);
    }
    cursor.read();
    let name = cursor.slice(kind).to_owned();
    Ok(Block { kind: name, kind_at: kind.at(), labels, body: Body::Native(Rc::new(body)) })
}

/// Parses the argument of a block that begins and ends on the same line.
fn one_line_body(cursor: &mut Cursor<'_>) -> Parsed<NativeBody> {
    let name = cursor.read();
    if name.kind != Kind::Name {
        return fail(name.at(), "Argument or block definition required", expected(cursor, name));
    }
    let Item::Attribute(attribute) = item(cursor, name, true)? else { return Ok(NativeBody::default()) };
    let end = cursor.peek();
    let detail = match end.kind {
        Kind::CloseBrace => {
            cursor.read();
            return Ok(NativeBody { attributes: vec![attribute], blocks: Vec::new() });
        }
        Kind::Comma => "a block on one line may contain one argument; give each argument a line of its own",
        Kind::Newline => "a block with an argument on its first line must end on that line",
        _ => {
            "a block on one line needs a closing brace after its argument; give each of several arguments a line of its own"
        }
    };
    fail(end.at(), "Invalid single-argument block definition", detail)
}
