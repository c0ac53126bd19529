//! Claims: the contents of a NATS JWT (version 2), and their signed text form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::key::{Key, verifies};

/// Name of the tag with the node's id in a node's JWT.
pub const NODE_TAG: &str = "node";

/// The only header that NATS accepts.
const HEADER: &str = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;

/// The contents of a JWT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// A digest of the other fields.
    #[serde(default)]
    pub jti: String,
    /// Time of signing, in seconds since 1970.
    pub iat: i64,
    /// Time of expiry, in seconds since 1970; `None` never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// Public key of the issuer.
    pub iss: String,
    /// Name, for people.
    #[serde(default)]
    pub name: String,
    /// Public key of the subject.
    pub sub: String,
    /// The fields that depend on the kind of claims.
    pub nats: Value,
}

impl Claims {
    /// Creates claims about the owner of the public key `subject`, to be signed by `issuer`. The time is in seconds
    /// since 1970.
    pub fn new(issuer: &Key, subject: &str, name: &str, issued_secs: i64, nats: Value) -> Self {
        Self {
            jti: String::new(),
            iat: issued_secs,
            exp: None,
            iss: issuer.public(),
            name: name.to_owned(),
            sub: subject.to_owned(),
            nats,
        }
    }

    /// Signs the claims, and returns the JWT.
    pub fn sign(mut self, issuer: &Key) -> String {
        self.jti.clear();
        self.jti = BASE32_NOPAD.encode(&Sha256::digest(json_of(&self)));
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(json_of(&self)));
        let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Parses a JWT, and checks that its signature is that of its issuer.
    ///
    /// # Errors
    /// If the JWT cannot be parsed, or the signature does not match.
    pub fn read(token: &str) -> Result<Self, Error> {
        let problem = |problem| Error::Token { problem };
        let (signed, signature) =
            token.rsplit_once('.').ok_or(problem("it does not have three parts separated by dots"))?;
        let (_, body) =
            signed.split_once('.').ok_or(problem("it does not have three parts separated by dots"))?;
        let decoded =
            |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| problem("one of its parts is not Base64"));
        let claims: Self = serde_json::from_slice(&decoded(body)?)
            .map_err(|_| problem("its claims are not those of a NATS JWT"))?;
        if verifies(&claims.iss, signed.as_bytes(), &decoded(signature)?) {
            Ok(claims)
        } else {
            Err(problem("its signature does not match its issuer"))
        }
    }

    /// The value of the tag that starts with `name` and a colon.
    pub fn tag(&self, name: &str) -> Option<&str> {
        let tags = self.nats["tags"].as_array()?;
        tags.iter().filter_map(Value::as_str).find_map(|tag| tag.strip_prefix(name)?.strip_prefix(':'))
    }
}

fn json_of(claims: &Claims) -> Vec<u8> {
    serde_json::to_vec(claims).expect("claims can always be encoded as JSON")
}

/// A list of allowed subjects, in the form of claims. An empty list allows nothing.
pub(crate) fn allow<'a>(subjects: impl IntoIterator<Item = &'a String>) -> Value {
    let subjects: Vec<_> = subjects.into_iter().collect();
    json!({ "allow": subjects })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_kind::KeyKind;

    #[test]
    fn a_jwt_is_read_back_and_its_signature_checked() {
        let issuer = Key::new(KeyKind::Account, &mut || [1; 32]);
        let claims =
            Claims::new(&issuer, "UABC", "one", 1_700_000_000, json!({ "tags": ["node:7", "other"] }));
        let token = claims.sign(&issuer);
        let read = Claims::read(&token).unwrap();
        assert_eq!((read.sub.as_str(), read.name.as_str(), read.iat), ("UABC", "one", 1_700_000_000));
        assert_eq!((read.tag("node"), read.tag("nod")), (Some("7"), None));
        assert_eq!(read.jti.len(), 52);

        let mut parts: Vec<&str> = token.split('.').collect();
        let altered = URL_SAFE_NO_PAD.encode(
            String::from_utf8(URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap().replace("UABC", "UXYZ"),
        );
        parts[1] = &altered;
        let error = Claims::read(&parts.join(".")).unwrap_err().to_string();
        assert!(error.contains("signature"), "{error}");
        assert!(Claims::read("a.b").is_err() && Claims::read("").is_err());
    }
}
