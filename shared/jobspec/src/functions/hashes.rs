//! Hashes, passwords, identifiers, and decryption with a private key.

use aws_lc_rs::rsa::{Pkcs1PrivateDecryptingKey, PrivateDecryptingKey};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use uuid::Uuid;

use super::{Context, Failure, FunctionResult, bad_argument, fail, text_of, whole};
use crate::value::Value;

/// The logarithm of the work factor of a password hash. The default applies if it is absent or less than the minimum.
const COST_DEFAULT: u32 = 10;
const COST_LEAST: u32 = 4;
/// The maximum takes about a second.
const COST_MOST: u32 = 14;
/// bcrypt would truncate longer passwords.
const PASSWORD_BYTES_MAX: usize = 72;
/// The cost of a password hash, in steps of an evaluation, for each unit of its work factor.
const HASH_STEPS: usize = 512;
/// Maximum size of a private key, in bytes of DER. A key of 8192 bits has some 4700.
const KEY_BYTES_MAX: usize = 8192;
/// A decryption with a key of `n` bytes takes as long as `n * n / STEP_KEY_BYTES` steps of an evaluation.
const STEP_KEY_BYTES: usize = 64;

/// Bytes derived from a seed and a number.
pub(super) fn derived(seed: &[u8; 16], number: u32) -> [u8; 16] {
    let digest = Sha256::new().chain_update(seed).chain_update(number.to_be_bytes()).finalize();
    digest[..16].try_into().expect("a SHA-256 digest has 32 bytes")
}

fn digest<D: Digest>(arguments: &[Value]) -> FunctionResult {
    let digest = D::digest(text_of(&arguments[0]).as_bytes());
    Ok(Value::Text(digest.iter().map(|byte| format!("{byte:02x}")).collect()))
}

pub(super) fn md5(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    digest::<Md5>(&arguments)
}

pub(super) fn sha1(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    digest::<Sha1>(&arguments)
}

pub(super) fn sha256(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    digest::<Sha256>(&arguments)
}

pub(super) fn sha512(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    digest::<Sha512>(&arguments)
}

/// The hash of a password, with an optional cost.
pub(super) fn bcrypt(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let cost = match arguments.len() {
        1 => COST_DEFAULT,
        2 => match u32::try_from(whole(&arguments, 1)?.max(0)) {
            Ok(cost) if cost < COST_LEAST => COST_DEFAULT,
            Ok(cost) if cost <= COST_MOST => cost,
            _ => return bad_argument(1, format!("the cost must be at most {COST_MOST}")),
        },
        _ => return fail("a text and an optional cost are required"),
    };
    let password = text_of(&arguments[0]);
    if password.len() > PASSWORD_BYTES_MAX {
        return fail(format!("the text has more than {PASSWORD_BYTES_MAX} bytes"));
    }
    context.take_steps(HASH_STEPS << cost)?;
    match bcrypt::hash_with_salt(password, cost, context.random()) {
        Ok(hash) => Ok(Value::text(hash.format_for_version(bcrypt::Version::TwoA))),
        Err(error) => fail(error.to_string()),
    }
}

pub(super) fn uuidv4(context: &Context<'_>, _: Vec<Value>) -> FunctionResult {
    Ok(Value::text(uuid::Builder::from_random_bytes(context.random()).into_uuid().to_string()))
}

/// A UUID derived from a namespace and a name.
pub(super) fn uuidv5(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let namespace = match text_of(&arguments[0]) {
        "dns" => Uuid::NAMESPACE_DNS,
        "url" => Uuid::NAMESPACE_URL,
        "oid" => Uuid::NAMESPACE_OID,
        "x500" => Uuid::NAMESPACE_X500,
        other => match other.parse() {
            Ok(namespace) => namespace,
            Err(_) => return fail("the namespace must be dns, url, oid, x500 or a UUID"),
        },
    };
    Ok(Value::text(Uuid::new_v5(&namespace, text_of(&arguments[1]).as_bytes()).to_string()))
}

/// Decrypts a text that is encrypted with PKCS #1 v1.5 and encoded in base64.
pub(super) fn rsadecrypt(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let Ok(encrypted) = BASE64_STANDARD.decode(text_of(&arguments[0])) else {
        return bad_argument(0, "the text is not base64");
    };
    let key = key_in_pem(text_of(&arguments[1])).filter(|key| key.len() <= KEY_BYTES_MAX);
    context.take_steps(key.as_ref().map_or(1, |key| key.len() * key.len() / STEP_KEY_BYTES))?;
    let Some(key) = key.and_then(|key| private_key(&key)) else {
        return bad_argument(1, "a private RSA key in PEM without a passphrase is required");
    };
    let mut decrypted = vec![0; key.min_output_size()];
    match key.decrypt(&encrypted, &mut decrypted).map(|plain| String::from_utf8(plain.to_vec())) {
        Ok(Ok(text)) => Ok(Value::text(text)),
        Ok(Err(_)) => fail("the decrypted bytes are not UTF-8 text"),
        Err(_) => Err(Failure::Call("the key cannot decrypt the text".to_owned())),
    }
}

/// The private key in a PEM file, in PKCS #8. The file may contain PKCS #1 instead.
fn key_in_pem(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    let (kind, rest) = rest.split_once("-----")?;
    let (content, _) = rest.split_once("-----END ")?;
    let content: String = content.chars().filter(|c| !c.is_whitespace()).collect();
    let der = BASE64_STANDARD.decode(content).ok()?;
    match kind {
        "PRIVATE KEY" => Some(der),
        "RSA PRIVATE KEY" => Some(in_pkcs8(&der)),
        _ => None,
    }
}

fn private_key(pkcs8: &[u8]) -> Option<Pkcs1PrivateDecryptingKey> {
    Pkcs1PrivateDecryptingKey::new(PrivateDecryptingKey::from_pkcs8(pkcs8).ok()?).ok()
}

/// Wraps a PKCS #1 key in PKCS #8: a version, the algorithm, and the key.
fn in_pkcs8(key: &[u8]) -> Vec<u8> {
    const VERSION_AND_ALGORITHM: [u8; 18] = [
        0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05,
        0x00,
    ];
    let tagged = |tag: u8, content: &[u8]| {
        let length = (content.len() as u32).to_be_bytes();
        [&[tag, 0x84][..], &length, content].concat()
    };
    tagged(0x30, &[&VERSION_AND_ALGORITHM[..], &tagged(0x04, key)].concat())
}
