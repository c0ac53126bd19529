//! Routes of the metadata of nodes (http-api §18), which their agents keep.

use std::collections::BTreeMap;

use model::text::quoted;
use model::{NodeId, Text};
use serde::{Deserialize, Serialize};
use wire::meta::{ChangeNodeMeta, GetNodeMeta, NodeMeta};

use super::Request;
use crate::Api;
use crate::agent_client::request_stats;
use crate::http::{Error, Response, decode};

/// Body of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ChangeRequest {
    #[serde(rename = "NodeID")]
    node_id: Option<String>,
    meta: Option<BTreeMap<String, Option<String>>>,
}

/// Response with the metadata of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Shown {
    meta: BTreeMap<Text, Text>,
    dynamic: Option<BTreeMap<Text, Option<Text>>>,
    r#static: BTreeMap<Text, Text>,
}

impl From<NodeMeta> for Shown {
    fn from(found: NodeMeta) -> Self {
        let NodeMeta { meta, dynamic, statics } = found;
        Self { meta, dynamic, r#static: statics }
    }
}

/// Reads the metadata of a node.
pub(crate) async fn read(api: &Api, request: &Request) -> Result<Response, Error> {
    let node = node(api, request.query.text("node_id")).await?;
    let found: NodeMeta = request_stats(&api.bus, node, &GetNodeMeta {}).await?;
    Ok(Response::json(&Shown::from(found)))
}

/// Changes the metadata of a node. The node is registered again by its agent.
pub(crate) async fn change(api: &Api, request: &Request) -> Result<Response, Error> {
    let body: ChangeRequest = decode(&request.body, &api.limits)?;
    let id = body.node_id.filter(|id| !id.is_empty());
    let node = node(api, id.as_deref().unwrap_or(request.query.text("node_id"))).await?;
    let changes = body.meta.filter(|meta| !meta.is_empty());
    let changes = changes.ok_or_else(|| Error::bad_request("missing required Meta object"))?;
    changes.keys().try_for_each(|key| check_key(key))?;
    let changes = changes.into_iter().map(|(key, value)| (key.into(), value.map(Text::from)));
    let message = ChangeNodeMeta { changes: changes.collect() };
    let found: NodeMeta = request_stats(&api.bus, node, &message).await?;
    Ok(Response::json(&Shown::from(found)))
}

/// The node with this id; that of this process if the id is empty. An unknown node is a 500 here.
async fn node(api: &Api, id: &str) -> Result<NodeId, Error> {
    let found = api.node_named(id).await;
    found.map_err(|error| if error.is_not_found() { Error::failed(error.text) } else { error })
}

/// Checks that a key consists of identifiers of HCL, separated by dots.
fn check_key(key: &str) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::bad_request("metadata keys must not be empty"));
    }
    if key.split('.').all(is_identifier) {
        return Ok(());
    }
    let key = quoted(key);
    Err(Error::bad_request(format!("{key} is invalid; metadata keys must be valid dotted hcl identifiers")))
}

fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    let is_first = |letter: char| letter.is_alphabetic() || letter == '_';
    letters.next().is_some_and(is_first)
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_identifiers_between_dots() {
        // http-api §18.
        for good in ["a", "dyn.key", "_x", "rack-7", "a.b.c"] {
            assert!(check_key(good).is_ok(), "{good}");
        }
        assert_eq!(check_key("").unwrap_err().text, "metadata keys must not be empty");
        for bad in ["bad key!", "a b", "7", "a..b", ".a", "a.", "-a"] {
            let error = check_key(bad).unwrap_err();
            let text = format!("\"{bad}\" is invalid; metadata keys must be valid dotted hcl identifiers");
            assert_eq!((error.status.as_u16(), error.text), (400, text));
        }
    }
}
