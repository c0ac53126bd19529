//! All attacks, by what they attack. Each module has the list of its own.

use crate::attack::Attack;
use crate::{
    bodies, browsers, bus, connections, files, ids, job_files, jobs, lists, params, paths, protocol,
    shutdown, streams, tasks,
};

/// The attacks under the headings of the page.
pub(crate) const GROUPS: &[(&str, &[Attack])] = &[
    ("Connections", connections::ATTACKS),
    ("HTTP as bytes", protocol::ATTACKS),
    ("Pages of other sites", browsers::ATTACKS),
    ("Parameters", params::ATTACKS),
    ("Paths", paths::ATTACKS),
    ("Bodies", bodies::ATTACKS),
    ("Lists", lists::ATTACKS),
    ("Streams", streams::ATTACKS),
    ("Job files", job_files::ATTACKS),
    ("Jobs", jobs::ATTACKS),
    ("Ids", ids::ATTACKS),
    ("Files and logs", files::ATTACKS),
    ("Tasks", tasks::ATTACKS),
    ("NATS", bus::ATTACKS),
    ("Shutdown", shutdown::ATTACKS),
];

/// The same in one list.
pub(crate) fn attacks() -> Vec<Attack> {
    GROUPS.iter().flat_map(|(_, attacks)| attacks.iter().copied()).collect()
}
