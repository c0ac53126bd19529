//! Root keys, with which the cluster signs tokens. The state holds the public half. The private half is stored in a table
//! of its own and is never written to the log or to a message.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::ids::uuid_ids;
use crate::small_object::{Column, SmallObject};
use crate::table::Table;
use crate::{Index, Text, Timestamp};

/// Algorithm of all signatures.
pub const ALGORITHM: &str = "RS256";

/// State of a key that is used for signing, as the API calls it. All keys are.
const ACTIVE: &str = "active";

uuid_ids! {
    /// Id of a root key.
    RootKeyId, "root key";
}

/// The public half of a root key: an RSA key for RS256 signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootKey {
    /// Id of the key.
    pub id: RootKeyId,
    /// The modulus, big-endian, in base64url without padding.
    pub modulus: Text,
    /// The public exponent, in the same encoding.
    pub exponent: Text,
    /// When it was created.
    pub create_time: Timestamp,
    /// Index of the change set that created it.
    pub create_index: Index,
    /// Index of the change set that last changed it.
    pub modify_index: Index,
}

impl SmallObject for RootKey {
    type Key = RootKeyId;
    type Api = api_types::RootKeyMeta;

    const TABLE: Table = Table::RootKeys;
    const NAME: &'static str = "root key";
    const KEY_COLUMNS: &'static [Column<RootKeyId>] = &[Column::id("id", |id| Some(id.0))];
    const COLUMNS: &'static [Column<Self>] = &[Column::time("create_time", |key| key.create_time)];

    fn key(&self) -> &RootKeyId {
        &self.id
    }

    fn create_index(&self) -> Index {
        self.create_index
    }

    fn modify_index(&self) -> Index {
        self.modify_index
    }

    fn search_text(key: &RootKeyId) -> Cow<'_, str> {
        Cow::Owned(key.to_string())
    }

    fn shape(&self) -> api_types::RootKeyMeta {
        api_types::RootKeyMeta {
            key_id: Some(self.id.to_string()),
            algorithm: Some(ALGORITHM.to_owned()),
            create_time: Some(self.create_time.0),
            create_index: Some(self.create_index.0),
            modify_index: Some(self.modify_index.0),
            state: Some(ACTIVE.to_owned()),
            publish_time: Some(0),
        }
    }
}
