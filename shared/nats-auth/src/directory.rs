//! The files about NATS in an operator's directory, by their paths within it.
//!
//! | path | contents |
//! |---|---|
//! | `operator/nats-*.seed` | keys of the operator, the accounts and the signing keys |
//! | `operator/nats-system.creds` | credentials for inspecting servers |
//! | `operator/nats-revoked` | revoked users |
//! | `nats/auth.conf` | operator and accounts that servers trust |
//! | `<role>/nats.creds` | credentials of each service |
//! | `agent/node.key` | key for agents |

use wire::Role;
use wire::permissions::Purpose;

use crate::error::Error;
use crate::identity::Issuer;
use crate::key::{Key, Random};
use crate::key_kind::KeyKind;
use crate::server;

/// The file with the operator and the accounts that servers trust.
pub const SERVER: &str = "nats/auth.conf";
/// The file with the key that signs for nodes.
pub const NODE_KEY: &str = "agent/node.key";
/// The file with credentials of the system account.
pub const SYSTEM: &str = "operator/nats-system.creds";
/// The file with revoked users: on each line a public key and a time in seconds since 1970.
pub const REVOKED: &str = "operator/nats-revoked";

const OPERATOR_SEED: &str = "operator/nats-operator.seed";
const SYSTEM_SEED: &str = "operator/nats-system-account.seed";
const ACCOUNT_SEED: &str = "operator/nats-account.seed";
const SERVICE_SIGNER_SEED: &str = "operator/nats-service-signer.seed";
const NODE_SIGNER_SEED: &str = "operator/nats-node-signer.seed";

/// A file to write.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Path within the directory, with `/` as the separator.
    pub path: String,
    /// Contents.
    pub text: String,
    /// Whether only its owner may read it.
    pub is_secret: bool,
}

impl File {
    fn secret(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), text, is_secret: true }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({})", self.path)
    }
}

/// Reads a file of the directory by its path within it; `None` if the file does not exist.
pub type Reader<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The path of a role's credentials.
pub fn credentials(role: Role) -> String {
    format!("{role}/nats.creds")
}

/// Creates the files that are missing in the directory, from the keys that it contains; all files for an empty
/// directory. Existing files are not changed, so a second call creates nothing.
///
/// # Errors
/// If an existing file of the operator cannot be used.
pub fn missing(read: Reader<'_>, random: Random<'_>, now_secs: i64) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    let mut key = |kind, path: &str| match read(path) {
        Some(seed) => key_from_seed(kind, path, &seed),
        None => {
            let key = Key::new(kind, random);
            files.push(File::secret(path, format!("{}\n", key.seed())));
            Ok(key)
        }
    };
    let issuer = Issuer {
        operator: key(KeyKind::Operator, OPERATOR_SEED)?,
        system: key(KeyKind::Account, SYSTEM_SEED)?,
        account: key(KeyKind::Account, ACCOUNT_SEED)?,
        service_signer: key(KeyKind::Account, SERVICE_SIGNER_SEED)?,
        node_signer: key(KeyKind::Account, NODE_SIGNER_SEED)?,
        purpose: Purpose::Cluster,
    };
    let is_missing = |path: &str| read(path).is_none();
    if is_missing(SYSTEM) {
        files.push(File::secret(SYSTEM, issuer.system_user(random, now_secs).text()));
    }
    if is_missing(SERVER) {
        files.push(server_file(&issuer, &revoked(read)?, now_secs));
    }
    for role in Role::SERVICES {
        let path = credentials(role);
        if is_missing(&path) {
            files.push(File::secret(&path, issuer.service(role, random, now_secs)?.text()));
        }
    }
    if is_missing(NODE_KEY) {
        files.push(File::secret(NODE_KEY, issuer.node_key().text()));
    }
    Ok(files)
}

/// The keys of a directory that [`missing`] has filled.
///
/// # Errors
/// If a key is missing or cannot be used.
pub fn issuer(read: Reader<'_>) -> Result<Issuer, Error> {
    let key = |kind, path: &str| match read(path) {
        Some(seed) => key_from_seed(kind, path, &seed),
        None => Err(Error::Missing { path: path.to_owned() }),
    };
    Ok(Issuer {
        operator: key(KeyKind::Operator, OPERATOR_SEED)?,
        system: key(KeyKind::Account, SYSTEM_SEED)?,
        account: key(KeyKind::Account, ACCOUNT_SEED)?,
        service_signer: key(KeyKind::Account, SERVICE_SIGNER_SEED)?,
        node_signer: key(KeyKind::Account, NODE_SIGNER_SEED)?,
        purpose: Purpose::Cluster,
    })
}

/// The files to write in order to revoke a user. Servers that have read them refuse JWTs of the public key `user` that
/// were signed up to now.
///
/// # Errors
/// If `user` is not the public key of a user, or a file of the operator is missing or cannot be used.
pub fn revoke(read: Reader<'_>, user: &str, now_secs: i64) -> Result<Vec<File>, Error> {
    crate::key::check_public(KeyKind::User, user)?;
    let issuer = issuer(read)?;
    let mut revoked = revoked(read)?;
    revoked.retain(|(known, _)| known != user);
    revoked.push((user.to_owned(), now_secs));
    let list: String = revoked.iter().map(|(user, at)| format!("{user} {at}\n")).collect();
    let list = File { path: REVOKED.to_owned(), text: list, is_secret: false };
    Ok(vec![list, server_file(&issuer, &revoked, now_secs)])
}

fn server_file(issuer: &Issuer, revoked: &[(String, i64)], now_secs: i64) -> File {
    let text = server::configuration(issuer, revoked, now_secs);
    File { path: SERVER.to_owned(), text, is_secret: false }
}

fn revoked(read: Reader<'_>) -> Result<Vec<(String, i64)>, Error> {
    let text = read(REVOKED).unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let revoked = lines.map(|line| {
        let (user, at) = line.split_once(' ').unwrap_or((line, ""));
        crate::key::check_public(KeyKind::User, user)?;
        let at = at.trim().parse().map_err(|_| Error::Token { problem: "a revoked user without a time" })?;
        Ok((user.to_owned(), at))
    });
    revoked.collect::<Result<_, _>>().map_err(|source: Error| file_error(REVOKED, source))
}

fn key_from_seed(kind: KeyKind, path: &str, seed: &str) -> Result<Key, Error> {
    Key::from_seed(kind, seed).map_err(|source| file_error(path, source))
}

fn file_error(path: &str, source: Error) -> Error {
    Error::File { path: path.to_owned(), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::claims::Claims;
    use crate::creds::Credentials;
    use crate::node_key::NodeKey;

    fn counting_random() -> impl FnMut() -> [u8; 32] {
        let mut count = 0;
        move || {
            count += 1;
            [count; 32]
        }
    }

    fn missing_files(existing: &BTreeMap<String, String>) -> Result<Vec<File>, Error> {
        missing(&|path| existing.get(path).cloned(), &mut counting_random(), 1_700_000_000)
    }

    fn directory() -> BTreeMap<String, String> {
        missing_files(&BTreeMap::new()).unwrap().into_iter().map(|file| (file.path, file.text)).collect()
    }

    #[test]
    fn an_empty_directory_gets_everything_and_a_full_one_nothing() {
        let files = missing_files(&BTreeMap::new()).unwrap();
        let open: Vec<_> =
            files.iter().filter(|file| !file.is_secret).map(|file| file.path.as_str()).collect();
        assert_eq!(open, [SERVER], "files that are not secret");
        let directory = directory();
        for role in Role::SERVICES {
            let credentials = Credentials::read(&directory[&credentials(role)]).unwrap();
            assert_eq!(credentials.claims.name, role.as_str());
        }
        assert!(NodeKey::read(&directory[NODE_KEY]).is_ok());
        assert_eq!(missing_files(&directory).unwrap(), []);
    }

    #[test]
    fn missing_files_are_made_with_the_existing_keys() {
        let mut directory = directory();
        let (before, _) = (directory.remove("api/nats.creds").unwrap(), directory.remove(SERVER));
        let files = missing_files(&directory).unwrap();
        assert_eq!(
            files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
            [SERVER, "api/nats.creds"]
        );
        let issuer_of = |text: &str| Credentials::read(text).unwrap().claims.iss;
        assert_eq!(issuer_of(&files[1].text), issuer_of(&before));
    }

    #[test]
    fn a_damaged_seed_is_named_and_not_replaced() {
        let mut directory = directory();
        directory.insert(ACCOUNT_SEED.to_owned(), "SAxyz".to_owned());
        let error = missing_files(&directory).unwrap_err();
        assert_eq!(error.to_string(), "cannot use operator/nats-account.seed");
        directory.remove(ACCOUNT_SEED);
        let error = issuer(&|path| directory.get(path).cloned()).unwrap_err().to_string();
        assert!(error.contains("operator/nats-account.seed is missing"), "{error}");
    }

    #[test]
    fn a_revoked_user_is_in_the_account() {
        let mut directory = directory();
        let user = Credentials::read(&directory["api/nats.creds"]).unwrap().claims.sub;
        let operator =
            |server: &str| server.lines().find(|line| line.starts_with("operator: ")).map(str::to_owned);
        let before = operator(&directory[SERVER]);
        let files = revoke(&|path| directory.get(path).cloned(), &user, 1_800_000_000).unwrap();
        for file in files {
            directory.insert(file.path, file.text);
        }
        assert!(
            before.is_some() && operator(&directory[SERVER]) == before,
            "a reload must not change the operator"
        );
        let jwts = directory[SERVER].lines().filter_map(|line| line.trim().split_once(": "));
        let account =
            jwts.filter_map(|(_, jwt)| Claims::read(jwt).ok()).find(|claims| claims.name == "DROVER");
        assert_eq!(account.unwrap().nats["revocations"][&user], 1_800_000_000);
        let error = revoke(&|path| directory.get(path).cloned(), "somebody", 0).unwrap_err().to_string();
        assert_eq!(error, "\"somebody\" is not the public key of a user");
    }
}
