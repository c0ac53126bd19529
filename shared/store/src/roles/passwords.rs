//! Passwords of the roles: generated at random, or read from the files that services read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use aws_lc_rs::rand;

use super::Role;
use crate::args;
use crate::error::Error;

/// Random bytes in a password.
const PASSWORD_BYTES: usize = 24;
/// The file of a role's password in its service's directory.
pub const PASSWORD_FILE: &str = "postgres-password";

/// The passwords of all roles or of some. `Debug` shows only the roles.
#[derive(Clone, Default)]
pub struct Passwords(BTreeMap<Role, String>);

impl Passwords {
    /// Generates passwords for all roles.
    pub fn random() -> Self {
        Self(Role::ALL.into_iter().map(|role| (role, Self::random_one())).collect())
    }

    /// Generates a password of hexadecimal digits, which need no escaping in URLs, files and SQL.
    pub fn random_one() -> String {
        random::<PASSWORD_BYTES>().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads passwords from the files `<dir>/<service>/postgres-password`, the layout of `drover operator init`. A role
    /// without a file has no password.
    ///
    /// # Errors
    /// If a file cannot be read, or does not contain a password.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let mut passwords = BTreeMap::new();
        for role in Role::ALL {
            let path = dir.join(role.service()).join(PASSWORD_FILE);
            if path.try_exists().map_err(|source| Error::PasswordFile { path: path.clone(), source })? {
                passwords.insert(role, args::password(&path)?);
            }
        }
        Ok(Self(passwords))
    }

    /// The password of a role.
    pub fn of(&self, role: Role) -> Option<&str> {
        self.0.get(&role).map(String::as_str)
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the operating system provides random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_passwords_differ_and_keep_to_themselves() {
        let passwords = Passwords::random();
        let mut all: Vec<&str> = Role::ALL.into_iter().filter_map(|role| passwords.of(role)).collect();
        let shown = format!("{passwords:?}");
        assert!(all.iter().all(|password| password.len() == 2 * PASSWORD_BYTES && !shown.contains(password)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), Role::ALL.len());
    }
}
