//! Blocks whose content is somebody else's: a driver's `config`, an autoscaler's `policy`. Kinds of values are kept;
//! what is an object in its own right becomes a list with one map, as blocks of the same name do (§8).

use std::collections::BTreeMap;

use hcl_edit::{
    expr::Expression,
    structure::{Body, Structure},
};
use serde_json::{Map, Value as Json};

use super::block::Block;
use crate::value::Value;

impl Block<'_> {
    /// A free-form block that comes at most once.
    pub(super) fn free_form(&mut self, name: &'static str) -> Option<BTreeMap<String, Json>> {
        self.one(name, |block| {
            block.attributes_are_all_known();
            let content = free_form(block, &block.syntax.body);
            content.into_iter().collect()
        })
    }
}

fn free_form(block: &Block<'_>, body: &Body) -> Map<String, Json> {
    let (mut content, mut blocks) = (Map::new(), BTreeMap::<&str, Vec<Json>>::new());
    for structure in body {
        match structure {
            Structure::Attribute(attribute) => {
                let Some(value) = block.evaluated(&attribute.value) else { continue };
                if matches!(value, Value::Null) {
                    continue;
                }
                let json = value.to_json();
                let is_object = matches!(attribute.value, Expression::Object(_));
                let json = if is_object { Json::Array(vec![json]) } else { json };
                content.insert(attribute.key.value().as_str().to_owned(), json);
            }
            Structure::Block(inner) => {
                let mut json = Json::Object(free_form(block, &inner.body));
                for label in inner.labels.iter().rev() {
                    json =
                        Json::Object(Map::from_iter([(label.as_str().to_owned(), Json::Array(vec![json]))]));
                }
                blocks.entry(inner.ident.value().as_str()).or_default().push(json);
            }
        }
    }
    // An attribute of the same name gives way.
    content.extend(blocks.into_iter().map(|(name, blocks)| (name.to_owned(), Json::Array(blocks))));
    content
}
