//! Creates the key that the cluster signs with, if there is none. The private half is stored in the database only, and
//! before the public half is committed, so that a private half exists for every public key in the state.

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
use telemetry::repeats::{Outage, Repeats};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::command::{AddRootKey, Command};

use crate::Context;

/// How long the command is retried.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause before a retry of the whole.
const RETRY: Duration = Duration::from_secs(5);

/// Creates a key in the background until it is dropped.
#[derive(Debug)]
pub(crate) struct Keyring {
    _end: DropGuard,
}

impl Keyring {
    pub(crate) fn start(context: &Context) -> Self {
        let end = CancellationToken::new();
        tokio::spawn(end.clone().run_until_cancelled_owned(ensure_key_with_retries(context.clone())));
        Self { _end: end.drop_guard() }
    }
}

/// Retries until there is a key.
async fn ensure_key_with_retries(context: Context) {
    let outage = Outage::default();
    while let Err(error) = ensure_key(&context).await {
        let error = format!("{error:#}");
        if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, clock::monotonic()) {
            tracing::warn!(error, attempts, lasting_secs, "cannot create the cluster's signing key");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Creates a key if there is none.
async fn ensure_key(context: &Context) -> anyhow::Result<()> {
    if context.replica.snapshot().root_keys().next().is_some() {
        return Ok(());
    }
    // Finding large primes takes a while.
    let new = tokio::task::spawn_blocking(NewKey::new).await.expect("key generation does not panic");
    let NewKey { key, secret } = new.context("cannot generate a key")?;
    let id = key.id;
    context.writer.store_root_key(id, secret.as_ref()).await.context("cannot store the private key")?;
    context.bus.command(&Command::AddRootKey(AddRootKey { key }), COMMAND_TIMEOUT).await?;
    tracing::info!(key.id = %id, "created the cluster's signing key");
    Ok(())
}

/// A new key, and its private half (PKCS #8).
struct NewKey {
    key: RootKey,
    secret: Pkcs8V1Der<'static>,
}

impl NewKey {
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
        let NewKey { key, secret } = NewKey::new().unwrap();
        let pair = KeyPair::from_pkcs8(secret.as_ref()).unwrap();
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), b"claims", &mut signature).unwrap();
        let number = |text: &Text| BASE64_URL_SAFE_NO_PAD.decode(&**text).unwrap();
        let public = PublicKeyComponents { n: number(&key.modulus), e: number(&key.exponent) };
        public.verify(&RSA_PKCS1_2048_8192_SHA256, b"claims", &signature).unwrap();
        assert!(public.verify(&RSA_PKCS1_2048_8192_SHA256, b"others", &signature).is_err());
        assert_ne!(NewKey::new().unwrap().key.id, key.id);
    }
}
