//! Networks with real plugins. Each test runs itself again in network and mount namespaces of its own, so that the
//! machine's firewall and interfaces stay as they are.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use model::AllocId;
use model::alloc::PortMapping;
use nix::sched::{CloneFlags, setns};

use super::super::attachment::tests::attachment;
use super::super::attachment::{Attachment, Mode};
use super::super::settings::{Bridge, CONFIG_DIR, PLUGIN_PATH, Settings, tests::bridge};
use super::super::setup::Networks;
use super::facilities::{has_bridge, inside, shell};
use crate::testing::eventually;

/// Set for the second run of a test, which is in namespaces of its own.
const INSIDE: &str = "DROVER_TEST_IN_NAMESPACES";
/// What the second run begins with: directories of the plugins without anything in them, and an address of the node.
const PREPARE: &str = "mount -t tmpfs tmpfs /run && mkdir -p /run/cni && ip link set lo up && \
    ip addr add 10.77.0.1/32 dev lo && exec \"$@\"";
/// The address of the node in the second run.
const NODE: &str = "10.77.0.1";
/// How long a connection may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many allocations come and go, and how many of them exist at the same time.
const MANY: u16 = 1_000;
const TOGETHER: u16 = 50;

/// Runs the test of this name again in namespaces of its own, if it does not run there already. Returns whether it does.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if has_bridge(test) {
        let status = Command::new("unshare")
            .args(["--net", "--mount", "--propagation", "private", "sh", "-c", PREPARE, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("networks::tests::real::{test}"), "--nocapture", "--include-ignored"])
            .env(INSIDE, "1")
            .status()
            .unwrap();
        assert!(status.success(), "{test} failed in its namespaces; its output is above");
    }
    false
}

fn networks(dir: &Path, bridge: Bridge) -> Networks {
    let settings = Settings::new(bridge, PLUGIN_PATH, CONFIG_DIR.into()).unwrap();
    Networks::new(settings, dir.join("networks"))
}

/// The network of an allocation with this number, and a port that is mapped to port 80.
fn numbered(number: u16) -> Attachment {
    let [high, low] = number.to_be_bytes();
    let mut id = [7; 16];
    (id[14], id[15]) = (high, low);
    let port = PortMapping {
        label: "http".into(),
        value: 20_000 + number,
        to: 80,
        host_ip: NODE.into(),
        ignore_collision: false,
    };
    Attachment { alloc: AllocId::from_bytes(id), ports: vec![port], ..attachment(Mode::Bridge) }
}

/// Answers one connection to port 80 of a namespace.
fn serve_once(namespace: &Path, answer: &'static [u8]) -> thread::JoinHandle<()> {
    let namespace = std::fs::File::open(namespace).unwrap();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
        setns(&namespace, CloneFlags::CLONE_NEWNET).unwrap();
        let listener = TcpListener::bind("[::]:80").unwrap();
        ready.send(()).unwrap();
        listener.accept().unwrap().0.write_all(answer).unwrap();
    });
    is_ready.recv().unwrap();
    server
}

/// What a server answers to a connection from the namespace of the calling thread.
fn ask(address: &str) -> String {
    let address: SocketAddr = address.parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What a server answers to a connection from another namespace.
fn ask_from(namespace: &Path, address: String) -> String {
    let namespace = std::fs::File::open(namespace).unwrap();
    let client = thread::spawn(move || {
        setns(&namespace, CloneFlags::CLONE_NEWNET).unwrap();
        ask(&address)
    });
    client.join().unwrap()
}

/// Asserts that nothing is left of any allocation.
async fn assert_nothing_is_left(dir: &Path) {
    // The kernel removes the interfaces of a lost namespace in the background.
    eventually("the interfaces are gone", || !shell("ip -o link").contains("veth")).await;
    let rules = shell("iptables-save; ip6tables-save");
    assert!(!rules.contains("07070707-"), "{rules}");
    let chains: Vec<_> = rules.lines().filter(|line| line.starts_with(":CNI-DN-")).collect();
    assert!(chains.is_empty(), "{chains:?}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&dir.display().to_string()), "{mounts}");
    let addresses = shell("find /run/cni -type f ! -name lock ! -name 'last_reserved_ip.*'");
    assert_eq!(addresses, "");
    assert_eq!(std::fs::read_dir(dir.join("networks")).unwrap().count(), 0);
}

#[tokio::test]
async fn ports_of_the_node_lead_to_an_allocation_on_the_bridge() {
    if !is_inside("ports_of_the_node_lead_to_an_allocation_on_the_bridge") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ipv6 = Some("fd00:a110:c8::/112".parse().unwrap());
    let networks = networks(dir.path(), Bridge { subnet_ipv6: ipv6, ..bridge() });
    let detected = networks.detect().await;
    assert!(detected.bridge.is_some(), "{detected:?}");
    let first = networks.set_up(&numbered(1)).await.unwrap();
    let second = networks.set_up(&numbered(2)).await.unwrap();
    let status = first.status.as_ref().unwrap();
    assert_eq!((&*status.interface, &*status.address), ("eth0", "172.26.64.2"));
    assert!(status.address_ipv6.starts_with("fd00:a110:c8::"), "{status:?}");
    assert!(inside(&first.namespace, "ip -o link").contains("lo: <LOOPBACK,UP"));

    let server = serve_once(&first.namespace, b"by the port of the node");
    assert_eq!(ask(&format!("{NODE}:20001")), "by the port of the node");
    server.join().unwrap();
    let server = serve_once(&first.namespace, b"by its address");
    assert_eq!(ask_from(&second.namespace, format!("{}:80", status.address)), "by its address");
    server.join().unwrap();
    let server = serve_once(&first.namespace, b"by its IPv6 address");
    assert_eq!(ask_from(&second.namespace, format!("[{}]:80", status.address_ipv6)), "by its IPv6 address");
    server.join().unwrap();

    assert_eq!(networks.set_up(&numbered(1)).await.unwrap(), first, "it is found again");
    for number in [1, 2] {
        networks.remove(numbered(number).alloc).await.unwrap();
    }
    assert_nothing_is_left(dir.path()).await;
}

#[tokio::test]
async fn an_allocation_whose_namespace_was_lost_leaves_nothing() {
    if !is_inside("an_allocation_whose_namespace_was_lost_leaves_nothing") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let networks = networks(dir.path(), bridge());
    let network = networks.set_up(&numbered(1)).await.unwrap();
    shell(&format!("umount {}", network.namespace.display()));
    let again = networks.set_up(&numbered(1)).await.unwrap();
    let server = serve_once(&again.namespace, b"again");
    assert_eq!(ask(&format!("{NODE}:20001")), "again");
    server.join().unwrap();
    shell(&format!("umount {}", again.namespace.display()));
    networks.remove_others(&[].into()).await;
    assert_nothing_is_left(dir.path()).await;
}

#[tokio::test]
#[ignore = "takes minutes: it starts 8,000 processes"]
async fn a_thousand_allocations_leave_nothing() {
    if !is_inside("a_thousand_allocations_leave_nothing") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let networks = std::sync::Arc::new(networks(dir.path(), bridge()));
    for first in (0..MANY).step_by(usize::from(TOGETHER)) {
        let mut running = tokio::task::JoinSet::new();
        for number in first..first + TOGETHER {
            let networks = std::sync::Arc::clone(&networks);
            running.spawn(async move {
                networks.set_up(&numbered(number)).await.unwrap();
                networks.remove(numbered(number).alloc).await.unwrap();
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
    }
    assert_nothing_is_left(dir.path()).await;
}
