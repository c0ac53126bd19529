//! Root keys: what the cluster signs with. Everybody knows the public half; the private one is in a table of its own, and
//! in no log and no message.

use serde::{Deserialize, Serialize};

use crate::{Index, RootKeyId, Text, Timestamp};

/// The public half of a key that the cluster signs with: RSA, for signatures by RS256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootKey {
    /// Names it.
    pub id: RootKeyId,
    /// The modulus, big-endian, in base64url without padding.
    pub modulus: Text,
    /// The exponent of the public key, likewise.
    pub exponent: Text,
    /// When it was made.
    pub create_time: Timestamp,
    /// The index that made it.
    pub create_index: Index,
    /// The last index that changed it.
    pub modify_index: Index,
}
