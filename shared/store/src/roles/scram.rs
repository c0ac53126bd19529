//! SCRAM verifiers, which PostgreSQL stores in place of passwords and accepts in `alter role … password`.

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// PostgreSQL's default, with which it checks a password in a few milliseconds. Generated passwords are random, so more
/// iterations would not make them safer.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4_096).expect("the number of iterations is not zero");
/// Length of a salt; the same as PostgreSQL's.
pub(super) const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// The verifier of a password (RFC 5803). Passwords are printable ASCII, which SASLprep does not change.
pub(super) fn verifier(password: &str, salt: [u8; SALT_BYTES]) -> String {
    let mut salted = [0; KEY_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, password.as_bytes(), &mut salted);
    let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client_key = hmac::sign(&salted, b"Client Key");
    let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
    let server_key = hmac::sign(&salted, b"Server Key");
    format!(
        "SCRAM-SHA-256${ITERATIONS}:{}${}:{}",
        STANDARD.encode(salt),
        STANDARD.encode(stored_key),
        STANDARD.encode(server_key),
    )
}

/// Whether a verifier belongs to the password.
pub(super) fn is_verifier_of(given: &str, password: &str) -> bool {
    let salt = given.split([':', '$']).nth(2).and_then(|salt| STANDARD.decode(salt).ok());
    let salt = salt.and_then(|salt| salt.try_into().ok());
    salt.is_some_and(|salt| verifier(password, salt) == given)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, whose exchange reveals both keys.
    #[test]
    fn a_verifier_is_that_of_the_standards_example() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap().try_into().unwrap();
        assert_eq!(
            verifier("pencil", salt),
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==\
             $WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
    }

    #[test]
    fn a_verifier_is_of_one_password() {
        let given = verifier("secret", [7; SALT_BYTES]);
        assert!(is_verifier_of(&given, "secret"));
        assert!(!is_verifier_of(&given, "Secret"));
        for damaged in ["", "secret", "SCRAM-SHA-256$4096:AAAA$x:y", &given[1..]] {
            assert!(!is_verifier_of(damaged, "secret"), "{damaged}");
        }
    }
}
