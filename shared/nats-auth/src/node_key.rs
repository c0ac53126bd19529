//! The node key: a scoped signing key, with which an agent signs its own JWT. Such a key can sign only for nodes, but
//! for any node: until hosts join with a token, its owner can act as every node.

use std::fmt;

use model::NodeId;
use serde_json::json;

use crate::claims::{Claims, NODE_TAG};
use crate::creds::{Credentials, read_block, write_block};
use crate::error::Error;
use crate::key::{Key, Random, check_public};
use crate::key_kind::KeyKind;

const ACCOUNT: &str = "DROVER ACCOUNT";
const SEED: &str = "DROVER NODE SIGNING SEED";

/// A key that signs credentials of nodes.
#[derive(Clone)]
pub struct NodeKey {
    account: String,
    signer: Key,
}

impl NodeKey {
    pub(crate) fn new(account: String, signer: Key) -> Self {
        Self { account, signer }
    }

    /// Parses the file.
    ///
    /// # Errors
    /// If the text is not a node key file.
    pub fn read(text: &str) -> Result<Self, Error> {
        let account = read_block(text, ACCOUNT)?.to_owned();
        check_public(KeyKind::Account, &account)?;
        Ok(Self { account, signer: Key::from_seed(KeyKind::Account, read_block(text, SEED)?)? })
    }

    /// The contents of the file.
    pub fn text(&self) -> String {
        format!("{}\n{}", write_block(ACCOUNT, &self.account), write_block(SEED, &self.signer.seed()))
    }

    /// Signs credentials of a node, valid for this many seconds or forever. The permissions are defined in the account.
    pub fn sign(
        &self,
        name: &str,
        node: NodeId,
        random: Random<'_>,
        now_secs: i64,
        good_for_secs: Option<i64>,
    ) -> Credentials {
        let key = Key::new(KeyKind::User, random);
        // The user has no limits or permissions of its own, because those of the scope apply.
        let nats = json!({
            "type": "user",
            "version": 2,
            "issuer_account": self.account,
            "tags": [format!("{NODE_TAG}:{node}")],
        });
        let mut claims = Claims::new(&self.signer, &key.public(), name, now_secs, nats);
        claims.exp = good_for_secs.map(|secs| now_secs.saturating_add(secs));
        Credentials::new(claims.clone().sign(&self.signer), claims, key)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({} for {})", self.signer.public(), self.account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let signer = Key::new(KeyKind::Account, &mut || [3; 32]);
        let account = Key::new(KeyKind::Account, &mut || [4; 32]).public();
        let key = NodeKey::new(account, signer);
        let read = NodeKey::read(&key.text()).unwrap();
        assert_eq!(read.text(), key.text());
        let node = NodeId::from_bytes([7; 16]);
        let credentials = read.sign("one", node, &mut || [5; 32], 100, Some(60));
        assert_eq!((credentials.node(), credentials.claims.exp), (Some(node), Some(160)));
        assert_eq!(Credentials::read(&credentials.text()).unwrap().node(), Some(node));
        assert!(NodeKey::read("").is_err());
    }
}
