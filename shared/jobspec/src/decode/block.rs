//! One block as it is read: attributes in the kind that is wanted, inner blocks, labels, and in the end what is left
//! over. The functions a block read what there is by asking for it.

use std::{collections::BTreeMap, ops::Range};

use api_types::duration;
use hcl_edit::{
    expr::Expression,
    structure::{self, Attribute, Structure},
};

use super::{Decoder, suggest::nearest};
use crate::{error::Fault, eval::Scope, source::span, value::Value};

/// Of all `dynamic` blocks that one block holds together.
const DYNAMIC_BLOCKS_MAX: usize = 100_000;

/// A block that is being read.
pub(super) struct Block<'a> {
    pub(super) decoder: &'a Decoder<'a>,
    pub(super) syntax: &'a structure::Block,
    pub(super) scope: Scope,
    kind: &'a str,
    /// Where the block's name is, or that of the `dynamic` block that made it.
    at: Range<usize>,
    labels: Vec<(String, Range<usize>)>,
    label_wanted: bool,
    attributes: Vec<&'static str>,
    blocks: Vec<&'static str>,
}

impl<'a> Block<'a> {
    pub(super) fn new(decoder: &'a Decoder<'a>, syntax: &'a structure::Block, scope: Scope) -> Block<'a> {
        let labels = syntax.labels.iter().map(|label| (label.as_str().to_owned(), span(label))).collect();
        let (kind, at) = (syntax.ident.value().as_str(), span(&syntax.ident));
        Block {
            decoder,
            syntax,
            scope,
            kind,
            at,
            labels,
            label_wanted: false,
            attributes: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// Reads the block, and notes what nobody asked for.
    pub(super) fn read<T>(mut self, with: impl FnOnce(&mut Block<'a>) -> T) -> T {
        let result = with(&mut self);
        self.note_left_over();
        result
    }

    /// The one label of the block.
    pub(super) fn label(&mut self) -> Option<String> {
        self.label_wanted = true;
        self.labels.first().map(|(label, _)| label.clone())
    }

    /// Where the block's name is.
    pub(super) fn at(&self) -> Range<usize> {
        self.at.clone()
    }

    pub(super) fn note(&self, fault: Fault) {
        self.decoder.faults.note(fault);
    }

    pub(super) fn evaluated(&self, expression: &Expression) -> Option<Value> {
        self.decoder.faults.noted(self.decoder.evaluator.value(expression, &self.scope))
    }

    pub(super) fn attribute(&mut self, name: &'static str) -> Option<&'a Attribute> {
        self.attributes.push(name);
        self.syntax.body.get_attribute(name)
    }

    /// An attribute that must be there.
    pub(super) fn required(&mut self, name: &'static str) -> &mut Block<'a> {
        if self.syntax.body.get_attribute(name).is_none() {
            let detail = format!("the argument {name:?} is required, but no definition was found");
            self.note(Fault::new(self.at(), "Missing required argument", detail));
        }
        self
    }

    /// An attribute as `convert` makes it of its value, which is not null.
    fn converted<T>(
        &mut self,
        name: &'static str,
        convert: impl FnOnce(Value) -> Result<T, String>,
    ) -> Option<T> {
        let attribute = self.attribute(name)?;
        let value = self.evaluated(&attribute.value).filter(|value| *value != Value::Null)?;
        self.fitting(&attribute.value, convert(value))
    }

    /// The value, or nothing and a note that the expression's is not of the kind that is wanted.
    pub(super) fn fitting<T>(&self, expression: &Expression, result: Result<T, String>) -> Option<T> {
        let unsuitable = |detail| Fault::new(span(expression), "Unsuitable value type", detail);
        result.map_err(|detail| self.note(unsuitable(detail))).ok()
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.converted(name, text)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.converted(name, |value| value.to_bool().ok_or_else(|| wanted("bool", &value)))
    }

    /// A whole number of 64 bits.
    pub(super) fn int(&mut self, name: &'static str) -> Option<i64> {
        self.converted(name, |value| {
            let number = value.to_number().ok_or_else(|| wanted("number", &value))?;
            number
                .to_i64()
                .ok_or_else(|| format!("value must be a whole number, between {} and {}", i64::MIN, i64::MAX))
        })
    }

    /// A whole number within bounds.
    pub(super) fn int_within(
        &mut self,
        name: &'static str,
        bounds: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        self.converted(name, |value| {
            let number = value.to_number().ok_or_else(|| wanted("number", &value))?;
            number.to_i64().filter(|number| bounds.contains(number)).ok_or_else(|| {
                format!("value must be a whole number, between {} and {}", bounds.start(), bounds.end())
            })
        })
    }

    /// A whole number of 64 bits without a sign.
    pub(super) fn uint(&mut self, name: &'static str) -> Option<u64> {
        self.converted(name, |value| {
            let number = value.to_number().ok_or_else(|| wanted("number", &value))?;
            number.to_u64().ok_or_else(|| format!("value must be a whole number, between 0 and {}", u64::MAX))
        })
    }

    /// Nanoseconds, given as such or in words; here null is not the same as absent (§8).
    pub(super) fn duration(&mut self, name: &'static str) -> Option<i64> {
        let attribute = self.attribute(name)?;
        let value = self.evaluated(&attribute.value)?;
        let result = match &value {
            Value::Number(number) => {
                number.to_i64().ok_or_else(|| "a duration is a whole number of nanoseconds".to_owned())
            }
            Value::Text(text) => duration::parse(text).map_err(|error| error.to_string()),
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Object(_) => Err(format!(
                "a duration such as \"1h30m\" or a number of nanoseconds is required, but have {}",
                value.kind()
            )),
        };
        self.fitting(&attribute.value, result)
    }

    // What the API's own clients cannot leave out: unset is the same as zero.

    pub(super) fn text_or_empty(&mut self, name: &'static str) -> Option<String> {
        Some(self.text(name).unwrap_or_default())
    }

    pub(super) fn flag_or_false(&mut self, name: &'static str) -> Option<bool> {
        Some(self.flag(name).unwrap_or_default())
    }

    pub(super) fn int_or_zero(&mut self, name: &'static str) -> Option<i64> {
        Some(self.int(name).unwrap_or_default())
    }

    pub(super) fn duration_or_zero(&mut self, name: &'static str) -> Option<i64> {
        Some(self.duration(name).unwrap_or_default())
    }

    pub(super) fn texts(&mut self, name: &'static str) -> Option<Vec<String>> {
        self.converted(name, texts)
    }

    pub(super) fn uints(&mut self, name: &'static str) -> Option<Vec<u64>> {
        self.converted(name, |value| {
            let Value::List(values) = value else { return Err(wanted("list of number", &value)) };
            let number = |value: Value| value.to_number().and_then(|number| number.to_u64());
            values
                .into_iter()
                .map(number)
                .collect::<Option<_>>()
                .ok_or_else(|| "a list of whole numbers is required".to_owned())
        })
    }

    /// A map of strings given as an attribute.
    pub(super) fn text_map_attribute(&mut self, name: &'static str) -> Option<BTreeMap<String, String>> {
        self.converted(name, text_map)
    }

    /// A map of strings given as a block.
    pub(super) fn text_map_block(&mut self, name: &'static str) -> Option<BTreeMap<String, String>> {
        self.one(name, |block| block.members(text))
    }

    /// A map of strings given as an attribute or as a block.
    pub(super) fn text_map(&mut self, name: &'static str) -> Option<BTreeMap<String, String>> {
        let as_attribute = self.text_map_attribute(name);
        let as_block = self.text_map_block(name);
        let attribute = self.syntax.body.get_attribute(name);
        if let (Some(attribute), Some(_)) = (attribute, &as_block) {
            let detail = format!("{name} is a block or an attribute, not both");
            self.note(Fault::about(span(&attribute.key), "Duplicate {} block", name, detail));
        }
        as_attribute.or(as_block)
    }

    /// All attributes of a block that has any.
    pub(super) fn members<T>(&mut self, convert: impl Fn(Value) -> Result<T, String>) -> BTreeMap<String, T> {
        let mut members = BTreeMap::new();
        let body = &self.syntax.body;
        for attribute in body.attributes() {
            let Some(value) = self.evaluated(&attribute.value) else { continue };
            if let Some(value) = self.fitting(&attribute.value, convert(value)) {
                members.insert(attribute.key.value().as_str().to_owned(), value);
            }
        }
        for block in body.blocks() {
            self.note(unexpected_block(block, &[], &[]));
        }
        self.attributes_are_all_known();
        members
    }

    /// Keeps [`Self::read`] from looking at attributes and blocks again.
    pub(super) fn attributes_are_all_known(&mut self) {
        self.attributes.push(ANY);
    }

    /// A block that comes at most once.
    pub(super) fn one<T>(&mut self, name: &'static str, with: impl FnOnce(&mut Block<'a>) -> T) -> Option<T> {
        let inner = self.inner(name);
        if let Some(second) = inner.get(1) {
            let detail = format!("only one {name} block is allowed");
            self.note(Fault::about(second.at(), "Duplicate {} block", name, detail));
        }
        inner.into_iter().next().map(|block| block.read(with))
    }

    /// A block of which there may be many, in order; none if there is none.
    pub(super) fn many<T>(
        &mut self,
        name: &'static str,
        mut with: impl FnMut(&mut Block<'a>) -> T,
    ) -> Option<Vec<T>> {
        let inner = self.inner(name);
        (!inner.is_empty()).then(|| inner.into_iter().map(|block| block.read(&mut with)).collect())
    }

    /// The blocks of a name, those included that `dynamic` blocks make.
    fn inner(&mut self, name: &'static str) -> Vec<Block<'a>> {
        self.blocks.push(name);
        let mut found = Vec::new();
        for block in self.syntax.body.blocks() {
            match block.ident.value().as_str() {
                "dynamic" if block.labels.first().is_some_and(|label| label.as_str() == name) => {
                    self.expand(block, name, &mut found);
                }
                ident if ident == name => found.push(Block::new(self.decoder, block, self.scope.clone())),
                _ => {}
            }
        }
        found
    }

    /// The blocks that a `dynamic` block stands for (§7).
    fn expand(&self, dynamic: &'a structure::Block, name: &'static str, found: &mut Vec<Block<'a>>) {
        let body = &dynamic.body;
        let missing = |what: &str| {
            let detail = format!("a dynamic block has {what}");
            self.note(Fault::new(span(&dynamic.ident), "Missing required argument", detail));
        };
        let mut contents = body.get_blocks("content");
        let content = match (contents.next(), contents.next()) {
            (Some(content), None) => content,
            (_, second) => {
                let at = span(second.map_or(&dynamic.ident, |second| &second.ident));
                self.note(Fault::new(at, "Invalid dynamic block", "a dynamic block has one content block"));
                return;
            }
        };
        for structure in body {
            let (at, what) = match structure {
                Structure::Attribute(attribute) => (span(&attribute.key), attribute.key.value().as_str()),
                Structure::Block(block) => (span(&block.ident), block.ident.value().as_str()),
            };
            if !["for_each", "iterator", "labels", "content"].contains(&what) {
                let detail = format!(
                    "{what:?} is not expected here; a dynamic block has for_each, iterator, labels, content"
                );
                self.note(Fault::new(at, "Unsupported argument", detail));
            }
        }
        let Some(for_each) = body.get_attribute("for_each") else { return missing("a for_each") };
        let iterator = match body.get_attribute("iterator").map(|attribute| &attribute.value) {
            None => name,
            Some(Expression::Variable(iterator)) => iterator.value().as_str(),
            Some(other) => {
                self.note(Fault::new(span(other), "Invalid expression", "the iterator is a bare name"));
                return;
            }
        };
        let items =
            self.decoder.evaluator.items(&for_each.value, &self.scope).map_err(|fault| match fault.summary {
                "Iteration over non-iterable value" => {
                    Box::new(Fault { summary: "Invalid dynamic for_each value", ..*fault })
                }
                _ => fault,
            });
        let Some(items) = self.decoder.faults.noted(items) else { return };
        for (key, value) in items {
            if found.len() >= DYNAMIC_BLOCKS_MAX {
                let detail = format!("one block holds at most {DYNAMIC_BLOCKS_MAX} of them");
                self.note(Fault::new(span(&for_each.value), "Too many dynamic blocks", detail));
                return;
            }
            let element = BTreeMap::from([("key".to_owned(), key), ("value".to_owned(), value)]);
            let scope = self.scope.with(iterator, Value::Object(element));
            let Some(labels) = self.dynamic_labels(body.get_attribute("labels"), &scope) else { return };
            let made = Block::new(self.decoder, content, scope);
            found.push(Block { kind: name, at: span(&dynamic.ident), labels, ..made });
        }
    }

    fn dynamic_labels(
        &self,
        labels: Option<&Attribute>,
        scope: &Scope,
    ) -> Option<Vec<(String, Range<usize>)>> {
        let Some(labels) = labels else { return Some(Vec::new()) };
        let value = self.decoder.faults.noted(self.decoder.evaluator.value(&labels.value, scope))?;
        let labels_at = span(&labels.value);
        match texts(value) {
            Ok(texts) => Some(texts.into_iter().map(|label| (label, labels_at.clone())).collect()),
            Err(detail) => {
                self.note(Fault::new(labels_at, "Invalid dynamic block label", detail));
                None
            }
        }
    }

    fn note_left_over(&self) {
        self.note_labels();
        if self.attributes.contains(&ANY) {
            return;
        }
        for structure in &self.syntax.body {
            match structure {
                Structure::Attribute(attribute)
                    if !self.attributes.contains(&attribute.key.value().as_str()) =>
                {
                    self.note(unexpected_attribute(attribute, &self.attributes, &self.blocks));
                }
                Structure::Block(block) => self.note_unknown_block(block),
                Structure::Attribute(_) => {}
            }
        }
    }

    fn note_unknown_block(&self, block: &structure::Block) {
        let (name, labels) = (block.ident.value().as_str(), &block.labels[..]);
        match (name, labels) {
            ("dynamic", [kind]) if self.blocks.contains(&kind.as_str()) => {}
            ("dynamic", []) => {
                let detail = "a dynamic block has one label, the type of the blocks that it makes";
                self.note(Fault::about(span(&block.ident), "Missing type for {}", "dynamic", detail));
            }
            ("dynamic", [kind]) => {
                let detail = format!("blocks of type {:?} are not expected here", kind.as_str());
                self.note(Fault::new(span(kind), "Unsupported block type", detail));
            }
            ("dynamic", [_, second, ..]) => {
                let detail = "a dynamic block has one label; those of the blocks that it makes are its labels argument";
                self.note(Fault::new(span(second), "Extraneous dynamic block label", detail));
            }
            (name, _) if self.blocks.contains(&name) => {}
            _ => self.note(unexpected_block(block, &self.attributes, &self.blocks)),
        }
    }

    fn note_labels(&self) {
        let wanted = usize::from(self.label_wanted);
        if let Some((_, extra)) = self.labels.get(wanted) {
            let detail =
                format!("{} blocks have {} label", self.kind, if wanted == 0 { "no" } else { "one" });
            self.note(Fault::about(extra.clone(), "Extraneous label for {}", self.kind, detail));
        } else if self.labels.len() < wanted {
            let detail = format!("{} blocks have one label, their name", self.kind);
            self.note(Fault::about(self.at(), "Missing name for {}", self.kind, detail));
        }
    }
}

/// Stands for every attribute and block in the list of known ones; no name looks like it.
const ANY: &str = "*";

fn unexpected_attribute(attribute: &Attribute, attributes: &[&str], blocks: &[&str]) -> Fault {
    let name = attribute.key.value().as_str();
    let suggestion = match (blocks.contains(&name), nearest(name, attributes)) {
        (true, _) => format!(". Did you mean to define a block of type {name:?}?"),
        (false, Some(near)) => format!(". Did you mean {near:?}?"),
        (false, None) => String::new(),
    };
    let detail = format!("an argument named {name:?} is not expected here{suggestion}");
    Fault::new(span(&attribute.key), "Unsupported argument", detail)
}

fn unexpected_block(block: &structure::Block, attributes: &[&str], blocks: &[&str]) -> Fault {
    let name = block.ident.value().as_str();
    let suggestion = match (attributes.contains(&name), nearest(name, blocks)) {
        (true, _) => format!(". Did you mean to define argument {name:?}? If so, use the equals sign"),
        (false, Some(near)) => format!(". Did you mean {near:?}?"),
        (false, None) => String::new(),
    };
    let detail = format!("blocks of type {name:?} are not expected here{suggestion}");
    Fault::new(span(&block.ident), "Unsupported block type", detail)
}

fn wanted(what: &str, value: &Value) -> String {
    format!("{what} required, but have {}", value.kind())
}

pub(super) fn text(value: Value) -> Result<String, String> {
    if value == Value::Null {
        return Err("null value is not allowed".to_owned());
    }
    value.to_text().ok_or_else(|| wanted("string", &value))
}

pub(super) fn texts(value: Value) -> Result<Vec<String>, String> {
    let Value::List(values) = value else { return Err(wanted("list of string", &value)) };
    values.into_iter().map(text).collect()
}

fn text_map(value: Value) -> Result<BTreeMap<String, String>, String> {
    let Value::Object(members) = value else { return Err(wanted("map of string", &value)) };
    members.into_iter().map(|(name, value)| Ok((name, text(value)?))).collect()
}
