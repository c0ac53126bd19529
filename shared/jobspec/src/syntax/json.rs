//! Parser of job files in JSON syntax (§10). It produces a tree with positions, whose members are read as attributes or as
//! blocks, depending on their names.

use std::rc::Rc;

use super::{
    Attribute, Block, Expression, Kind as Form,
    cursor::{Parsed, fail},
    templates::json_template,
};
use crate::{fault::Fault, number::Number, position::At, shown::quoted, value::Value};

/// Maximum nesting of objects and lists.
const DEPTH_MAX: usize = 200;
/// Maximum number of values in a text. A value takes much more memory than its text.
const VALUES_MAX: usize = 1 << 19;
/// The name of members that are comments.
const COMMENT: &str = "//";

/// An object whose members are attributes or blocks; or a list of such objects, which is read as one body.
#[derive(Debug, Clone)]
pub(crate) struct Body(Rc<Json>);

#[derive(Debug)]
struct Json {
    at: At,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Rc<Json>>),
    Object(Vec<Member>),
}

#[derive(Debug, Clone)]
struct Member {
    name: String,
    name_at: At,
    value: Rc<Json>,
}

/// Parses a file.
pub(crate) fn file(text: &str) -> Parsed<super::Body> {
    root(text).map(super::Body::Json)
}

/// Parses the values of variables in a JSON file.
pub(crate) fn attributes(text: &str) -> Parsed<Vec<Attribute>> {
    root(text)?.attributes()
}

/// Parses JSON to a value, without evaluating anything.
pub(crate) fn value(text: &str) -> Parsed<Value> {
    parse(text).map(|json| plain(&json))
}

fn plain(json: &Json) -> Value {
    match &json.kind {
        Kind::Null => Value::Null,
        Kind::Bool(flag) => Value::Bool(*flag),
        Kind::Number(number) => Value::Number(number.clone()),
        Kind::Text(text) => Value::text(text.as_str()),
        Kind::List(items) => Value::tuple(items.iter().map(|item| plain(item)).collect()),
        Kind::Object(members) => {
            Value::object(members.iter().map(|member| (member.name.clone(), plain(&member.value))).collect())
        }
    }
}

fn root(text: &str) -> Parsed<Body> {
    let value = parse(text)?;
    if !matches!(value.kind, Kind::Object(_)) {
        return fail(value.at.clone(), "Root value must be object", "a job file in JSON must be one object");
    }
    Ok(Body(Rc::new(value)))
}

impl Body {
    fn members(&self) -> Parsed<Vec<&Member>> {
        members_of(&self.0, "an object or a list of objects is expected here")
    }

    /// The attribute with a name.
    pub(crate) fn attribute(&self, name: &str) -> Parsed<Option<Attribute>> {
        let mut found = None;
        for member in self.members()?.into_iter().filter(|member| member.name == name) {
            if found.is_some() {
                let detail = format!("{name:?} is already set");
                return fail(member.name_at.clone(), "Duplicate argument", detail);
            }
            found = Some(member.attribute()?);
        }
        Ok(found)
    }

    /// All members as attributes.
    pub(crate) fn attributes(&self) -> Parsed<Vec<Attribute>> {
        let members = self.members()?.into_iter().filter(|member| member.name != COMMENT);
        members.map(Member::attribute).collect()
    }

    /// The blocks with a name and a number of labels.
    pub(crate) fn blocks(&self, name: &str, labels: usize) -> Parsed<Vec<Block>> {
        let mut found = Vec::new();
        for member in self.members()?.into_iter().filter(|member| member.name == name) {
            unpack(member, labels, &mut Vec::new(), (name, &member.name_at), &mut found)?;
        }
        Ok(found)
    }

    /// Whether a member is an expression that evaluates to the map, not an object with its members.
    pub(crate) fn is_expression(&self, name: &str) -> bool {
        let member =
            self.members().ok().and_then(|members| members.into_iter().find(|member| member.name == name));
        member.is_some_and(|member| !matches!(member.value.kind, Kind::Object(_) | Kind::List(_)))
    }

    /// The names of members and their positions.
    pub(crate) fn names(&self) -> Vec<(&str, At)> {
        let members = self.members().unwrap_or_default();
        let names = members.into_iter().filter(|member| member.name != COMMENT);
        names.map(|member| (member.name.as_str(), member.name_at.clone())).collect()
    }
}

fn members_of<'a>(value: &'a Json, detail: &str) -> Parsed<Vec<&'a Member>> {
    match &value.kind {
        Kind::Object(members) => Ok(members.iter().collect()),
        Kind::List(items) => {
            let mut members = Vec::new();
            for item in items {
                match &item.kind {
                    Kind::Object(inner) => members.extend(inner),
                    _ => return fail(item.at.clone(), "Incorrect JSON value type", detail),
                }
            }
            Ok(members)
        }
        _ => fail(value.at.clone(), "Incorrect JSON value type", detail),
    }
}

/// The blocks in a member. Each label is a level of objects; a list contains several blocks.
fn unpack(
    member: &Member,
    labels_left: usize,
    labels: &mut Vec<(String, At)>,
    (kind, kind_at): (&str, &At),
    found: &mut Vec<Block>,
) -> Parsed<()> {
    let detail = format!("an object or a list of objects is expected here: the contents of {kind:?} blocks");
    if labels_left > 0 {
        for inner in members_of(&member.value, &detail)?.into_iter().filter(|inner| inner.name != COMMENT) {
            labels.push((inner.name.clone(), inner.name_at.clone()));
            unpack(inner, labels_left - 1, labels, (kind, kind_at), found)?;
            labels.pop();
        }
        return Ok(());
    }
    let block = |value: &Rc<Json>| Block {
        kind: kind.to_owned(),
        kind_at: kind_at.clone(),
        labels: labels.clone(),
        body: super::Body::Json(Body(Rc::clone(value))),
    };
    match &member.value.kind {
        Kind::Null => Ok(()),
        Kind::Object(_) => {
            found.push(block(&member.value));
            Ok(())
        }
        Kind::List(items) => {
            found.extend(items.iter().map(block));
            Ok(())
        }
        Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => {
            fail(member.value.at.clone(), "Incorrect JSON value type", detail)
        }
    }
}

impl Member {
    fn attribute(&self) -> Parsed<Attribute> {
        Ok(Attribute {
            name: self.name.clone(),
            name_at: self.name_at.clone(),
            value: Rc::new(expression(&self.value)?),
        })
    }
}

fn expression(value: &Json) -> Parsed<Expression> {
    let kind = match &value.kind {
        Kind::Null => Form::Null,
        Kind::Bool(flag) => Form::Bool(*flag),
        Kind::Number(number) => Form::Number(number.clone()),
        Kind::Text(text) => return json_template(text, value.at.clone()),
        Kind::List(items) => {
            Form::Tuple(items.iter().map(|item| expression(item)).collect::<Result<_, Box<Fault>>>()?)
        }
        Kind::Object(members) => {
            let pair = |member: &Member| {
                let key = json_template(&member.name, member.name_at.clone())?;
                Ok((key, expression(&member.value)?))
            };
            Form::Object(members.iter().map(pair).collect::<Parsed<_>>()?)
        }
    };
    Ok(Expression { at: value.at.clone(), kind })
}

fn parse(text: &str) -> Parsed<Json> {
    let mut reader = Reader { text, position: 0, values: 0 };
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.position < text.len() {
        let at = reader.position..reader.position + 1;
        return fail(
            at,
            "Extraneous data after value",
            "a file in JSON must be one object, which has ended before this",
        );
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
    /// Number of values that have begun.
    values: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.position += 1;
        }
    }

    /// The range of the next character.
    fn here(&self) -> At {
        let width = self.text[self.position..].chars().next().map_or(0, char::len_utf8);
        self.position..self.position + width
    }

    fn fail<T>(&self, detail: &str) -> Parsed<T> {
        fail(self.here(), "Invalid JSON", detail)
    }

    fn value(&mut self, depth: usize) -> Parsed<Json> {
        self.skip_space();
        if depth > DEPTH_MAX {
            return self.fail(&format!("objects and lists may be nested at most {DEPTH_MAX} levels deep"));
        }
        self.values += 1;
        if self.values > VALUES_MAX {
            return self.fail(&format!("the text has more than {VALUES_MAX} values"));
        }
        let start = self.position;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(byte) if byte.is_ascii_alphabetic() => self.word()?,
            Some(b'\'') => return self.fail("texts and names need double quotes in JSON"),
            Some(b',') => return self.fail("a value is expected before this comma"),
            Some(_) => return self.fail("a value is expected here"),
            None => return self.fail("a value is expected before the end of the file"),
        };
        Ok(Json { at: start..self.position, kind })
    }

    fn word(&mut self) -> Parsed<Kind> {
        let rest = &self.text[self.position..];
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let kind = match &rest[..length] {
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            "null" => Kind::Null,
            other => {
                let at = self.position..self.position + length;
                let detail = format!("{} is not a value; texts need double quotes", quoted(other));
                return fail(at, "Invalid JSON keyword", detail);
            }
        };
        self.position += length;
        Ok(kind)
    }

    fn number(&mut self) -> Parsed<Kind> {
        let rest = &self.text[self.position..];
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let Some(number) = Number::parse(&rest[..length]) else {
            let at = self.position..self.position + length;
            return fail(at, "Invalid JSON number", "this is not a number");
        };
        self.position += length;
        Ok(Kind::Number(number))
    }

    fn string(&mut self) -> Parsed<String> {
        let start = self.position;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n') | None => {
                    let at = start..end.min(self.text.len());
                    return fail(
                        at,
                        "Invalid JSON",
                        "the quotes around this text are not closed on its line",
                    );
                }
                Some(_) => end += 1,
            }
        }
        self.position = end + 1;
        serde_json::from_str(&self.text[start..=end]).or_else(|error| {
            fail(start..end + 1, "Invalid JSON string", format!("the text is invalid: {error}"))
        })
    }

    fn list(&mut self, depth: usize) -> Parsed<Kind> {
        self.position += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.peek() == Some(b']') && items.is_empty() {
                self.position += 1;
                return Ok(Kind::List(items));
            }
            items.push(Rc::new(self.value(depth + 1)?));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b']') => {
                    self.position += 1;
                    return Ok(Kind::List(items));
                }
                _ => return self.fail("a comma or ] is expected here"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Kind> {
        self.position += 1;
        let mut members = Vec::new();
        loop {
            self.skip_space();
            if self.peek() == Some(b'}') && members.is_empty() {
                self.position += 1;
                return Ok(Kind::Object(members));
            }
            if self.peek() != Some(b'"') {
                return self.fail("a name in double quotes is expected here");
            }
            let start = self.position;
            let name = self.string()?;
            let name_at = start..self.position;
            self.skip_space();
            if self.peek() != Some(b':') {
                return self.fail("a colon is expected between a name and its value");
            }
            self.position += 1;
            let value = Rc::new(self.value(depth + 1)?);
            members.push(Member { name, name_at, value });
            self.skip_space();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b'}') => {
                    self.position += 1;
                    return Ok(Kind::Object(members));
                }
                _ => return self.fail("a comma or } is expected here"),
            }
        }
    }
}
