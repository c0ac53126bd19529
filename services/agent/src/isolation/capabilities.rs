//! Capabilities of Linux: their names, and the sets that a task gets (A-22.4). Pure.

use std::fmt;

use model::text::quoted;
use serde::{Deserialize, Serialize};

/// The names, in the order of the kernel's numbers.
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// The name of all capabilities together.
const ALL: &str = "all";

/// A set of capabilities.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CapabilitySet(u64);

impl CapabilitySet {
    /// No capability.
    pub(crate) const EMPTY: Self = Self(0);
    /// All that are known.
    pub(crate) const ALL: Self = Self((1 << NAMES.len()) - 1);
    /// To bind ports below 1024.
    pub(crate) const NET_BIND_SERVICE: Self = Self(1 << 10);
    /// What a task may have if the operator does not say otherwise (A-22.4): chown, dac_override, fowner, fsetid, kill,
    /// setgid, setuid, setpcap, net_bind_service, sys_chroot, mknod, audit_write, setfcap.
    pub(crate) const DEFAULT: Self = Self::of(&[0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 27, 29, 31]);

    const fn of(numbers: &[u32]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < numbers.len() {
            bits |= 1 << numbers[at];
            at += 1;
        }
        Self(bits)
    }

    /// Reads names, such as `net_raw`, `CAP_NET_RAW` or `all`.
    pub(crate) fn read(names: &[String]) -> Result<Self, String> {
        names.iter().try_fold(Self::EMPTY, |set, name| Ok(set.union(Self::one(name)?)))
    }

    fn one(name: &str) -> Result<Self, String> {
        let lower = name.trim().to_ascii_lowercase();
        let plain = lower.strip_prefix("cap_").unwrap_or(&lower);
        if plain == ALL {
            return Ok(Self::ALL);
        }
        let number = NAMES.iter().position(|known| *known == plain);
        number.map(|number| Self(1 << number)).ok_or_else(|| format!("unknown capability {}", quoted(name)))
    }

    /// The capability of this name, which the caller knows to exist.
    pub(crate) fn named(name: &str) -> Self {
        Self::one(name).unwrap_or_default()
    }

    /// The kernel's form: a bit for each capability.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The set of the kernel's form. Capabilities that are not known are left out.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Both sets together.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What both sets contain.
    pub(crate) const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// This set without the other.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set is empty.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of another set are in it.
    pub(crate) const fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Its capabilities, each as a set.
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        (0..NAMES.len()).map(|number| Self(1 << number)).filter(move |one| self.contains(*one))
    }
}

/// The names, separated by commas.
impl fmt::Display for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().enumerate().filter(|(number, _)| self.0 & (1 << number) != 0);
        let names: Vec<&str> = names.map(|(_, name)| *name).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// The capabilities of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Granted {
    /// The most that any process of the task can get.
    pub(crate) bounding: CapabilitySet,
    /// What the task has from its start.
    pub(crate) held: CapabilitySet,
    /// What the task asks for by name. The start fails if the node does not have it.
    pub(crate) required: CapabilitySet,
}

impl Granted {
    /// What a task gets that asks for `add` and without `drop`, where the operator allows `allowed`.
    ///
    /// Root has all of it. Another user has what the task asks for by name, and may bind low ports; the others are not
    /// passed on to it, because they would let it read the node's files that are mounted into its root.
    ///
    /// # Errors
    /// If a name is unknown, or if a capability is not allowed.
    pub(crate) fn of(
        allowed: CapabilitySet,
        add: &[String],
        drop: &[String],
        is_root: bool,
    ) -> Result<Self, String> {
        let added = CapabilitySet::read(add).map_err(|error| format!("cap_add: {error}"))?;
        let dropped = CapabilitySet::read(drop).map_err(|error| format!("cap_drop: {error}"))?;
        let refused = added.without(allowed);
        if !refused.is_empty() {
            return Err(format!("driver does not allow the following capabilities: {refused}"));
        }
        let bounding = CapabilitySet::DEFAULT.intersection(allowed).without(dropped).union(added);
        let held = if is_root {
            bounding
        } else {
            added.union(CapabilitySet::NET_BIND_SERVICE.intersection(bounding))
        };
        // Who asks for all means those that there are.
        let required = if added == CapabilitySet::ALL { CapabilitySet::EMPTY } else { added };
        Ok(Self { bounding, held, required })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn set(list: &[&str]) -> CapabilitySet {
        CapabilitySet::read(&names(list)).unwrap()
    }

    #[test]
    fn the_default_list_is_the_one_of_the_rules() {
        let listed = [
            "audit_write",
            "chown",
            "dac_override",
            "fowner",
            "fsetid",
            "kill",
            "mknod",
            "net_bind_service",
            "setfcap",
            "setgid",
            "setpcap",
            "setuid",
            "sys_chroot",
        ];
        assert_eq!(set(&listed), CapabilitySet::DEFAULT);
        assert_eq!(CapabilitySet::DEFAULT.each().count(), listed.len());
    }

    #[test]
    fn names_are_read_in_all_their_forms() {
        assert_eq!(set(&["NET_RAW"]), set(&["cap_net_raw"]));
        assert_eq!(set(&["CAP_SYS_ADMIN"]).bits(), 1 << 21);
        assert_eq!(set(&["checkpoint_restore"]).bits(), 1 << 40);
        assert_eq!(set(&["all"]), CapabilitySet::ALL);
        assert_eq!(set(&["net_raw", "kill"]).to_string(), "kill, net_raw");
        assert_eq!(CapabilitySet::read(&names(&["net_fly"])).unwrap_err(), r#"unknown capability "net_fly""#);
    }

    #[test]
    fn root_has_what_is_allowed_and_others_have_what_they_name() {
        let granted = |add: &[&str], drop: &[&str], is_root| {
            Granted::of(CapabilitySet::DEFAULT, &names(add), &names(drop), is_root).unwrap()
        };
        let root = granted(&[], &["setuid"], true);
        assert_eq!(root.bounding, CapabilitySet::DEFAULT.without(set(&["setuid"])));
        assert_eq!((root.held, root.required), (root.bounding, CapabilitySet::EMPTY));
        assert_eq!(granted(&[], &[], false).held, set(&["net_bind_service"]));
        let other = granted(&["chown"], &["all"], false);
        assert_eq!(
            (other.bounding, other.held, other.required),
            (set(&["chown"]), set(&["chown"]), set(&["chown"]))
        );
        assert_eq!(granted(&["kill"], &["all"], true).held, set(&["kill"]));
    }

    #[test]
    fn a_capability_that_the_operator_does_not_allow_is_refused() {
        let of = |allowed, add: &[&str]| Granted::of(allowed, &names(add), &[], false);
        assert_eq!(
            of(CapabilitySet::DEFAULT, &["sys_admin", "kill"]).unwrap_err(),
            "driver does not allow the following capabilities: sys_admin"
        );
        assert!(of(CapabilitySet::DEFAULT, &["all"]).is_err());
        assert_eq!(of(CapabilitySet::ALL, &["all"]).unwrap().bounding, CapabilitySet::ALL);
        // A shorter list of the operator also shortens what tasks get by default.
        assert_eq!(of(set(&["kill"]), &[]).unwrap().bounding, set(&["kill"]));
        assert_eq!(
            of(CapabilitySet::ALL, &["flying"]).unwrap_err(),
            r#"cap_add: unknown capability "flying""#
        );
    }
}
