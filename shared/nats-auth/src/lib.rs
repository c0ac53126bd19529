//! Identities for NATS: operator, accounts, users and their keys, as signed JWTs, and the files that contain them.
//!
//! NATS servers trust one operator. The operator signs accounts, accounts sign users, and a user's JWT contains the
//! subjects that the user may publish on and subscribe to. So servers do not store users, and need no reload when a
//! user is added. The permissions of roles are in [`wire::permissions`].
//!
//! Pure: keys, times and file contents come from the caller. Seeds never appear in errors or `Debug` output.

pub mod claims;
pub mod creds;
pub mod directory;
mod error;
mod identity;
mod key;
mod key_kind;
pub mod limits;
mod node_key;
pub mod server;

pub use creds::Credentials;
pub use directory::{File, Reader};
pub use error::Error;
pub use identity::Issuer;
pub use key::{Key, Random};
pub use key_kind::KeyKind;
pub use node_key::NodeKey;
