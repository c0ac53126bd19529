//! The node key: a scoped signing key beside an agent, with which it signs its own JWT. Such a key makes nodes only, but
//! any node: until machines join by a token, whoever has it can be every node.

use std::fmt;

use model::NodeId;
use serde_json::json;

use crate::claims::Claims;
use crate::creds::{Credentials, block, with_lines};
use crate::error::Error;
use crate::identity::NODE_TAG;
use crate::key::{Key, KeyKind, Random, check_public};

const ACCOUNT: &str = "DROVER ACCOUNT";
const SEED: &str = "DROVER NODE SIGNING SEED";

/// Signs for nodes.
#[derive(Clone)]
pub struct NodeKey {
    account: String,
    signer: Key,
}

impl NodeKey {
    pub(crate) fn new(account: String, signer: Key) -> Self {
        Self { account, signer }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(text: &str) -> Result<Self, Error> {
        let account = block(text, ACCOUNT)?.to_owned();
        check_public(KeyKind::Account, &account)?;
        Ok(Self { account, signer: Key::from_seed(KeyKind::Account, block(text, SEED)?)? })
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        format!("{}\n{}", with_lines(ACCOUNT, &self.account), with_lines(SEED, &self.signer.seed()))
    }

    /// Credentials of a node, for so many seconds or for ever. Its permissions stand in the account.
    pub fn sign(
        &self,
        name: &str,
        node: NodeId,
        random: Random<'_>,
        now_secs: i64,
        good_for_secs: Option<i64>,
    ) -> Credentials {
        let key = Key::new(KeyKind::User, random);
        // Without limits or permissions, for those of the scope go.
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
