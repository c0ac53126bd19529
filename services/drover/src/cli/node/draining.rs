//! The lines that are printed while a drain is followed (`docs/rules/cli.md` 6.2). Pure: takes successive snapshots of the
//! node and its allocations, and returns lines, and whether the drain is over.

use std::collections::BTreeMap;

use api_types::{Allocation, Node};

use crate::cli::format;

/// The client statuses of allocations that have ended.
const ENDED: [&str; 3] = ["complete", "failed", "lost"];

/// The state of following one drain: what has been printed.
#[derive(Debug)]
pub(super) struct Draining {
    node: String,
    ignores_system_jobs: bool,
    is_complete: bool,
    allocs: BTreeMap<String, PrintedAlloc>,
}

/// The state of an allocation as last printed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PrintedAlloc {
    status: String,
    migrates: bool,
    stops: bool,
}

impl Draining {
    /// Follows the drain of a node. `before` are its allocations before the drain.
    pub(super) fn new(node: &str, ignores_system_jobs: bool, before: &[Allocation]) -> Self {
        let allocs = before.iter().map(|alloc| (format::text(alloc.id.as_ref()), PrintedAlloc::of(alloc)));
        Self { node: node.to_owned(), ignores_system_jobs, is_complete: false, allocs: allocs.collect() }
    }

    /// The new lines for a snapshot, and whether nothing that the drain concerns runs any more.
    pub(super) fn update(&mut self, node: &Node, allocs: &[Allocation]) -> (Vec<String>, bool) {
        let mut lines = Vec::new();
        if let Some(drain) = &node.drain_strategy {
            self.ignores_system_jobs = drain.ignore_system_jobs.unwrap_or_default();
        }
        for alloc in allocs {
            self.add(alloc, &mut lines);
        }
        if node.drain_strategy.is_some() {
            return (lines, false);
        }
        let status = node.last_drain.as_ref().and_then(|drain| drain.status.as_deref());
        if status == Some("canceled") {
            lines.push(format!("The drain of node \"{}\" was canceled", self.node));
            return (lines, true);
        }
        if !std::mem::replace(&mut self.is_complete, true) {
            lines.push(format!("Drain complete for node {}", self.node));
        }
        let is_over = !allocs.iter().any(|alloc| self.is_awaited(alloc));
        if is_over {
            lines.push(format!("All allocations on node \"{}\" have stopped", self.node));
        }
        (lines, is_over)
    }

    /// Whether an allocation still has to end.
    fn is_awaited(&self, alloc: &Allocation) -> bool {
        let kind = alloc.job.as_ref().and_then(|job| job.r#type.as_deref());
        let stays = self.ignores_system_jobs && kind == Some("system");
        !stays && !has_ended(&format::text(alloc.client_status.as_ref()))
    }

    fn add(&mut self, alloc: &Allocation, lines: &mut Vec<String>) {
        let (id, now) = (format::text(alloc.id.as_ref()), PrintedAlloc::of(alloc));
        let before = match self.allocs.get(&id) {
            Some(printed) => printed.clone(),
            // Nothing is said of what had ended before.
            None if has_ended(&now.status) => now.clone(),
            None => PrintedAlloc { migrates: false, stops: false, ..now.clone() },
        };
        if now.migrates && !before.migrates {
            lines.push(format!("Alloc \"{id}\" marked for migration"));
        }
        if now.stops && !before.stops {
            lines.push(format!("Alloc \"{id}\" draining"));
        }
        if now.status != before.status {
            lines.push(format!("Alloc \"{id}\" status {} -> {}", before.status, now.status));
        }
        self.allocs.insert(id, now);
    }
}

impl PrintedAlloc {
    fn of(alloc: &Allocation) -> Self {
        let migrates = alloc.desired_transition.as_ref().and_then(|transition| transition.migrate);
        Self {
            status: format::text(alloc.client_status.as_ref()),
            migrates: migrates.unwrap_or_default(),
            stops: alloc.desired_status.as_deref().is_some_and(|status| status != "run"),
        }
    }
}

fn has_ended(status: &str) -> bool {
    ENDED.contains(&status)
}

#[cfg(test)]
mod tests {
    use api_types::{DesiredTransition, DrainMetadata, DrainStrategy, Job};

    use super::*;

    fn node(is_draining: bool, status: &str) -> Node {
        Node {
            drain_strategy: is_draining.then(DrainStrategy::default),
            last_drain: Some(DrainMetadata { status: Some(status.to_owned()), ..DrainMetadata::default() }),
            ..Node::default()
        }
    }

    fn alloc(id: &str, migrates: bool, desired: &str, status: &str, kind: &str) -> Allocation {
        let transition = DesiredTransition { migrate: Some(migrates), ..DesiredTransition::default() };
        let job = Job { r#type: Some(kind.to_owned()), ..Job::default() };
        Allocation {
            id: Some(id.to_owned()),
            desired_transition: Some(transition),
            desired_status: Some(desired.to_owned()),
            client_status: Some(status.to_owned()),
            job: Some(Box::new(job)),
            ..Allocation::default()
        }
    }

    fn service(id: &str, migrates: bool, desired: &str, status: &str) -> Allocation {
        alloc(id, migrates, desired, status, "service")
    }

    #[test]
    fn a_drain_is_told_step_by_step() {
        let (before, ended) =
            (service("a", false, "run", "pending"), service("b", false, "stop", "complete"));
        let mut draining = Draining::new("n", false, &[before]);
        let mut told = |is_draining, status, alloc: Allocation| {
            draining.update(&node(is_draining, status), &[alloc, ended.clone()])
        };
        let (lines, is_over) = told(true, "draining", service("a", false, "run", "running"));
        assert_eq!((lines, is_over), (vec!["Alloc \"a\" status pending -> running".to_owned()], false));
        let (lines, _) = told(true, "draining", service("a", true, "run", "running"));
        assert_eq!(lines, ["Alloc \"a\" marked for migration"]);
        let (lines, is_over) = told(false, "complete", service("a", true, "stop", "running"));
        assert_eq!((lines.len(), is_over), (2, false));
        assert_eq!(lines, ["Alloc \"a\" draining", "Drain complete for node n"]);
        let (lines, is_over) = told(false, "complete", service("a", true, "stop", "complete"));
        let last = ["Alloc \"a\" status running -> complete", "All allocations on node \"n\" have stopped"];
        assert_eq!(lines, last);
        assert!(is_over);
    }

    #[test]
    fn system_jobs_that_stay_are_not_waited_for() {
        let system = || [alloc("s", false, "run", "running", "system")];
        assert!(!Draining::new("n", false, &system()).update(&node(false, "complete"), &system()).1);
        assert!(Draining::new("n", true, &system()).update(&node(false, "complete"), &system()).1);
    }

    #[test]
    fn a_drain_that_is_cancelled_is_followed_no_further() {
        let allocs = [service("a", true, "run", "running")];
        let (lines, is_over) = Draining::new("n", false, &[]).update(&node(false, "canceled"), &allocs);
        let expected = ["Alloc \"a\" marked for migration", "The drain of node \"n\" was canceled"];
        assert_eq!(lines, expected);
        assert!(is_over);
    }
}
