//! Who the agent is: its node's id and secret, made once, and which boot it is in (A-1.2, design §6).

use std::io;

use model::NodeId;
use model::node::Secret;
use uuid::{Builder, Uuid};

use crate::store::{self, Keep, Store};

/// What tells this agent from all others, and this run of it from earlier ones.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The node.
    pub(crate) node: NodeId,
    /// Proves to the servers that it is the one that registered.
    pub(crate) secret: Secret,
    /// How often the agent has started; reports of an older boot are out of date.
    pub(crate) boot: u32,
}

/// The file with the node's id.
const CLIENT_ID: &str = "client-id";
/// The file with its secret.
const SECRET_ID: &str = "secret-id";
/// The file that counts boots.
const BOOT: &str = "boot";

impl Identity {
    /// The node's id. If there is none, it is `issued_for`, or one that is made.
    pub(crate) fn node(store: &Store, issued_for: Option<NodeId>) -> io::Result<NodeId> {
        let is_new = !store.file(CLIENT_ID).exists();
        if let Some(NodeId(id)) = issued_for.filter(|_| is_new) {
            store::write_bytes(&store.file(CLIENT_ID), id.to_string().as_bytes(), Keep::Machine)?;
        }
        let id = read_or_make(store, CLIENT_ID)?;
        if is_new {
            store::write_bytes(&store.file(BOOT), b"0", Keep::Machine)?;
        }
        Ok(NodeId(id))
    }

    /// Reads the identity, or makes one, and begins the next boot, which is on disk before anybody hears of it.
    ///
    /// A lost counter would make the servers drop every report as one of an older boot, so without one the boot's
    /// number comes from the clock: seconds since 1970 are above any count of starts.
    pub(crate) fn begin_boot(store: &Store) -> io::Result<Self> {
        let node = Self::node(store, None)?;
        let secret = read_or_make(store, SECRET_ID)?;
        let path = store.file(BOOT);
        let by_the_clock = || u32::try_from(telemetry::clock::now().as_secs()).unwrap_or(u32::MAX - 1);
        let last = store::read_text::<u32>(&path)?.unwrap_or_else(by_the_clock);
        let boot = last.saturating_add(1);
        store::write_bytes(&path, boot.to_string().as_bytes(), Keep::Machine)?;
        Ok(Self { node, secret: Secret(secret.to_string().into()), boot })
    }
}

fn read_or_make(store: &Store, name: &str) -> io::Result<Uuid> {
    if let Some(id) = store::read_text(&store.file(name))? {
        return Ok(id);
    }
    let id = Builder::from_random_bytes(telemetry::clock::random_bytes()).into_uuid();
    store::write_bytes(&store.file(name), id.to_string().as_bytes(), Keep::Machine)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_agent_stays_who_it_is_and_counts_its_boots() {
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
    fn a_lost_boot_counter_does_not_begin_again_below_what_the_servers_know() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        Identity::begin_boot(&store).unwrap();
        fs::write(store.file(BOOT), "?").unwrap();
        assert!(Identity::begin_boot(&store).unwrap().boot > 1_000_000);
    }
}
