//! Networks of the kind `cni/<name>` whose plugins are scripts. They run only where namespaces can be made.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::super::attachment::tests::attachment;
use super::super::attachment::{Attachment, Mode};
use super::super::settings::tests::bridge;
use super::super::settings::{CONFIG_DIR, Settings};
use super::super::setup::Networks;
use super::facilities::{has_namespaces, inside};

/// A plugin that notes what it is asked, fails if a file says so, and answers with an address.
const SCRIPT: &str = r#"#!/bin/sh
    dir=$(dirname "$0"); cat > "$dir/input"
    echo "$CNI_COMMAND ${CNI_NETNS:-gone}" >> "$dir/log"
    if [ -e "$dir/fail-$CNI_COMMAND" ]; then echo '{"msg":"told to fail"}'; exit 1; fi
    if [ "$CNI_COMMAND" = VERSION ]; then echo '{"supportedVersions":["1.0.0"]}'; fi
    if [ "$CNI_COMMAND" = ADD ]; then
        echo '{"interfaces":[{"name":"eth0","sandbox":"x"}],"ips":[{"address":"10.9.8.7/24","interface":0}]}'
    fi
"#;

struct Scene {
    dir: tempfile::TempDir,
    networks: Networks,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fake");
        fs::write(&path, SCRIPT).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let list = r#"{"cniVersion":"1.0.0","name":"lan","plugins":[{"type":"fake"}]}"#;
        fs::write(dir.path().join("lan.conflist"), list).unwrap();
        let networks = networks(dir.path());
        Self { dir, networks }
    }

    /// What the plugin was asked since the last time.
    fn asked(&self) -> Vec<String> {
        let log = self.dir.path().join("log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }
}

fn networks(dir: &Path) -> Networks {
    let mut settings = Settings::new(bridge(), "", CONFIG_DIR.into()).unwrap();
    settings.plugin_dirs = vec![dir.to_owned()];
    settings.config_dir = dir.to_owned();
    let mut networks = Networks::new(settings, dir.join("networks"));
    networks.pause = Duration::ZERO;
    networks
}

fn lan() -> Attachment {
    attachment(Mode::Cni("lan".into()))
}

#[tokio::test]
async fn a_restarted_agent_finds_the_network_and_removes_it_once() {
    if !has_namespaces("a_restarted_agent_finds_the_network_and_removes_it_once") {
        return;
    }
    let scene = Scene::new();
    let network = scene.networks.set_up(&lan()).await.unwrap();
    assert_eq!(&*network.status.as_ref().unwrap().address, "10.9.8.7");
    assert_eq!(scene.asked(), ["ADD"]);
    let restarted = networks(scene.dir.path());
    assert_eq!(restarted.set_up(&lan()).await.unwrap(), network);
    assert_eq!(scene.asked(), ["CHECK"]);
    for _ in 0..2 {
        restarted.remove(lan().alloc).await.unwrap();
    }
    assert_eq!(scene.asked(), ["DEL"]);
    assert!(!network.namespace.exists());
}

#[tokio::test]
async fn a_damaged_network_is_made_again_in_the_same_namespace() {
    if !has_namespaces("a_damaged_network_is_made_again_in_the_same_namespace") {
        return;
    }
    let scene = Scene::new();
    scene.networks.set_up(&lan()).await.unwrap();
    fs::write(scene.dir.path().join("fail-CHECK"), "").unwrap();
    scene.networks.set_up(&lan()).await.unwrap();
    assert_eq!(scene.asked(), ["ADD", "CHECK", "DEL", "ADD"]);
    scene.networks.remove(lan().alloc).await.unwrap();
}

#[tokio::test]
async fn what_no_allocation_needs_is_removed() {
    if !has_namespaces("what_no_allocation_needs_is_removed") {
        return;
    }
    let scene = Scene::new();
    let network = scene.networks.set_up(&lan()).await.unwrap();
    let restarted = networks(scene.dir.path());
    restarted.remove_others(&[lan().alloc].into()).await;
    assert!(network.namespace.exists());
    restarted.remove_others(&[].into()).await;
    assert!(!network.namespace.exists());
    assert_eq!(scene.asked(), ["ADD", "DEL"]);
}

#[tokio::test]
async fn a_failure_to_remove_is_tried_again_later() {
    if !has_namespaces("a_failure_to_remove_is_tried_again_later") {
        return;
    }
    let scene = Scene::new();
    let network = scene.networks.set_up(&lan()).await.unwrap();
    let broken = scene.dir.path().join("fail-DEL");
    fs::write(&broken, "").unwrap();
    let error = scene.networks.remove(lan().alloc).await.unwrap_err();
    assert!(error.ends_with("/fake failed at DEL: told to fail"), "{error}");
    assert!(!network.namespace.exists());
    fs::remove_file(broken).unwrap();
    networks(scene.dir.path()).remove_others(&[].into()).await;
    assert_eq!(scene.asked(), ["ADD", "DEL", "DEL"]);
}

#[tokio::test]
async fn a_network_that_cannot_be_set_up_leaves_nothing() {
    if !has_namespaces("a_network_that_cannot_be_set_up_leaves_nothing") {
        return;
    }
    let scene = Scene::new();
    fs::write(scene.dir.path().join("fail-ADD"), "").unwrap();
    let error = scene.networks.set_up(&lan()).await.unwrap_err();
    assert!(error.ends_with("/fake failed at ADD: told to fail"), "{error}");
    assert_eq!(scene.asked(), ["ADD", "DEL", "ADD", "DEL", "ADD", "DEL", "DEL"]);
    assert_eq!(fs::read_dir(scene.dir.path().join("networks")).unwrap().count(), 0);
    let error = scene.networks.set_up(&attachment(Mode::Cni("dmz".into()))).await.unwrap_err();
    assert!(error.starts_with("no network named \"dmz\" is described in "), "{error}");
}

#[tokio::test]
async fn a_namespace_may_have_its_loopback_interface_only() {
    if !has_namespaces("a_namespace_may_have_its_loopback_interface_only") {
        return;
    }
    let scene = Scene::new();
    let network = scene.networks.set_up(&attachment(Mode::None)).await.unwrap();
    assert_eq!(network.status, None);
    let links = inside(&network.namespace, "cat /proc/net/dev /proc/net/fib_trie");
    assert!(links.contains("lo:") && links.contains("127.0.0.1"), "{links}");
    assert_eq!(scene.networks.set_up(&attachment(Mode::None)).await.unwrap(), network);
    scene.networks.remove(lan().alloc).await.unwrap();
    assert!(scene.asked().is_empty());
}

#[tokio::test]
async fn the_node_says_what_it_has() {
    let scene = Scene::new();
    let found = scene.networks.detect().await;
    assert_eq!(found.versions.get("fake").map(String::as_str), Some("1.0.0"));
    assert_eq!(found.bridge, None, "its plugins are missing");
    if nix::unistd::geteuid().is_root() {
        assert_eq!(found.cni, ["lan"]);
    }
}
