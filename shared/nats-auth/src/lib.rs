//! Identities for NATS: operator, accounts, users and their keys, as signed JWTs, and the files that hold them.
//!
//! NATS servers trust one operator; the operator signs accounts, accounts sign users, and a user's JWT says where its
//! owner may publish and subscribe. Servers therefore know no users, and need no reload when one is added. What a role may
//! do is in [`wire::permissions`].
//!
//! Pure: keys and time come from the caller, and so do the contents of files. Seeds appear in no error and in no `Debug`.

pub mod claims;
pub mod creds;
pub mod directory;
mod error;
mod identity;
mod key;
pub mod limits;
mod node_key;
pub mod server;

pub use creds::Credentials;
pub use directory::{File, Reader};
pub use error::Error;
pub use identity::{Issuer, NODE_TAG};
pub use key::{Key, KeyKind, Random};
pub use node_key::NodeKey;
