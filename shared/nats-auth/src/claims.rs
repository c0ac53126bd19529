//! Claims: what a JWT of NATS says (version 2), and its signed text.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::key::{Key, verifies};

/// The only header that NATS takes.
const HEADER: &str = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;

/// What a JWT says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// A digest of the other fields.
    #[serde(default)]
    pub jti: String,
    /// When it was signed, in seconds since 1970.
    pub iat: i64,
    /// When it ends to be good; never if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// The public key of who signed it.
    pub iss: String,
    /// A name for people.
    #[serde(default)]
    pub name: String,
    /// The public key of whom it is about.
    pub sub: String,
    /// The part that depends on the kind of claims.
    pub nats: Value,
}

impl Claims {
    /// Claims about the owner of the public key `subject`, to be signed by `issuer` at a time in seconds since 1970.
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

    /// The JWT, signed by `issuer`.
    pub fn sign(mut self, issuer: &Key) -> String {
        self.jti.clear();
        self.jti = BASE32_NOPAD.encode(&Sha256::digest(json_of(&self)));
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(json_of(&self)));
        let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Reads a JWT, and checks that whom it names as its issuer signed it.
    ///
    /// # Errors
    /// If it cannot be read, or the signature is not the issuer's.
    pub fn read(token: &str) -> Result<Self, Error> {
        let problem = |problem| Error::Token { problem };
        let (signed, signature) =
            token.rsplit_once('.').ok_or(problem("it has not three parts with dots between them"))?;
        let (_, body) =
            signed.split_once('.').ok_or(problem("it has not three parts with dots between them"))?;
        let decoded =
            |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| problem("a part of it is not Base64"));
        let claims: Self = serde_json::from_slice(&decoded(body)?)
            .map_err(|_| problem("its claims are not those of a NATS JWT"))?;
        if verifies(&claims.iss, signed.as_bytes(), &decoded(signature)?) {
            Ok(claims)
        } else {
            Err(problem("its signature is not that of the issuer that it names"))
        }
    }

    /// The tag that begins with this name and a colon, without them.
    pub fn tag(&self, name: &str) -> Option<&str> {
        let tags = self.nats["tags"].as_array()?;
        tags.iter().filter_map(Value::as_str).find_map(|tag| tag.strip_prefix(name)?.strip_prefix(':'))
    }
}

fn json_of(claims: &Claims) -> Vec<u8> {
    serde_json::to_vec(claims).expect("claims always have a JSON form")
}

/// The subjects to allow, as claims have them; an empty list allows nothing.
pub(crate) fn allow<'a>(subjects: impl IntoIterator<Item = &'a String>) -> Value {
    let subjects: Vec<_> = subjects.into_iter().collect();
    json!({ "allow": subjects })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyKind;

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
