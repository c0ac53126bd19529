//! Root keys, with which the cluster signs tokens. The state holds the public half. The private half is stored in a table
//! of its own and is never written to the log or to a message.

use serde::{Deserialize, Serialize};

use crate::{Index, RootKeyId, Text, Timestamp};

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
