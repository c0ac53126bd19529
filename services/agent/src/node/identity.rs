//! The agent's identity: the node's id and secret, which are created once, and the number of the boot (A-1.2, `docs/architecture/agents.md`).

use std::io;

use model::NodeId;
use model::node::Secret;
use uuid::{Builder, Uuid};

use crate::disk::store::{self, Saved, Store};

/// Identifies this agent among all agents, and this run of it among its runs.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The node's id.
    pub(crate) node: NodeId,
    /// Proves to the servers that this agent is the one that registered the node.
    pub(crate) secret: Secret,
    /// The number of times that the agent has started. Reports of earlier boots are out of date.
    pub(crate) boot: u32,
}

/// The file with the node's id.
const CLIENT_ID: &str = "client-id";
/// The file with the node's secret.
const SECRET_ID: &str = "secret-id";
/// The file with the boot counter.
const BOOT: &str = "boot";

impl Identity {
    /// Returns the node's id. If there is none yet, or it cannot be read, the id is `issued_for`, or a new one.
    pub(crate) fn node(store: &Store, issued_for: Option<NodeId>) -> io::Result<NodeId> {
        let is_new = !store.file(CLIENT_ID).exists();
        let id = read_or_create(store, CLIENT_ID, issued_for.map(|NodeId(id)| id))?;
        if is_new {
            store::write_text(&store.file(BOOT), "0")?;
        }
        Ok(NodeId(id))
    }

    /// Reads or creates the identity, and starts the next boot. The boot's number is on disk before it is used.
    ///
    /// If the counter was lost and restarted at one, the servers would drop every report as one of an older boot. So
    /// without a counter the number comes from the clock: the seconds since 1970 are above any count of starts.
    pub(crate) fn begin_boot(store: &Store) -> io::Result<Self> {
        let node = Self::node(store, None)?;
        let secret = read_or_create(store, SECRET_ID, None)?;
        let path = store.file(BOOT);
        let from_clock = || u32::try_from(telemetry::clock::now().as_secs()).unwrap_or(u32::MAX - 1);
        let last = match store::load_text::<u32>(&path)? {
            Saved::Read(last) => last,
            Saved::Absent | Saved::Unreadable => from_clock(),
        };
        let boot = last.saturating_add(1);
        store::write_text(&path, &boot.to_string())?;
        Ok(Self { node, secret: Secret(secret.to_string().into()), boot })
    }
}

/// Reads an id. If there is none, or it cannot be read, it becomes the `given` one, or a new one.
fn read_or_create(store: &Store, name: &str, given: Option<Uuid>) -> io::Result<Uuid> {
    if let Saved::Read(id) = store::load_text(&store.file(name))? {
        return Ok(id);
    }
    let new = || Builder::from_random_bytes(telemetry::clock::random_bytes()).into_uuid();
    let id = given.unwrap_or_else(new);
    store::write_text(&store.file(name), &id.to_string())?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_agent_keeps_its_identity_and_counts_its_boots() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let first = Identity::begin_boot(&store).unwrap();
        let second = Identity::begin_boot(&store).unwrap();
        assert_eq!((first.node, &first.secret), (second.node, &second.secret));
        assert_eq!((first.boot, second.boot), (1, 2));
        let mode = fs::metadata(store.file(SECRET_ID)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_agent_whose_id_was_lost_is_the_node_of_its_credentials() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let node = NodeId::from_bytes([5; 16]);
        assert_eq!(Identity::node(&store, Some(node)).unwrap(), node);
        fs::write(store.file(CLIENT_ID), "?").unwrap();
        assert_eq!(Identity::node(&store, Some(node)).unwrap(), node);
        assert_eq!(Identity::begin_boot(&store).unwrap().node, node);
    }

    #[test]
    fn a_lost_boot_counter_does_not_begin_again_below_what_the_servers_know() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        Identity::begin_boot(&store).unwrap();
        fs::write(store.file(BOOT), "?").unwrap();
        assert!(Identity::begin_boot(&store).unwrap().boot > 1_000_000);
    }
}
