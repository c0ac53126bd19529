//! Checksums of downloads: their names and texts, lists of them, and their computation.

use std::io::{self, Read};

use md5::Md5;
use model::text::quoted;
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

/// The number of bytes that are read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// The beginning of an option that names a file of checksums.
const PREFIX: &str = "file:";

/// How a checksum is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Algorithm {
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// A checksum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    /// How it is computed.
    pub(crate) algorithm: Algorithm,
    /// The value.
    pub(crate) digest: Vec<u8>,
}

/// A checksum, or where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Checksum {
    /// The checksum itself.
    Digest(Expected),
    /// The URL of a file of checksums.
    File(String),
}

impl Algorithm {
    const ALL: [(&'static str, Self, usize); 4] = [
        ("md5", Self::Md5, 16),
        ("sha1", Self::Sha1, 20),
        ("sha256", Self::Sha256, 32),
        ("sha512", Self::Sha512, 64),
    ];

    fn named(name: &str) -> Option<(Self, usize)> {
        let found = Self::ALL.iter().find(|(known, _, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, algorithm, bytes)| (*algorithm, *bytes))
    }

    fn of_length(bytes: usize) -> Option<Self> {
        Self::ALL.iter().find(|(_, _, length)| *length == bytes).map(|(_, algorithm, _)| *algorithm)
    }
}

/// Reads the option `checksum`: `type:value`, `file:URL`, or a value whose length says its type.
///
/// # Errors
/// If it is not valid.
pub(super) fn read(text: &str) -> Result<Checksum, String> {
    let text = text.trim();
    if let Some(url) = text.strip_prefix(PREFIX) {
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        return if is_web {
            Ok(Checksum::File(url.to_owned()))
        } else {
            Err("the file of checksums must have a URL with http or https".to_owned())
        };
    }
    let expected = match text.split_once(':') {
        None => plain(text),
        Some((name, value)) => {
            let (algorithm, bytes) = Algorithm::named(name)
                .ok_or_else(|| format!("unsupported checksum type {}", quoted(name)))?;
            unhex(value).filter(|digest| digest.len() == bytes).map(|digest| Expected { algorithm, digest })
        }
    };
    expected.map(Checksum::Digest).ok_or_else(|| format!("invalid checksum {}", quoted(text)))
}

/// A value without a type.
fn plain(text: &str) -> Option<Expected> {
    let digest = unhex(text)?;
    Some(Expected { algorithm: Algorithm::of_length(digest.len())?, digest })
}

/// Finds the checksum of a file in a list: lines such as `VALUE  NAME`, `SHA256 (NAME) = VALUE`, or one value alone.
pub(super) fn find(list: &str, file_name: &str) -> Option<Expected> {
    let is_named = |name: &str| name.trim_start_matches('*').rsplit('/').next() == Some(file_name);
    let mut lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let found = lines.clone().find_map(|line| {
        if let Some((before, value)) = line.rsplit_once(" = ") {
            let name = before.split_once('(')?.1.strip_suffix(')')?;
            return plain(value.trim()).filter(|_| is_named(name));
        }
        let (value, name) = line.split_once(char::is_whitespace)?;
        plain(value).filter(|_| is_named(name.trim_start()))
    });
    found.or_else(|| {
        let only = lines.next()?;
        if lines.next().is_some() { None } else { plain(only) }
    })
}

/// Computes a checksum.
pub(super) fn digest(algorithm: Algorithm, source: impl Read) -> io::Result<Vec<u8>> {
    match algorithm {
        Algorithm::Md5 => hash::<Md5>(source),
        Algorithm::Sha1 => hash::<Sha1>(source),
        Algorithm::Sha256 => hash::<Sha256>(source),
        Algorithm::Sha512 => hash::<Sha512>(source),
    }
}

fn hash<D: Digest>(mut source: impl Read) -> io::Result<Vec<u8>> {
    let mut hash = D::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = match source.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        match chunk.get(..count) {
            None | Some([]) => return Ok(hash.finalize().to_vec()),
            Some(bytes) => hash.update(bytes),
        }
    }
}

/// The text of a value.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The value of a text of hexadecimal digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|char| char.to_digit(16)).collect();
    let digits = digits?;
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| {
            pair.iter()
                .try_fold(0_u8, |sum, digit| sum.checked_mul(16)?.checked_add(u8::try_from(*digit).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksums of `hello`.
    const MD5: &str = "5d41402abc4b2a76b9719d911017c592";
    const SHA1: &str = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d";
    const SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    //
    #[test]
    fn checksums_name_their_type() {
        for (text, algorithm) in [
            (format!("md5:{MD5}"), Algorithm::Md5),
            (format!("sha1:{SHA1}"), Algorithm::Sha1),
            (format!(" sha256:{SHA256}"), Algorithm::Sha256),
            (SHA256.to_uppercase(), Algorithm::Sha256),
        ] {
            let Ok(Checksum::Digest(expected)) = read(&text) else { panic!("{text}") };
            assert_eq!(expected.algorithm, algorithm, "{text}");
            assert_eq!(digest(algorithm, &b"hello"[..]).unwrap(), expected.digest, "{text}");
            assert_eq!(hex(&expected.digest), text.rsplit(':').next().unwrap().to_lowercase());
        }
        for invalid in
            ["", "md5:", "md5:zz", "crc:00", "sha1:5d41402abc4b2a76b9719d911017c592", "file:/etc/x"]
        {
            assert!(read(invalid).is_err(), "{invalid}");
        }
        let list = "file:https://example.org/SUMS";
        assert_eq!(read(list), Ok(Checksum::File("https://example.org/SUMS".to_owned())));
    }

    #[test]
    fn a_checksum_is_found_in_a_list() {
        let digest = plain(SHA256).unwrap();
        for list in [
            format!("{MD5}  other\n{SHA256}  tool.zip\n"),
            format!("# sums\n{SHA256} *dist/tool.zip\n{MD5}  other"),
            format!("SHA256 (tool.zip) = {SHA256}\n"),
            format!("{SHA256}\n"),
        ] {
            assert_eq!(find(&list, "tool.zip").as_ref(), Some(&digest), "{list}");
        }
        assert_eq!(find(&format!("{SHA256}  other\n{MD5}  another"), "tool.zip"), None);
    }
}
