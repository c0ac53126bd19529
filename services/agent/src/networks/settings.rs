//! The settings of the agent that are about networks of allocations. Pure.

use std::path::PathBuf;

use super::subnet::Subnet;

/// The default name of the bridge.
pub(crate) const BRIDGE: &str = "nomad";
/// The default range of addresses on the bridge.
pub(crate) const BRIDGE_SUBNET: &str = "172.26.64.0/20";
/// The default directories of CNI plugins: that of the reference, and that of Debian's package.
pub(crate) const PLUGIN_PATH: &str = "/opt/cni/bin:/usr/lib/cni";
/// The default directory of CNI configurations.
pub(crate) const CONFIG_DIR: &str = "/opt/cni/config";
/// The maximum length of an interface's name, in bytes.
const INTERFACE_BYTES_MAX: usize = 15;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The bridge of networks of mode `bridge`.
    pub(crate) bridge: Bridge,
    /// Where plugins are looked for, in order.
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// Where networks of mode `cni/<name>` are described.
    pub(crate) config_dir: PathBuf,
}

/// A bridge and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bridge {
    /// The name of its interface.
    pub(crate) name: String,
    /// Its IPv4 addresses.
    pub(crate) subnet: Subnet,
    /// Its IPv6 addresses, if it has any.
    pub(crate) subnet_ipv6: Option<Subnet>,
    /// Whether an allocation reaches itself by the ports of its node.
    pub(crate) hairpin: bool,
}

impl Settings {
    /// Validates the settings. `plugin_path` has directories separated by colons.
    ///
    /// # Errors
    /// The flag that is wrong, and why.
    pub(crate) fn new(bridge: Bridge, plugin_path: &str, config_dir: PathBuf) -> Result<Self, String> {
        let Bridge { name, subnet, subnet_ipv6, .. } = &bridge;
        if !is_interface_name(name) {
            return Err(format!(
                "--bridge-network-name: {name:?} cannot name an interface: it must have 1 to {INTERFACE_BYTES_MAX} \
                 visible characters without / and :"
            ));
        }
        if !subnet.is_ipv4() {
            return Err(format!("--bridge-network-subnet: {subnet} is not a range of IPv4 addresses"));
        }
        if let Some(subnet) = subnet_ipv6.filter(Subnet::is_ipv4) {
            return Err(format!("--bridge-network-subnet-ipv6: {subnet} is not a range of IPv6 addresses"));
        }
        let plugin_dirs: Vec<PathBuf> =
            plugin_path.split(':').filter(|dir| !dir.is_empty()).map(PathBuf::from).collect();
        if let Some(relative) = plugin_dirs.iter().find(|dir| dir.is_relative()) {
            return Err(format!("--cni-path: {} is not an absolute path", relative.display()));
        }
        Ok(Self { bridge, plugin_dirs, config_dir })
    }
}

fn is_interface_name(name: &str) -> bool {
    (1..=INTERFACE_BYTES_MAX).contains(&name.len())
        && !matches!(name, "." | "..")
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn bridge() -> Bridge {
        Bridge {
            name: BRIDGE.into(),
            subnet: BRIDGE_SUBNET.parse().unwrap(),
            subnet_ipv6: None,
            hairpin: false,
        }
    }

    fn error(change: impl FnOnce(&mut Bridge)) -> String {
        let mut bridge = bridge();
        change(&mut bridge);
        Settings::new(bridge, PLUGIN_PATH, CONFIG_DIR.into()).unwrap_err()
    }

    #[test]
    fn settings_that_cannot_work_are_refused_by_their_flags() {
        let settings = Settings::new(bridge(), "/a:/b::", CONFIG_DIR.into()).unwrap();
        assert_eq!(settings.plugin_dirs, [PathBuf::from("/a"), PathBuf::from("/b")]);
        for name in ["", "a/b", "a b", "..", "sixteen-is-too-m"] {
            assert!(
                error(|bridge| bridge.name = name.into()).starts_with("--bridge-network-name: "),
                "{name}"
            );
        }
        let ipv6: Subnet = "fd00::/64".parse().unwrap();
        let ipv4: Subnet = BRIDGE_SUBNET.parse().unwrap();
        assert!(error(|bridge| bridge.subnet = ipv6).starts_with("--bridge-network-subnet: "));
        assert!(
            error(|bridge| bridge.subnet_ipv6 = Some(ipv4)).starts_with("--bridge-network-subnet-ipv6: ")
        );
        let relative = Settings::new(bridge(), "bin", CONFIG_DIR.into()).unwrap_err();
        assert_eq!(relative, "--cni-path: bin is not an absolute path");
    }
}
