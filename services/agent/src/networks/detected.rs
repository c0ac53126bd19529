//! What the node tells the servers about networks: the versions of its plugins, and the modes that it has (A-16.1,
//!

use std::collections::BTreeMap;
use std::sync::PoisonError;

use nix::unistd::geteuid;
use telemetry::chain;

use super::configs::{self, Configs};
use super::conflist::BRIDGE_PLUGINS;
use super::setup::Networks;
use super::{firewall, namespace};

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Detected {
    /// Versions of plugins, by name.
    pub(crate) versions: BTreeMap<String, String>,
    /// The bridge, if allocations can have an interface on it.
    pub(crate) bridge: Option<DetectedBridge>,
    /// Names of the networks that operators described.
    pub(crate) cni: Vec<String>,
}

/// The bridge of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetectedBridge {
    /// The name of its interface.
    pub(crate) name: String,
    /// Whether an allocation reaches itself by the ports of its node.
    pub(crate) hairpin: bool,
}

impl Networks {
    /// Detects what the node has.
    pub(crate) async fn detect(&self) -> Detected {
        let versions = self.versions.all(&self.plugins).await;
        let is_root = geteuid().is_root();
        let available =
            if is_root { self.has_bridge(&versions).await } else { Err("the agent is not root".to_owned()) };
        let configs = if is_root { configs::read_all(&self.settings.config_dir) } else { Configs::default() };
        self.log(available.as_ref().err().map(String::as_str), configs.unusable);
        let settings = &self.settings.bridge;
        let bridge = DetectedBridge { name: settings.name.clone(), hairpin: settings.hairpin };
        Detected {
            versions,
            bridge: available.is_ok().then_some(bridge),
            cni: configs.networks.into_keys().collect(),
        }
    }

    /// Whether the plugins of the bridge and iptables are there, and the kernel makes bridges. If not, why.
    async fn has_bridge(&self, versions: &BTreeMap<String, String>) -> Result<(), String> {
        for name in BRIDGE_PLUGINS {
            if !versions.contains_key(name) {
                self.plugins.find(name).map_err(|error| chain(&error))?;
                return Err(format!("the CNI plugin {name:?} does not say which versions it understands"));
            }
        }
        firewall::find(&self.settings.bridge)?;
        self.has_bridges.get_or_init(probe).await.clone()
    }

    /// Says which networks the node cannot have, and why, if that is new.
    fn log(&self, no_bridge: Option<&str>, unusable: Vec<String>) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.no_bridge.as_deref() != no_bridge {
            if let Some(reason) = no_bridge {
                tracing::info!(reason, "allocations on this node cannot have bridge networks");
            }
            logged.no_bridge = no_bridge.map(str::to_owned);
        }
        if logged.unusable != unusable {
            for error in &unusable {
                tracing::warn!(error, "cannot use the configuration of a network");
            }
            logged.unusable = unusable;
        }
    }
}

/// Tries to make a bridge.
async fn probe() -> Result<(), String> {
    let made =
        tokio::task::spawn_blocking(namespace::has_bridges).await.map_err(std::io::Error::other).flatten();
    made.map_err(|error| format!("the kernel makes no bridge: {error}"))
}
