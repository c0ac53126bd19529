//! Free-form blocks, which others interpret: a driver's `config`, an autoscaler's `policy`. Values keep their kinds. A
//! literal object becomes a list with one map, as repeated blocks with the same name do (§8).

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::block::Block;
use crate::{
    fault::Fault,
    position::At,
    syntax::{self, Attribute, Body, Kind},
    value::Value,
};

/// Maximum nesting of lists and maps in a free-form block. Together with the job around it, it is within the nesting that JSON
/// is read with.
const DEPTH_MAX: usize = 121;
/// A block is a map in a list, and so is each of its labels.
const BLOCK_DEPTH: usize = 2;

impl Block<'_> {
    /// An optional free-form block that may occur once.
    pub(super) fn free_form(&mut self, name: &'static str) -> Option<BTreeMap<String, Json>> {
        self.one(name, |block| {
            let body = block.syntax.body.clone();
            block.ignore();
            content(block, &body, 1).into_iter().collect()
        })
    }

    /// A value in a free-form block, at a depth. Values without a JSON form are refused (§3).
    fn free_value(&self, attribute: &Attribute, depth: usize) -> Option<Json> {
        let value = self.evaluated(&attribute.value).filter(|value| !matches!(value, Value::Null))?;
        self.check_depth(depth + value.cost().depth, &attribute.value.at)?;
        let finite = if value.has_infinity() { Err("the number is infinite".to_owned()) } else { Ok(value) };
        self.unwrap_conversion(attribute, finite).map(|value| value.to_json())
    }

    /// Records an error if a value or a block in a free-form block is nested too deeply.
    fn check_depth(&self, depth: usize, at: &At) -> Option<()> {
        if depth <= DEPTH_MAX {
            return Some(());
        }
        let detail = format!("blocks, lists and maps may be nested at most {DEPTH_MAX} levels deep here");
        self.record(Fault::new(at.clone(), "Nested too deeply", detail));
        None
    }
}

/// The contents of a body at a depth. Repeated blocks with the same name become one list.
fn content(block: &mut Block<'_>, body: &Body, depth: usize) -> Map<String, Json> {
    let (mut content, mut blocks) = (Map::new(), BTreeMap::<&str, Vec<Json>>::new());
    let Body::Native(body) = body else {
        // Objects stay objects in JSON, which distinguishes them from lists.
        for attribute in block.all_attributes() {
            if let Some(json) = block.free_value(&attribute, depth) {
                content.insert(attribute.name, json);
            }
        }
        return content;
    };
    for attribute in &body.attributes {
        let Some(json) = block.free_value(attribute, depth) else { continue };
        let is_object = matches!(attribute.value.kind, Kind::Object(_));
        let json = if is_object { Json::Array(vec![json]) } else { json };
        content.insert(attribute.name.clone(), json);
    }
    for inner in &body.blocks {
        if let Some(json) = labelled(block, inner, depth) {
            blocks.entry(inner.kind.as_str()).or_default().push(json);
        }
    }
    // Blocks override an attribute with the same name.
    content.extend(blocks.into_iter().map(|(name, blocks)| (name.to_owned(), Json::Array(blocks))));
    content
}

/// A nested block within its labels.
fn labelled(block: &mut Block<'_>, inner: &syntax::Block, depth: usize) -> Option<Json> {
    let depth = depth + BLOCK_DEPTH * (1 + inner.labels.len());
    block.check_depth(depth, &inner.kind_at)?;
    let content = Json::Object(content(block, &inner.body, depth));
    Some(inner.labels.iter().rev().fold(content, |json, (label, _)| {
        Json::Object(Map::from_iter([(label.clone(), Json::Array(vec![json]))]))
    }))
}
