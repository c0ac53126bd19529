//! The users that tasks may not run as: a list of the operator, for the drivers that it applies to (A-9.6). Pure: who a
//! user is comes from the caller.

use model::text::quoted;

use crate::account::Account;

/// The users that are denied by default (A-31).
pub(crate) const DENIED_USERS: [&str; 2] = ["root", "Administrator"];
/// The drivers that the list applies to by default (A-31).
pub(crate) const CHECKED_DRIVERS: [&str; 3] = ["exec", "qemu", "java"];

/// The user id of the superuser, who may have several names.
const SUPERUSER: u32 = 0;
/// The usual name of the superuser.
const SUPERUSER_NAME: &str = "root";

/// The list of denied users, and the drivers that it applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserRules {
    denied: Vec<String>,
    drivers: Vec<String>,
}

impl UserRules {
    /// Rules with these users and drivers. Empty names are left out.
    pub(crate) fn new(denied: Vec<String>, drivers: Vec<String>) -> Self {
        let trimmed = |names: Vec<String>| {
            let names = names.into_iter().map(|name| name.trim().to_owned());
            names.filter(|name| !name.is_empty()).collect()
        };
        Self { denied: trimmed(denied), drivers: trimmed(drivers) }
    }

    /// Checks the user of a task. `account` is what the machine knows of the user. The superuser is denied under every name
    /// if it is denied under its usual one. A task that names no user runs as the driver decides.
    ///
    /// # Errors
    /// If the task may not run as this user. The text is for users.
    pub(crate) fn check(&self, driver: &str, user: &str, account: Option<&Account>) -> Result<(), String> {
        if user.is_empty() || !self.drivers.iter().any(|checked| checked == driver) {
            return Ok(());
        }
        let is_denied = |name: &str| self.denied.iter().any(|denied| denied == name);
        let is_superuser = account.is_some_and(|account| account.uid == SUPERUSER);
        if is_denied(user) || is_superuser && is_denied(SUPERUSER_NAME) {
            return Err(format!(
                "running as user {} is disallowed with driver {}",
                quoted(user),
                quoted(driver)
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> UserRules {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        UserRules::new(owned(&DENIED_USERS), owned(&CHECKED_DRIVERS))
    }

    #[test]
    fn denied_users_are_denied_to_checked_drivers_only() {
        let rules = defaults();
        let refused = r#"running as user "root" is disallowed with driver "exec""#;
        assert_eq!(rules.check("exec", "root", None).unwrap_err(), refused);
        assert!(rules.check("java", "Administrator", None).is_err());
        assert_eq!(rules.check("raw_exec", "root", None), Ok(()));
        assert_eq!(rules.check("exec", "www-data", None), Ok(()));
        assert_eq!(rules.check("exec", "", None), Ok(()), "the driver decides");
    }

    #[test]
    fn another_name_of_the_superuser_is_no_way_around() {
        let toor = Account::for_tests("toor", 0, 0, &[]);
        assert!(defaults().check("exec", "toor", Some(&toor)).is_err());
        let others = UserRules::new(vec!["www-data".to_owned(), " ".to_owned()], vec!["exec".to_owned()]);
        assert_eq!(others.check("exec", "toor", Some(&toor)), Ok(()));
        assert!(others.check("exec", "www-data", None).is_err());
    }
}
