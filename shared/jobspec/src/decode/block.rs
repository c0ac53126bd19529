//! Reading of one block: attributes of given kinds, inner blocks, labels, and finally a check for everything that was not
//! read. The functions for blocks read attributes and blocks by name.

use std::collections::BTreeMap;

use api_types::duration;

use super::Decoder;
use crate::{
    eval::{ITERATION_OVER_NULL, ITERATION_OVER_SCALAR, Scope},
    fault::Fault,
    position::At,
    shown::quoted,
    suggest::nearest,
    syntax::{self, Attribute, Body, Expression, Kind},
    value::Value,
};

/// The cost of a block from a `dynamic` block in the budget of evaluation, which allows some 60,000 of them.
const MADE_BLOCK_BYTES: usize = 1024;

/// A block that is being read.
pub(crate) struct Block<'d> {
    pub(super) decoder: &'d Decoder<'d>,
    pub(super) syntax: syntax::Block,
    pub(super) scope: Scope,
    expects_label: bool,
    attributes: Vec<&'static str>,
    blocks: Vec<&'static str>,
    /// Whether all its contents are accepted.
    accepts_all: bool,
    /// Errors for missing arguments.
    missing: Vec<Fault>,
}

impl<'d> Block<'d> {
    pub(crate) fn of(decoder: &'d Decoder<'d>, syntax: syntax::Block, scope: Scope) -> Block<'d> {
        Block {
            decoder,
            syntax,
            scope,
            expects_label: false,
            attributes: Vec::new(),
            blocks: Vec::new(),
            accepts_all: false,
            missing: Vec::new(),
        }
    }

    /// The blocks of a type at the top level of a file.
    pub(crate) fn top(decoder: &'d Decoder<'d>, body: &Body, kind: &str, labels: usize) -> Vec<Block<'d>> {
        let blocks = decoder.faults.ok_or_record(body.blocks(kind, labels)).unwrap_or_default();
        blocks.into_iter().map(|syntax| Block::of(decoder, syntax, Scope::default())).collect()
    }

    /// Reads the block, and records an error for everything that was not read.
    pub(crate) fn read<T>(mut self, with: impl FnOnce(&mut Block<'d>) -> T) -> T {
        let result = with(&mut self);
        self.check_labels();
        if !self.accepts_all {
            self.record_unread();
        }
        // An unknown argument is probably the missing one, misspelled, so it is reported first.
        let follows = self.first_unread();
        for missing in std::mem::take(&mut self.missing) {
            self.record(Fault { follows, ..missing });
        }
        result
    }

    /// Accepts all contents of the block.
    pub(crate) fn ignore(&mut self) {
        self.accepts_all = true;
    }

    /// The only label of the block.
    pub(crate) fn label(&mut self) -> Option<String> {
        self.expects_label = true;
        self.syntax.labels.first().map(|(label, _)| label.clone())
    }

    /// Whether the block is written in JSON.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.syntax.body, Body::Json(_))
    }

    pub(crate) fn kind(&self) -> &str {
        &self.syntax.kind
    }

    /// The position of the block's name.
    pub(crate) fn at(&self) -> At {
        self.syntax.kind_at.clone()
    }

    /// Counts the bytes of copies that a block makes of its contents. Records an error if they are too many.
    pub(super) fn spend(&self, bytes: usize) -> Option<()> {
        self.decoder.faults.ok_or_record(self.decoder.evaluator.environment.spend(&self.at(), bytes))
    }

    pub(crate) fn record(&self, fault: Fault) {
        self.decoder.faults.record(fault);
    }

    pub(super) fn evaluated(&self, expression: &Expression) -> Option<Value> {
        self.decoder.faults.ok_or_record(self.decoder.evaluator.value(expression, &self.scope))
    }

    pub(crate) fn attribute(&mut self, name: &'static str) -> Option<Attribute> {
        self.attributes.push(name);
        self.decoder.faults.ok_or_record(self.syntax.body.attribute(name)).flatten()
    }

    /// Records an error, once the block was read, if an attribute is missing.
    pub(crate) fn required(&mut self, name: &'static str) -> &mut Block<'d> {
        if let Ok(None) = self.syntax.body.attribute(name) {
            let detail = format!("{} blocks need the argument {name:?}", self.syntax.kind);
            self.missing.push(Fault::new(self.at(), "Missing required argument", detail));
        }
        self
    }

    /// The value of an attribute, converted by `convert`. A null value counts as absent.
    fn converted<T>(
        &mut self,
        name: &'static str,
        convert: impl FnOnce(Value) -> Result<T, String>,
    ) -> Option<T> {
        let attribute = self.attribute(name)?;
        let value = self.evaluated(&attribute.value).filter(|value| *value != Value::Null)?;
        self.unwrap_conversion(&attribute, convert(value))
    }

    /// Unwraps the converted value of an attribute. Records an error if the conversion failed.
    pub(super) fn unwrap_conversion<T>(&self, attribute: &Attribute, result: Result<T, String>) -> Option<T> {
        let unsuitable = |detail| {
            let detail = format!("{}: {detail}", attribute.name);
            Fault::new(attribute.value.at.clone(), "Unsuitable value type", detail)
        };
        result.map_err(|detail| self.record(unsuitable(detail))).ok()
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        self.converted(name, text)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.converted(name, |value| value.to_bool().ok_or_else(|| wanted("bool", &value)))
    }

    /// A whole number of 64 bits with a sign.
    pub(super) fn int(&mut self, name: &'static str) -> Option<i64> {
        self.int_within(name, i64::MIN..=i64::MAX)
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
                let (least, most) = (bounds.start(), bounds.end());
                format!("a whole number between {least} and {most} is required, not {number}")
            })
        })
    }

    /// A whole number of 64 bits without a sign.
    pub(super) fn uint(&mut self, name: &'static str) -> Option<u64> {
        self.uint_within(name, u64::MAX)
    }

    /// A whole number without a sign up to a limit.
    pub(super) fn uint_within(&mut self, name: &'static str, most: u64) -> Option<u64> {
        self.converted(name, |value| uint(&value, most))
    }

    /// A duration in nanoseconds, given as a number or as text. Unlike elsewhere, null does not count as absent (§8).
    pub(super) fn duration(&mut self, name: &'static str) -> Option<i64> {
        let attribute = self.attribute(name)?;
        let value = self.evaluated(&attribute.value)?;
        let result = match &value {
            Value::Number(number) => {
                number.to_i64().ok_or_else(|| "a duration is a whole number of nanoseconds".to_owned())
            }
            Value::Text(text) => duration::parse(text).map_err(|error| error.to_string()),
            Value::Null | Value::Bool(_) | Value::List(..) | Value::Map(..) => Err(format!(
                "a duration such as \"1h30m\" or a number of nanoseconds is required, but have {}",
                value.kind()
            )),
        };
        self.unwrap_conversion(&attribute, result)
    }

    // Attributes that the API's own clients always set: if absent, they are zero instead of unset.

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

    /// Whole numbers without a sign up to a limit.
    pub(super) fn uints_within(&mut self, name: &'static str, most: u64) -> Option<Vec<u64>> {
        self.converted(name, |value| {
            let Value::List(_, values) = value else { return Err(wanted("list of number", &value)) };
            values.iter().map(|value| uint(value, most)).collect()
        })
    }

    /// A map of strings, written as an attribute.
    pub(super) fn text_map_attribute(&mut self, name: &'static str) -> Option<BTreeMap<String, String>> {
        self.converted(name, text_map)
    }

    /// A map of strings, written as a block.
    pub(super) fn text_map_block(&mut self, name: &'static str) -> Option<BTreeMap<String, String>> {
        self.one(name, |block| block.members(text))
    }

    /// A map of strings, written as an attribute or as a block. JSON does not distinguish the two.
    pub(super) fn text_map(&mut self, name: &'static str) -> Option<BTreeMap<String, String>> {
        if let Body::Json(body) = &self.syntax.body {
            return if body.is_expression(name) {
                self.text_map_attribute(name)
            } else {
                self.text_map_block(name)
            };
        }
        let as_attribute = self.text_map_attribute(name);
        let blocks = self.inner(name, 0);
        if let (Ok(Some(_)), Some(block)) = (self.syntax.body.attribute(name), blocks.first()) {
            let detail = format!("{name} is a block or an attribute, not both");
            self.record(Fault::with_subject(block.at(), "Duplicate {} block", name, detail));
            return None;
        }
        as_attribute.or(self.only(name, blocks, |block| block.members(text)))
    }

    /// All attributes of a block that must not contain blocks.
    pub(crate) fn all_attributes(&mut self) -> Vec<Attribute> {
        self.accepts_all = true;
        match &self.syntax.body {
            Body::Native(body) => {
                for block in &body.blocks {
                    self.record(unexpected_block(block, &[], &[]));
                }
                body.attributes.clone()
            }
            Body::Json(body) => self.decoder.faults.ok_or_record(body.attributes()).unwrap_or_default(),
        }
    }

    /// The converted values of all attributes.
    pub(super) fn members<T>(&mut self, convert: impl Fn(Value) -> Result<T, String>) -> BTreeMap<String, T> {
        let mut members = BTreeMap::new();
        for attribute in self.all_attributes() {
            let Some(value) = self.evaluated(&attribute.value) else { continue };
            if let Some(value) = self.unwrap_conversion(&attribute, convert(value)) {
                members.insert(attribute.name, value);
            }
        }
        members
    }

    /// An optional block without label that may occur once. Of several, none is read.
    pub(super) fn one<T>(&mut self, name: &'static str, with: impl FnOnce(&mut Block<'d>) -> T) -> Option<T> {
        let inner = self.inner(name, 0);
        self.only(name, inner, with)
    }

    fn only<T>(
        &self,
        name: &str,
        blocks: Vec<Block<'d>>,
        with: impl FnOnce(&mut Block<'d>) -> T,
    ) -> Option<T> {
        if let Some(second) = blocks.get(1) {
            let detail = format!("only one {name} block is allowed");
            self.record(Fault::with_subject(second.at(), "Duplicate {} block", name, detail));
            return None;
        }
        blocks.into_iter().next().map(|block| block.read(with))
    }

    /// Blocks without labels that may occur several times, in order; `None` if there are none.
    pub(super) fn many<T>(
        &mut self,
        name: &'static str,
        with: impl FnMut(&mut Block<'d>) -> T,
    ) -> Option<Vec<T>> {
        self.all(name, 0, with)
    }

    /// The same as [`Self::many`] for blocks with a label.
    pub(super) fn labelled<T>(
        &mut self,
        name: &'static str,
        with: impl FnMut(&mut Block<'d>) -> T,
    ) -> Option<Vec<T>> {
        self.all(name, 1, with)
    }

    fn all<T>(
        &mut self,
        name: &'static str,
        labels: usize,
        mut with: impl FnMut(&mut Block<'d>) -> T,
    ) -> Option<Vec<T>> {
        let inner = self.inner(name, labels);
        (!inner.is_empty()).then(|| inner.into_iter().map(|block| block.read(&mut with)).collect())
    }

    /// Blocks with this name, unread. The name counts as known.
    pub(crate) fn syntax_blocks(&mut self, name: &'static str) -> Vec<syntax::Block> {
        self.blocks.push(name);
        self.decoder.faults.ok_or_record(self.syntax.body.blocks(name, 0)).unwrap_or_default()
    }

    /// The blocks with a name, including those from `dynamic` blocks, in the order of the file.
    fn inner(&mut self, name: &'static str, labels: usize) -> Vec<Block<'d>> {
        self.blocks.push(name);
        let mut found = Vec::new();
        match &self.syntax.body {
            Body::Native(body) => {
                let is_selected = |block: &&syntax::Block| block.kind == name || generates(block, name);
                for block in body.blocks.iter().filter(is_selected) {
                    self.unfold(block.clone(), name, &mut found);
                }
            }
            Body::Json(body) => {
                let faults = self.decoder.faults;
                for block in faults.ok_or_record(body.blocks(name, labels)).unwrap_or_default() {
                    self.unfold(block, name, &mut found);
                }
                let dynamic = faults.ok_or_record(body.blocks("dynamic", 1)).unwrap_or_default();
                for block in dynamic.into_iter().filter(|block| generates(block, name)) {
                    self.unfold(block, name, &mut found);
                }
            }
        }
        found
    }

    /// Adds the block itself, or the blocks that it generates.
    fn unfold(&self, block: syntax::Block, name: &'static str, found: &mut Vec<Block<'d>>) {
        if block.kind == name {
            found.push(Block::of(self.decoder, block, self.scope.clone()));
        } else {
            let dynamic = Block::of(self.decoder, block, self.scope.clone());
            dynamic.read(|dynamic| dynamic.expand(name, found));
        }
    }

    /// Generates the blocks of this `dynamic` block (§7).
    fn expand(&mut self, name: &'static str, found: &mut Vec<Block<'d>>) -> Option<()> {
        self.expects_label = true;
        let for_each = self.required("for_each").attribute("for_each");
        let (iterator, labels) = (self.attribute("iterator"), self.attribute("labels"));
        let mut contents = self.syntax_blocks("content").into_iter();
        let content = match (contents.next(), contents.next()) {
            (Some(content), None) => content,
            (_, second) => {
                let at = second.map_or(self.at(), |second| second.kind_at);
                self.record(Fault::new(at, "Invalid dynamic block", "a dynamic block has one content block"));
                return None;
            }
        };
        let for_each = for_each?;
        let iterator = match iterator.as_ref().map(|attribute| &attribute.value.kind) {
            None => name,
            Some(Kind::Name(iterator)) => iterator,
            // JSON has no bare names.
            Some(Kind::Text(iterator)) if self.is_json() => iterator,
            Some(_) => {
                let at = iterator?.value.at.clone();
                self.record(Fault::new(at, "Invalid expression", "the iterator is a bare name"));
                return None;
            }
        };
        let Decoder { evaluator, faults } = self.decoder;
        let items = evaluator.items(&for_each.value, &self.scope).map_err(|fault| match fault.summary {
            ITERATION_OVER_NULL | ITERATION_OVER_SCALAR => {
                Box::new(Fault { summary: "Invalid dynamic for_each value", ..*fault })
            }
            _ => fault,
        });
        for (key, value) in faults.ok_or_record(items)? {
            faults.ok_or_record(evaluator.environment.spend(&for_each.value.at, MADE_BLOCK_BYTES))?;
            let element = BTreeMap::from([("key".to_owned(), key), ("value".to_owned(), value)]);
            let scope = self.scope.with(iterator, Value::object(element));
            let made = syntax::Block {
                kind: name.to_owned(),
                kind_at: self.at(),
                labels: self.dynamic_labels(labels.as_ref(), &scope)?,
                body: content.body.clone(),
            };
            found.push(Block::of(self.decoder, made, scope));
        }
        Some(())
    }

    fn dynamic_labels(&self, labels: Option<&Attribute>, scope: &Scope) -> Option<Vec<(String, At)>> {
        let Some(labels) = labels else { return Some(Vec::new()) };
        let value = self.decoder.faults.ok_or_record(self.decoder.evaluator.value(&labels.value, scope))?;
        let labels_at = labels.value.at.clone();
        match texts(value) {
            Ok(texts) => Some(texts.into_iter().map(|label| (label, labels_at.clone())).collect()),
            Err(detail) => {
                self.record(Fault::new(labels_at, "Invalid dynamic block label", detail));
                None
            }
        }
    }

    /// Where the first attribute that was not read begins, if there is one.
    fn first_unread(&self) -> Option<usize> {
        let Body::Native(body) = &self.syntax.body else { return None };
        let is_unread = |attribute: &&Attribute| !self.attributes.contains(&&*attribute.name);
        body.attributes.iter().filter(is_unread).map(|attribute| attribute.name_at.start).min()
    }

    fn record_unread(&self) {
        match &self.syntax.body {
            Body::Native(body) => {
                record_unknown(self.decoder, body, &self.attributes, &self.blocks);
                self.record_unknown_dynamic(&body.blocks);
            }
            Body::Json(body) => {
                record_unknown_members(self.decoder, body, &self.attributes, &self.blocks);
                let dynamic = self.decoder.faults.ok_or_record(body.blocks("dynamic", 1)).unwrap_or_default();
                self.record_unknown_dynamic(&dynamic);
            }
        }
    }

    fn record_unknown_dynamic(&self, blocks: &[syntax::Block]) {
        for block in blocks.iter().filter(|block| block.kind == "dynamic") {
            match &block.labels[..] {
                [(kind, _)] if self.blocks.contains(&kind.as_str()) => {}
                [] => {
                    let detail = "a dynamic block has one label, the type of the blocks that it generates";
                    let at = block.kind_at.clone();
                    self.record(Fault::with_subject(at, "Missing type for {}", "dynamic", detail));
                }
                [(kind, at)] => {
                    let detail = format!(
                        "blocks of type {kind:?} are not expected here{}",
                        did_you_mean(kind, &self.blocks)
                    );
                    self.record(Fault::new(at.clone(), "Unsupported block type", detail));
                }
                [_, (_, second), ..] => {
                    let detail = "a dynamic block has one label; set the labels of the generated blocks with the argument labels";
                    self.record(Fault::new(second.clone(), "Extraneous dynamic block label", detail));
                }
            }
        }
    }

    fn check_labels(&self) {
        let syntax::Block { kind, labels, .. } = &self.syntax;
        let wanted = usize::from(self.expects_label);
        if let Some((_, extra)) = labels.get(wanted) {
            let detail = format!("{kind} blocks have {} label", if wanted == 0 { "no" } else { "one" });
            self.record(Fault::with_subject(extra.clone(), "Extraneous label for {}", kind, detail));
        } else if labels.len() < wanted {
            let detail = format!("{kind} blocks have one label, their name: {kind} \"name\" {{");
            self.record(Fault::with_subject(self.at(), "Missing name for {}", kind, detail));
        }
    }
}

/// Whether a block is a `dynamic` block that generates blocks of a type.
fn generates(block: &syntax::Block, name: &str) -> bool {
    block.kind == "dynamic" && matches!(&block.labels[..], [(label, _)] if label == name)
}

/// Records an error for each name in a body that is not known. `dynamic` blocks are checked elsewhere.
pub(super) fn record_unknown(
    decoder: &Decoder<'_>,
    body: &syntax::NativeBody,
    attributes: &[&str],
    blocks: &[&str],
) {
    for attribute in body.attributes.iter().filter(|attribute| !attributes.contains(&&*attribute.name)) {
        decoder.faults.record(unexpected_attribute(attribute, attributes, blocks));
    }
    for block in body.blocks.iter().filter(|block| !blocks.contains(&&*block.kind) && block.kind != "dynamic")
    {
        decoder.faults.record(unexpected_block(block, attributes, blocks));
    }
}

/// The same as [`record_unknown`] for a JSON object.
pub(super) fn record_unknown_members(
    decoder: &Decoder<'_>,
    body: &syntax::json::Body,
    attributes: &[&str],
    blocks: &[&str],
) {
    for (name, at) in body.names() {
        if attributes.contains(&name) || blocks.contains(&name) || name == "dynamic" {
            continue;
        }
        let known: Vec<&str> = attributes.iter().chain(blocks).copied().collect();
        let detail = format!("no argument or block type is named {name:?}{}", did_you_mean(name, &known));
        decoder.faults.record(Fault::new(at, "Extraneous JSON object property", detail));
    }
}

fn did_you_mean(name: &str, known: &[&str]) -> String {
    nearest(name, known).map(|near| format!(". Did you mean {near:?}?")).unwrap_or_default()
}

fn unexpected_attribute(attribute: &Attribute, attributes: &[&str], blocks: &[&str]) -> Fault {
    let name = attribute.name.as_str();
    let suggestion = if blocks.contains(&name) {
        format!(". Did you mean to define a block of type {name:?}? If so, leave out the equals sign")
    } else {
        did_you_mean(name, attributes)
    };
    let detail = format!("an argument named {name:?} is not expected here{suggestion}");
    Fault::new(attribute.name_at.clone(), "Unsupported argument", detail)
}

fn unexpected_block(block: &syntax::Block, attributes: &[&str], blocks: &[&str]) -> Fault {
    let name = block.kind.as_str();
    let suggestion = if attributes.contains(&name) {
        format!(". Did you mean to define argument {name:?}? If so, use the equals sign")
    } else {
        did_you_mean(name, blocks)
    };
    let detail = format!("blocks of type {name:?} are not expected here{suggestion}");
    Fault::new(block.kind_at.clone(), "Unsupported block type", detail)
}

fn wanted(what: &str, value: &Value) -> String {
    let given = if let Value::Text(text) = value { format!(" {}", quoted(text)) } else { String::new() };
    format!("{what} required, but have {}{given}", value.kind())
}

fn uint(value: &Value, most: u64) -> Result<u64, String> {
    let number = value.to_number().ok_or_else(|| wanted("number", value))?;
    number
        .to_u64()
        .filter(|number| *number <= most)
        .ok_or_else(|| format!("a whole number between 0 and {most} is required, not {number}"))
}

pub(super) fn text(value: Value) -> Result<String, String> {
    if value == Value::Null {
        return Err("null value is not allowed".to_owned());
    }
    value.to_text().ok_or_else(|| wanted("string", &value))
}

pub(super) fn texts(value: Value) -> Result<Vec<String>, String> {
    let Value::List(_, values) = value else { return Err(wanted("list of string", &value)) };
    values.into_iter().map(text).collect()
}

fn text_map(value: Value) -> Result<BTreeMap<String, String>, String> {
    let Value::Map(_, members) = value else { return Err(wanted("map of string", &value)) };
    members.into_iter().map(|(name, value)| Ok((name, text(value)?))).collect()
}
