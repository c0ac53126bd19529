//! Credentials files: a user's JWT and seed, in the form that `nsc` writes and every NATS client reads.

use std::fmt;

use model::NodeId;

use crate::claims::{Claims, NODE_TAG};
use crate::error::Error;
use crate::key::Key;
use crate::key_kind::KeyKind;

const JWT: &str = "NATS USER JWT";
const SEED: &str = "USER NKEY SEED";

/// A user's JWT with the user's key.
#[derive(Clone)]
pub struct Credentials {
    /// The signed JWT.
    pub jwt: String,
    /// The decoded claims of the JWT.
    pub claims: Claims,
    /// The user's key.
    pub key: Key,
}

impl Credentials {
    /// Parses a credentials file.
    ///
    /// # Errors
    /// If the text is not a credentials file, or its JWT and seed belong to different users.
    pub fn read(text: &str) -> Result<Self, Error> {
        let jwt = read_block(text, JWT)?.to_owned();
        let claims = Claims::read(&jwt)?;
        let key = Key::from_seed(KeyKind::User, read_block(text, SEED)?)?;
        if claims.sub == key.public() {
            Ok(Self { jwt, claims, key })
        } else {
            Err(Error::Mismatch { jwt: claims.sub, seed: key.public() })
        }
    }

    /// Combines newly signed parts.
    pub(crate) fn new(jwt: String, claims: Claims, key: Key) -> Self {
        Self { jwt, claims, key }
    }

    /// The contents of the file.
    pub fn text(&self) -> String {
        format!("{}\n{WARNING}\n{}", write_block(JWT, &self.jwt), write_block(SEED, &self.key.seed()))
    }

    /// The node that the credentials were issued for; `None` for a service.
    pub fn node(&self) -> Option<NodeId> {
        self.claims.tag(NODE_TAG)?.parse().ok()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({} {})", self.claims.name, self.claims.sub)
    }
}

const WARNING: &str = "************************* IMPORTANT *************************\n\
    The seed below is secret: anyone who has it can log in as this user.\n";

/// Formats a block: a text between a BEGIN line and an END line.
pub(crate) fn write_block(label: &str, text: &str) -> String {
    format!("-----BEGIN {label}-----\n{text}\n------END {label}------\n")
}

/// Extracts the text of a block.
pub(crate) fn read_block<'a>(text: &'a str, label: &'static str) -> Result<&'a str, Error> {
    let found = text.split_once(&format!("BEGIN {label}")).and_then(|(_, after)| {
        let (_, after) = after.split_once('\n')?;
        let (inside, _) = after.split_once("\n-")?;
        Some(inside.trim())
    });
    found.filter(|inside| !inside.is_empty()).ok_or(Error::NoBlock { label })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn credentials(user: u8, seed: u8) -> Credentials {
        let issuer = Key::new(KeyKind::Account, &mut || [1; 32]);
        let user = Key::new(KeyKind::User, &mut || [user; 32]);
        let claims = Claims::new(&issuer, &user.public(), "one", 1, json!({}));
        Credentials::new(claims.clone().sign(&issuer), claims, Key::new(KeyKind::User, &mut || [seed; 32]))
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let text = credentials(2, 2).text();
        let read = Credentials::read(&text).unwrap();
        assert_eq!(read.text(), text);
        assert_eq!(Credentials::read(&text.replace('\n', "\r\n")).unwrap().text(), text);
        assert_eq!(read.node(), None);
        assert!(!format!("{read:?}").contains(&read.key.seed()));
    }

    #[test]
    fn parts_of_two_files_are_refused() {
        let error = Credentials::read(&credentials(2, 3).text()).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        let error = Credentials::read("nothing").unwrap_err().to_string();
        assert!(error.contains("NATS USER JWT"), "{error}");
    }
}
