//! Free-form blocks, which others interpret: a driver's `config`, an autoscaler's `policy`. Values keep their kinds. A
//! literal object becomes a list with one map, as repeated blocks with the same name do (§8).

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::block::Block;
use crate::{
    syntax::{Attribute, Body, Kind},
    value::Value,
};

impl Block<'_> {
    /// An optional free-form block that may occur once.
    pub(super) fn free_form(&mut self, name: &'static str) -> Option<BTreeMap<String, Json>> {
        self.one(name, |block| {
            let body = block.syntax.body.clone();
            block.ignore();
            content(block, &body).into_iter().collect()
        })
    }

    /// A value in a free-form block. Values without a JSON form are refused (§3).
    fn free_value(&self, attribute: &Attribute) -> Option<Json> {
        let value = self.evaluated(&attribute.value).filter(|value| !matches!(value, Value::Null))?;
        let finite = if value.has_infinity() { Err("the number is infinite".to_owned()) } else { Ok(value) };
        self.unwrap_conversion(attribute, finite).map(|value| value.to_json())
    }
}

fn content(block: &mut Block<'_>, body: &Body) -> Map<String, Json> {
    let (mut content, mut blocks) = (Map::new(), BTreeMap::<&str, Vec<Json>>::new());
    let Body::Native(body) = body else {
        // Objects stay objects in JSON, which distinguishes them from lists.
        for attribute in block.all_attributes() {
            if let Some(json) = block.free_value(&attribute) {
                content.insert(attribute.name, json);
            }
        }
        return content;
    };
    for attribute in &body.attributes {
        let Some(json) = block.free_value(attribute) else { continue };
        let is_object = matches!(attribute.value.kind, Kind::Object(_));
        let json = if is_object { Json::Array(vec![json]) } else { json };
        content.insert(attribute.name.clone(), json);
    }
    for inner in &body.blocks {
        let mut json = Json::Object(self::content(block, &inner.body));
        for (label, _) in inner.labels.iter().rev() {
            json = Json::Object(Map::from_iter([(label.clone(), Json::Array(vec![json]))]));
        }
        blocks.entry(inner.kind.as_str()).or_default().push(json);
    }
    // Blocks override an attribute with the same name.
    content.extend(blocks.into_iter().map(|(name, blocks)| (name.to_owned(), Json::Array(blocks))));
    content
}
