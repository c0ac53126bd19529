//! Keys: Ed25519 key pairs in the text form of NATS, which contains the kind of the owner.

use std::fmt;

use nkeys::KeyPair;

use crate::error::Error;
use crate::key_kind::KeyKind;

/// A source of unpredictable random bytes for new keys.
pub type Random<'a> = &'a mut dyn FnMut() -> [u8; 32];

/// A key pair.
#[derive(Clone)]
pub struct Key(KeyPair);

impl Key {
    /// Creates a key.
    pub fn new(kind: KeyKind, random: Random<'_>) -> Self {
        Self(KeyPair::new_from_raw(kind.key_pair_type(), random()).expect("any 32 bytes are an Ed25519 seed"))
    }

    /// Reads a key from its seed.
    ///
    /// # Errors
    /// If the text is not the seed of such a key. The error does not contain the text.
    pub fn from_seed(kind: KeyKind, seed: &str) -> Result<Self, Error> {
        let problem = |problem: &str| Error::Seed { expected: kind, problem: problem.to_owned() };
        let pair = KeyPair::from_seed(seed.trim()).map_err(|_| problem("it is malformed"))?;
        if pair.key_pair_type() == kind.key_pair_type() {
            Ok(Self(pair))
        } else {
            Err(problem(&format!("it belongs to another kind of key ({:?})", pair.key_pair_type())))
        }
    }

    /// The secret half, which only the owner may read.
    pub fn seed(&self) -> String {
        self.0.seed().expect("the key pair contains its secret half")
    }

    /// The public half, which is also the name of the owner.
    pub fn public(&self) -> String {
        self.0.public_key()
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).expect("the key pair contains its secret half")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.public())
    }
}

/// Checks that a text is a public key of this kind.
pub(crate) fn check_public(kind: KeyKind, text: &str) -> Result<(), Error> {
    let unusable = || Error::PublicKey { expected: kind, text: text.to_owned() };
    let pair = KeyPair::from_public_key(text).map_err(|_| unusable())?;
    if pair.key_pair_type() == kind.key_pair_type() { Ok(()) } else { Err(unusable()) }
}

/// Whether `signature` was made for `message` with the secret half of the key `public`.
pub(crate) fn verifies(public: &str, message: &[u8], signature: &[u8]) -> bool {
    KeyPair::from_public_key(public).is_ok_and(|pair| pair.verify(message, signature).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_key_again() {
        let key = Key::new(KeyKind::Account, &mut || [7; 32]);
        assert!(key.seed().starts_with("SA") && key.public().starts_with('A'));
        let again = Key::from_seed(KeyKind::Account, &format!(" {}\n", key.seed())).unwrap();
        assert_eq!(again.public(), key.public());
        assert!(verifies(&key.public(), b"text", &again.sign(b"text")));
        assert!(!verifies(&key.public(), b"other", &again.sign(b"text")));
        assert!(!format!("{key:?}").contains(&key.seed()));
    }

    #[test]
    fn another_kind_of_seed_is_refused_without_showing_it() {
        let user = Key::new(KeyKind::User, &mut || [7; 32]).seed();
        let error = Key::from_seed(KeyKind::Account, &user).unwrap_err().to_string();
        assert_eq!(error, "this is not the seed of an account: it belongs to another kind of key (User)");
        let error = Key::from_seed(KeyKind::User, &user[..20]).unwrap_err().to_string();
        assert_eq!(error, "this is not the seed of a user: it is malformed");
    }
}
