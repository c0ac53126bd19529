//! Accounts of the machine: the user that a task runs as.

use std::ffi::CString;
use std::path::PathBuf;

use model::text::quoted;
use nix::unistd::{Gid, Uid, User, getegid, geteuid, getgrouplist, getgroups};

/// The user that a task runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// The user's name; `None` if the user is not in the list of users.
    pub(crate) name: Option<String>,
    /// The user's id.
    pub(crate) uid: u32,
    /// The id of the user's primary group.
    pub(crate) gid: u32,
    /// The ids of all groups that the user is in.
    pub(crate) groups: Vec<u32>,
    /// The home directory.
    pub(crate) home: PathBuf,
}

impl Account {
    /// Finds a user. An empty name is the agent's own user, as which a task runs that names none.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        let failed = |error: nix::Error| format!("cannot look up user {}: {error}", quoted(name));
        if name.is_empty() {
            let (uid, gid) = (geteuid(), getegid());
            // The user need not be listed, for example in a container.
            let listed = User::from_uid(uid).ok().flatten();
            return Ok(Self::new(listed, uid, gid, &getgroups().map_err(failed)?));
        }
        let user = User::from_name(name)
            .map_err(failed)?
            .ok_or_else(|| format!("user {} does not exist", quoted(name)))?;
        let (uid, gid) = (user.uid, user.gid);
        // A name with a null character is not in the list of users.
        let listed_as = CString::new(user.name.as_str()).map_err(|error| error.to_string())?;
        let groups = getgrouplist(&listed_as, gid).map_err(failed)?;
        Ok(Self::new(Some(user), uid, gid, &groups))
    }

    fn new(listed: Option<User>, uid: Uid, gid: Gid, groups: &[Gid]) -> Self {
        let mut groups: Vec<u32> = groups.iter().chain([&gid]).map(|group| group.as_raw()).collect();
        groups.sort_unstable();
        groups.dedup();
        let (name, home) = match listed {
            Some(user) => (Some(user.name), user.dir),
            None => (None, PathBuf::from("/")),
        };
        Self { name, uid: uid.as_raw(), gid: gid.as_raw(), groups, home }
    }

    /// An account for tests, with these groups besides its primary group.
    #[cfg(test)]
    pub(crate) fn for_tests(name: &str, uid: u32, gid: u32, others: &[u32]) -> Self {
        let groups = [gid].into_iter().chain(others.iter().copied()).collect();
        Self { name: Some(name.to_owned()), uid, gid, groups, home: PathBuf::from("/home").join(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_names_no_user_runs_as_the_agents() {
        let own = Account::find("").unwrap();
        assert_eq!((own.uid, own.gid), (geteuid().as_raw(), getegid().as_raw()));
        assert!(own.groups.contains(&own.gid));
        let supplementary = getgroups().unwrap();
        assert!(supplementary.iter().all(|group| own.groups.contains(&group.as_raw())), "{own:?}");
    }

    #[test]
    fn users_are_found_by_their_names() {
        let root = Account::find("root").unwrap();
        assert_eq!((root.name.as_deref(), root.uid, root.gid), (Some("root"), 0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(Account::find("nobody-at-all").unwrap_err(), r#"user "nobody-at-all" does not exist"#);
    }
}
