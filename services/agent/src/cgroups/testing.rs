//! A place in the machine's own control groups for a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use model::NodeId;

use super::Cgroups;
use super::hierarchy::Controller;
use super::partition::{RESERVE, SHARE};
use crate::testing::alloc_id;

/// The facility in `DROVER_REQUIRE`.
const FACILITY: &str = "cgroups";
/// The agent of tests.
pub(crate) const NODE: NodeId = NodeId::from_bytes([0; 16]);

/// Numbers the parents of tests of this process.
static PARENTS: AtomicU32 = AtomicU32::new(0);

/// A parent group that belongs to a test alone. It is removed with the groups of the allocation of tests.
pub(crate) struct Place {
    pub(crate) cgroups: Cgroups,
}

impl Place {
    /// `None` if no groups can be made here. That is reported, or fails if `DROVER_REQUIRE` names `cgroups`.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Self::with(test, &[])
    }

    /// The same for a test that needs these controllers, too.
    #[allow(clippy::print_stdout, reason = "a skipped test is reported to the user")]
    pub(super) fn with(test: &str, needs: &[Controller]) -> Option<Self> {
        let number = PARENTS.fetch_add(1, Ordering::Relaxed);
        let parent = format!("drover-test-{}-{number}.slice", std::process::id());
        let cause = match Cgroups::detect(Path::new(&parent), &BTreeSet::new()) {
            None => "no cgroups can be made here".to_owned(),
            Some(cgroups) => {
                let place = Self { cgroups };
                match needs.iter().find(|controller| !place.has(**controller)) {
                    None => return Some(place),
                    Some(missing) => format!("there is no controller {}", missing.as_str()),
                }
            }
        };
        let required = std::env::var("DROVER_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|name| name.trim() == FACILITY);
        assert!(!is_required, "{test} needs {FACILITY}, which DROVER_REQUIRE requires: {cause}");
        println!("skipped {test}: {cause}");
        None
    }

    fn has(&self, controller: Controller) -> bool {
        self.cgroups.parents.iter().any(|parent| parent.controllers.contains(&controller))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What a failed test leaves would run on. What cannot be removed is no reason to fail.
        let _ = self.cgroups.remove_alloc(alloc_id(1));
        self.cgroups.leave(NODE);
        for parent in &self.cgroups.parents {
            for dir in [parent.dir.join(SHARE), parent.dir.join(RESERVE), parent.dir.clone()] {
                let _ = fs::remove_dir(dir);
            }
        }
    }
}
