//! Sees to it that the cluster has a key to sign with. The private half goes into the database alone, and before the public
//! one: a key that everybody knows can always be signed with.

use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use model::keyring::RootKey;
use model::{Index, RootKeyId, Text, Timestamp};
use telemetry::clock;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::command::{AddRootKey, Command};

use crate::Surroundings;

/// How long the command is tried.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);
/// After a failure, when all is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Keys are looked after until this is dropped.
#[derive(Debug)]
pub(crate) struct Keyring {
    _end: DropGuard,
}

impl Keyring {
    pub(crate) fn start(around: &Surroundings) -> Self {
        let end = CancellationToken::new();
        tokio::spawn(end.clone().run_until_cancelled_owned(provide(around.clone())));
        Self { _end: end.drop_guard() }
    }
}

/// Tries until there is a key.
async fn provide(around: Surroundings) {
    while let Err(error) = make(&around).await {
        tracing::warn!(error = format!("{error:#}"), "the cluster has no key to sign with yet");
        tokio::time::sleep(AGAIN).await;
    }
}

/// Makes a key if there is none.
async fn make(around: &Surroundings) -> anyhow::Result<()> {
    if around.replica.snapshot().root_keys().next().is_some() {
        return Ok(());
    }
    // Large primes take a while to find.
    let made = tokio::task::spawn_blocking(Made::new).await.expect("making a key does not panic");
    let Made { key, secret } = made.context("cannot make a key")?;
    let id = key.id;
    around.writer.store_root_key(id, secret.as_ref()).await.context("cannot keep a key")?;
    around.bus.command(&Command::AddRootKey(AddRootKey { key }), COMMAND_WITHIN).await?;
    tracing::info!(key.id = %id, "the cluster has a key to sign with");
    Ok(())
}

/// A new key, and its private half (PKCS #8).
struct Made {
    key: RootKey,
    secret: Pkcs8V1Der<'static>,
}

impl Made {
    fn new() -> Result<Self, aws_lc_rs::error::Unspecified> {
        let pair = KeyPair::generate(KeySize::Rsa2048)?;
        let public = pair.public_key();
        let text = |number: &[u8]| Text::from(BASE64_URL_SAFE_NO_PAD.encode(number));
        let key = RootKey {
            id: RootKeyId(uuid::Builder::from_random_bytes(clock::random_bytes()).into_uuid()),
            modulus: text(public.modulus().big_endian_without_leading_zero()),
            exponent: text(public.exponent().big_endian_without_leading_zero()),
            create_time: Timestamp::UNSET,
            create_index: Index::ZERO,
            modify_index: Index::ZERO,
        };
        Ok(Self { key, secret: pair.as_der()? })
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::PublicKeyComponents;
    use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256};

    use super::*;

    #[test]
    fn what_the_private_half_signs_the_public_one_proves() {
        let Made { key, secret } = Made::new().unwrap();
        let pair = KeyPair::from_pkcs8(secret.as_ref()).unwrap();
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), b"claims", &mut signature).unwrap();
        let number = |text: &Text| BASE64_URL_SAFE_NO_PAD.decode(&**text).unwrap();
        let public = PublicKeyComponents { n: number(&key.modulus), e: number(&key.exponent) };
        public.verify(&RSA_PKCS1_2048_8192_SHA256, b"claims", &signature).unwrap();
        assert!(public.verify(&RSA_PKCS1_2048_8192_SHA256, b"others", &signature).is_err());
        assert_ne!(Made::new().unwrap().key.id, key.id);
    }
}
