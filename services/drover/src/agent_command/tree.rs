//! The text of a configuration file, HCL or JSON, as one tree of keys with their lines. What the keys mean is left to
//! [`super::file`].

use hcl_edit::Span;
use hcl_edit::expr::{Expression, ObjectKey};
use hcl_edit::structure::{BlockLabel, Body, Structure};

/// The largest configuration file that is read, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// A key and what it is set to.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// What a key is set to. Blocks and objects are the same; a block's labels are keys around it.
#[derive(Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Number(f64),
    Bool(bool),
    List(Vec<Value>),
    Map(Vec<Entry>),
}

impl Value {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Number(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::List(_) => "a list",
            Value::Map(_) => "a block",
        }
    }
}

/// What is wrong with a text, and in which line.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Reads a text: JSON if it begins with a brace, as it may in a file of any name, else HCL.
pub(crate) fn read(text: &str) -> Result<Vec<Entry>, Fault> {
    let lines = Lines(text);
    if !text.trim_start().starts_with('{') {
        let body = hcl_edit::parser::parse_body(text).map_err(|error| lines.syntax(&error))?;
        return lines.body(&body);
    }
    // JSON is, but for its escapes of slashes, an object of HCL; read as such, its keys have lines.
    let start = text.len() - text.trim_start().len();
    let shift = text[..start].matches('\n').count();
    let lines = Lines(text.trim());
    let object = hcl_edit::parser::parse_expr(lines.0).map_err(|error| lines.syntax(&error));
    let read = object.and_then(|object| match lines.value(&object)? {
        Some(Value::Map(entries)) => Ok(entries),
        Some(_) | None => Err(Fault { line: 1, text: "expected an object".to_owned() }),
    });
    match read {
        Ok(mut entries) => {
            entries.iter_mut().for_each(|entry| entry.move_down(shift));
            Ok(entries)
        }
        Err(fault) => Err(Fault { line: fault.line + shift, ..fault }),
    }
}

impl Entry {
    fn move_down(&mut self, lines: usize) {
        self.line += lines;
        self.value.move_down(lines);
    }
}

impl Value {
    fn move_down(&mut self, lines: usize) {
        match self {
            Value::Map(entries) => entries.iter_mut().for_each(|entry| entry.move_down(lines)),
            Value::List(values) => values.iter_mut().for_each(|value| value.move_down(lines)),
            Value::Text(_) | Value::Number(_) | Value::Bool(_) => {}
        }
    }
}

/// A text whose lines can be counted.
#[derive(Clone, Copy)]
struct Lines<'a>(&'a str);

impl Lines<'_> {
    fn line(self, of: &impl Span) -> usize {
        let start = of.span().map_or(0, |span| span.start);
        self.0.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count() + 1
    }

    fn syntax(self, error: &hcl_edit::parser::Error) -> Fault {
        Fault { line: error.location().line(), text: error.message().replace('\n', "; ") }
    }

    fn body(self, body: &Body) -> Result<Vec<Entry>, Fault> {
        let mut entries = Vec::new();
        for structure in body {
            match structure {
                Structure::Attribute(attribute) => {
                    let key = attribute.key.value().as_str().to_owned();
                    if let Some(value) = self.value(&attribute.value)? {
                        entries.push(Entry { key, line: self.line(&attribute.key), value });
                    }
                }
                Structure::Block(block) => {
                    let line = self.line(&block.ident);
                    let mut value = Value::Map(self.body(&block.body)?);
                    for label in block.labels.iter().rev() {
                        let key = match label {
                            BlockLabel::Ident(name) => name.value().as_str().to_owned(),
                            BlockLabel::String(name) => name.value().clone(),
                        };
                        value = Value::Map(vec![Entry { key, line, value }]);
                    }
                    entries.push(Entry { key: block.ident.value().as_str().to_owned(), line, value });
                }
            }
        }
        Ok(entries)
    }

    /// Nothing for `null`, which is as good as no key.
    fn value(self, expression: &Expression) -> Result<Option<Value>, Fault> {
        let fault = || Fault {
            line: self.line(expression),
            text: "expected a plain value: there are no variables, functions and templates here".to_owned(),
        };
        Ok(Some(match expression {
            Expression::Null(_) => return Ok(None),
            Expression::Bool(value) => Value::Bool(*value.value()),
            Expression::Number(value) => Value::Number(value.value().as_f64().ok_or_else(fault)?),
            Expression::String(value) => Value::Text(value.value().clone()),
            Expression::Array(values) => {
                let values = values.iter().map(|value| self.value(value)?.ok_or_else(fault));
                Value::List(values.collect::<Result<_, _>>()?)
            }
            Expression::Object(object) => {
                let mut entries = Vec::new();
                for (key, value) in object {
                    let name = match key {
                        ObjectKey::Ident(name) => name.value().as_str().to_owned(),
                        ObjectKey::Expression(Expression::String(name)) => name.value().clone(),
                        ObjectKey::Expression(_) => return Err(fault()),
                    };
                    if let Some(value) = self.value(value.expr())? {
                        entries.push(Entry { key: name, line: self.line(key), value });
                    }
                }
                Value::Map(entries)
            }
            Expression::StringTemplate(_)
            | Expression::HeredocTemplate(_)
            | Expression::Parenthesis(_)
            | Expression::Variable(_)
            | Expression::Conditional(_)
            | Expression::FuncCall(_)
            | Expression::Traversal(_)
            | Expression::UnaryOp(_)
            | Expression::BinaryOp(_)
            | Expression::ForExpr(_) => return Err(fault()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(entries: &[Entry]) -> String {
        let line = |entry: &Entry| {
            if let Value::Map(inner) = &entry.value {
                return format!("{}@{} {{ {} }}", entry.key, entry.line, shown(inner));
            }
            format!("{}@{} {:?}", entry.key, entry.line, entry.value)
        };
        entries.iter().map(line).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn hcl_and_json_make_the_same_tree() {
        let hcl = "name = \"a\"\nnothing = null\nports {\n  http = 4646\n}\nplugin \"raw_exec\" {\n  on = true\n}\n";
        let expected = "name@1 Text(\"a\"), ports@3 { http@4 Number(4646.0) }, \
                        plugin@6 { raw_exec@6 { on@7 Bool(true) } }";
        assert_eq!(shown(&read(hcl).unwrap()), expected);
        let json = "\n{\"name\": \"a\",\n\"ports\": {\"http\": 4646},\n\"list\": [1, \"x\"]}\n";
        let expected = "name@2 Text(\"a\"), ports@3 { http@3 Number(4646.0) }, \
                        list@4 List([Number(1.0), Text(\"x\")])";
        assert_eq!(shown(&read(json).unwrap()), expected);
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_line() {
        assert_eq!(read("a = 1\nb = [").unwrap_err().line, 2);
        assert_eq!(read("\n\n{\"a\": }").unwrap_err().line, 3);
        let fault = read("a = 1\nb = \"${x}\"").unwrap_err();
        assert_eq!(fault.line, 2);
        assert!(fault.text.starts_with("expected a plain value"), "{}", fault.text);
    }
}
