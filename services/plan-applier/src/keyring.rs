//! Creates the key that the cluster signs with, if there is none. The private half is stored in the database only, and
//! before the public half is committed, so that a private half exists for every public key in the state. Private halves
//! whose public half was never committed are removed once there is a key.

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

/// Retries until there is a key. All attempts use the same new key.
async fn ensure_key_with_retries(context: Context) {
    let outage = Outage::default();
    let mut generated = Generated::default();
    while let Err(error) = ensure_key(&context, &mut generated).await {
        let error = format!("{error:#}");
        if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, clock::monotonic()) {
            tracing::warn!(error, attempts, lasting_secs, "cannot create the cluster's signing key");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Creates a key if there is none, and removes private halves of keys that do not exist.
async fn ensure_key(context: &Context, generated: &mut Generated) -> anyhow::Result<()> {
    if context.replica.snapshot().root_keys().next().is_none() {
        let NewKey { key, secret } = generated.key().await?;
        context
            .writer
            .store_root_key(key.id, secret.as_ref())
            .await
            .context("cannot store the private key")?;
        let command = Command::AddRootKey(AddRootKey { key: key.clone() });
        let done = context.bus.command(&command, COMMAND_TIMEOUT).await?;
        context.replica.wait_for(done.index).await;
        tracing::info!(key.id = %key.id, "created the cluster's signing key");
    }
    let keys: Vec<RootKeyId> = context.replica.snapshot().root_keys().map(|key| key.id).collect();
    let removed = context.writer.remove_other_root_keys(&keys).await;
    let removed = removed.context("cannot remove private keys that belong to no public key")?;
    if removed > 0 {
        tracing::info!(removed, "removed private keys that belong to no public key");
    }
    Ok(())
}

/// The key that one applier generates. It is the same for all attempts, so that they leave one private half at most.
#[derive(Default)]
struct Generated(Option<NewKey>);

impl Generated {
    /// The key, which is generated at the first call.
    async fn key(&mut self) -> anyhow::Result<&NewKey> {
        let new = match self.0.take() {
            Some(new) => new,
            None => {
                // Finding large primes takes a while.
                let new = tokio::task::spawn_blocking(NewKey::new).await;
                new.expect("key generation does not panic").context("cannot generate a key")?
            }
        };
        Ok(self.0.insert(new))
    }
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
    fn the_public_key_verifies_what_the_private_key_signs() {
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

    #[tokio::test]
    async fn all_attempts_of_an_applier_use_one_key() {
        let mut generated = Generated::default();
        let first = generated.key().await.unwrap().key.id;
        assert_eq!(generated.key().await.unwrap().key.id, first);
    }
}
