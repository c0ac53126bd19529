//! What is kept of the network of an allocation: a directory with its namespace, its files, and a record of what the
//! plugins were told.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use model::AllocId;
use model::alloc::NetworkStatus;
use serde::{Deserialize, Serialize};

use super::AllocNetwork;
use super::attachment::{Attachment, INTERFACE};
use super::namespace;
use super::plugin::Target;
use super::resolver::{hosts, is_local_only, resolv_conf};
use crate::disk::store::{self, Durability, Saved};

/// Permissions of the directories.
const DIR_MODE: u32 = 0o700;
/// Permissions of files that tasks see.
const FILE_MODE: u32 = 0o644;
/// The resolver's configuration of the machine, and the one with which the servers of its local resolver are reached.
const RESOLV_CONF: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// The record: what is needed to check or remove the network, whatever the settings and the job say by then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The list of plugins as text; `None` if the namespace has no other interface than its loopback.
    pub(crate) list: Option<String>,
    /// Whether the list is that of the agent's bridge.
    pub(crate) is_bridge: bool,
    /// The arguments in `CNI_ARGS`.
    pub(crate) args: String,
    /// The values of capabilities, as JSON.
    pub(crate) abilities: String,
    /// The result of the plugins, as JSON, once they have run.
    pub(crate) result: Option<String>,
    /// The network, once it is complete.
    pub(crate) network: Option<AllocNetwork>,
}

impl Record {
    /// The addresses of the allocation, if they are known.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let status = self.network.as_ref().and_then(|network| network.status.as_ref());
        let texts = status.map(|status| [&status.address, &status.address_ipv6]);
        texts.into_iter().flatten().filter_map(|text| text.parse().ok()).collect()
    }
}

/// The directory of an allocation's network.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    alloc: AllocId,
    dir: PathBuf,
}

impl Place {
    /// The directory within that of all networks.
    pub(crate) fn new(networks: &Path, alloc: AllocId) -> Self {
        Self { alloc, dir: networks.join(alloc.to_string()) }
    }

    /// The allocations that have a directory.
    pub(crate) fn allocs(networks: &Path) -> io::Result<Vec<AllocId>> {
        let dirs = store::directories(networks)?;
        Ok(dirs.iter().filter_map(|dir| dir.file_name()?.to_str()?.parse().ok()).collect())
    }

    /// The file that the namespace is mounted on.
    pub(crate) fn namespace(&self) -> PathBuf {
        self.dir.join("netns")
    }

    fn record_file(&self) -> PathBuf {
        self.dir.join("record")
    }

    /// Whether anything is kept.
    pub(crate) fn exists(&self) -> bool {
        self.dir.exists()
    }

    /// Creates the directory.
    pub(crate) fn build(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(&self.dir)
    }

    /// Reads the record. A record that cannot be read is set aside within the directory.
    pub(crate) fn load(&self) -> Option<Record> {
        match store::load(&self.record_file()) {
            Saved::Read(record) => Some(record),
            Saved::Absent | Saved::Unreadable => None,
        }
    }

    /// Writes the record. It survives the machine, because plugins may keep addresses for as long.
    pub(crate) async fn save(&self, record: &Record) -> io::Result<()> {
        store::save(self.record_file(), record, Durability::Machine).await
    }

    /// Writes the record between two plugins. It survives the agent; what plugins have done by then does not survive the
    /// machine.
    pub(crate) fn note(&self, record: &Record) -> io::Result<()> {
        store::write(&self.record_file(), record, Durability::Process)
    }

    /// Removes the namespace.
    pub(crate) fn remove_namespace(&self) -> io::Result<()> {
        namespace::remove(&self.namespace())
    }

    /// Removes the directory.
    pub(crate) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.dir)
    }

    /// What plugins are told about the allocation. If its namespace is lost, they learn that there is none.
    pub(crate) fn target(&self, args: &str) -> Target {
        let namespace = self.namespace();
        Target {
            container: self.alloc.to_string(),
            namespace: namespace::exists(&namespace).then_some(namespace),
            interface: INTERFACE,
            args: args.to_owned(),
        }
    }

    /// Writes the files that tasks see, and returns the network. `offered` is the name server of allocations that name none.
    pub(crate) fn complete(
        &self,
        attachment: &Attachment,
        status: Option<NetworkStatus>,
        offered: Option<IpAddr>,
    ) -> io::Result<AllocNetwork> {
        let hostname = attachment.hostname.clone();
        let of_plugins = || status.as_ref().and_then(|status| status.dns.clone());
        let dns = attachment.dns.clone().or_else(of_plugins);
        let texts = [
            ("hosts", hosts(hostname.as_deref(), status.as_ref())),
            ("resolv.conf", resolv_conf(dns.as_ref(), offered, &machine_resolv_conf())),
        ];
        let [hosts_file, resolv_conf] = texts.map(|(name, text)| self.write(name, &text));
        let status = status.map(|status| NetworkStatus { dns, ..status });
        Ok(AllocNetwork {
            namespace: self.namespace(),
            hostname,
            status,
            hosts_file: Some(hosts_file?),
            resolv_conf: Some(resolv_conf?),
        })
    }

    fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, text)?;
        // Tasks read it as other users.
        fs::set_permissions(&path, Permissions::from_mode(FILE_MODE))?;
        Ok(path)
    }
}

/// The configuration of the machine's resolver, as far as allocations can use it: without a resolver on a loopback
/// interface, if its upstream servers are known.
pub(crate) fn machine_resolv_conf() -> String {
    let [first, upstream] = RESOLV_CONF.map(|path| fs::read_to_string(path).unwrap_or_default());
    if is_local_only(&first) && !upstream.is_empty() { upstream } else { first }
}

#[cfg(test)]
mod tests {
    use super::super::attachment::Mode;
    use super::super::attachment::tests::attachment;
    use super::*;

    #[tokio::test]
    async fn a_record_is_kept_with_the_files_of_its_network() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(dir.path(), AllocId::from_bytes([1; 16]));
        assert!(!place.exists() && place.load().is_none());
        place.build().unwrap();
        let dns = api_types::DnsConfig { servers: Some(vec!["9.9.9.9".into()]), ..Default::default() };
        let attachment =
            Attachment { hostname: Some("web".into()), dns: Some(dns.clone()), ..attachment(Mode::Bridge) };
        let status = NetworkStatus { address: "172.26.64.2".into(), ..NetworkStatus::default() };
        let network = place.complete(&attachment, Some(status), None).unwrap();
        assert_eq!(network.status.as_ref().unwrap().dns, Some(dns));
        let hosts = fs::read_to_string(network.hosts_file.as_ref().unwrap()).unwrap();
        assert!(hosts.ends_with("172.26.64.2 web\n"), "{hosts}");
        let resolv_conf = fs::read_to_string(network.resolv_conf.as_ref().unwrap()).unwrap();
        assert!(resolv_conf.contains("nameserver 9.9.9.9\n"), "{resolv_conf}");
        let record = Record {
            list: Some("{}".into()),
            is_bridge: true,
            args: "A=b".into(),
            abilities: "{}".into(),
            result: None,
            network: Some(network),
        };
        place.save(&record).await.unwrap();
        assert_eq!(place.load(), Some(record.clone()));
        assert_eq!(record.addresses(), ["172.26.64.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(Place::allocs(dir.path()).unwrap(), [AllocId::from_bytes([1; 16])]);
        assert_eq!(place.target("").namespace, None, "no namespace is mounted");
        place.remove().unwrap();
        assert!(Place::allocs(dir.path()).unwrap().is_empty());
    }
}
