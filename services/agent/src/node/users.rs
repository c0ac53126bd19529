//! The users that tasks may not run as (A-9.6). Pure.

use model::text::quoted;

use crate::account::Account;

/// The users that no task may run as if the operator does not say otherwise, and the drivers for which this holds.
pub(super) const DENYLIST: &str = "root,Administrator";
pub(super) const CHECKED_DRIVERS: &str = "exec,qemu,java";

/// The name of the user who may do everything.
const ROOT: &str = "root";

/// The users that tasks of some drivers may not run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeniedUsers {
    /// Names of users.
    pub(crate) names: Vec<String>,
    /// Names of drivers.
    pub(crate) checked_drivers: Vec<String>,
}

impl DeniedUsers {
    /// Refuses a user by the name that the task gives, and root by its id, because it may have other names. An empty name
    /// is the agent's own user.
    pub(crate) fn check(&self, driver: &str, user: &str, account: Option<&Account>) -> Result<(), String> {
        if !self.checked_drivers.iter().any(|checked| checked == driver) {
            return Ok(());
        }
        let is_denied = |name: &str| self.names.iter().any(|denied| denied == name);
        let is_root = account.is_some_and(|account| account.uid == 0);
        if is_denied(user) || is_root && is_denied(ROOT) {
            let user = if user.is_empty() { ROOT } else { user };
            return Err(format!("running as user {} is disallowed", quoted(user)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        list.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn root_is_denied_by_name_and_by_id() {
        let denied = DeniedUsers { names: names(DENYLIST), checked_drivers: names(CHECKED_DRIVERS) };
        let root = Account::for_tests("toor", 0, 0, &[]);
        let ada = Account::for_tests("ada", 1_000, 1_000, &[]);
        assert_eq!(
            denied.check("exec", "root", None).unwrap_err(),
            r#"running as user "root" is disallowed"#
        );
        assert_eq!(
            denied.check("java", "toor", Some(&root)).unwrap_err(),
            r#"running as user "toor" is disallowed"#
        );
        assert!(denied.check("exec", "", Some(&root)).is_err());
        assert_eq!(denied.check("exec", "ada", Some(&ada)), Ok(()));
        assert_eq!(denied.check("raw_exec", "root", Some(&root)), Ok(()), "it is not checked");
        let own = DeniedUsers { names: names("ada"), ..denied };
        assert_eq!(own.check("exec", "root", Some(&root)), Ok(()), "the operator allows it");
        assert!(own.check("exec", "ada", Some(&ada)).is_err());
    }
}
