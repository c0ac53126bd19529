//! The result of a dry run as text: differences, updates of allocations, and failed placements. Pure.

use std::collections::BTreeMap;

use api_types::{AllocMetric, PlanAnnotations, Time};
use serde::Deserialize;

use crate::cli::format;
use crate::cli::job::children::from_now;
use crate::cli::job::diff::Diff;
use crate::cli::page::{Colour, Page};
use crate::cli::reasons::{self, Places, lacks_places, reasons};

/// The server's response to a plan (http-api A.9).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Planned {
    annotations: Option<PlanAnnotations>,
    #[serde(rename = "FailedTGAllocs")]
    failed_tg_allocs: Option<BTreeMap<String, AllocMetric>>,
    job_modify_index: Option<u64>,
    diff: Option<Diff>,
    next_periodic_launch: Option<Time>,
    warnings: Option<String>,
}

/// What is shown of a plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// Whether the differences are shown.
    pub(super) diff: bool,
    /// Whether unchanged groups and tasks are shown, and all members of new ones.
    pub(super) verbose: bool,
    /// Whether the job is one that runs on every node.
    pub(super) everywhere: bool,
    /// The current time, in nanoseconds since 1970.
    pub(super) now: i64,
}

impl Planned {
    /// Whether the job differs and any allocation would be stopped, placed or migrated.
    pub(super) fn changes_allocations(&self) -> bool {
        let differs = self.diff.as_ref().is_none_or(|diff| !diff.is_none());
        let updates = self.annotations.iter().flat_map(|annotations| annotations.desired_tg_updates.iter());
        let count = |number: Option<u64>| number.unwrap_or_default();
        let changes = updates.flatten().map(|(_, group)| {
            [group.stop, group.place, group.migrate, group.destructive_update, group.canary]
                .into_iter()
                .map(count)
                .sum::<u64>()
        });
        differs && changes.sum::<u64>() > 0
    }

    /// Whether a group found no node in its node pool and datacenters.
    pub(super) fn lacks_places(&self) -> bool {
        lacks_places(self.failed_tg_allocs.iter().flatten().map(|(_, metric)| metric))
    }

    /// The whole result as text. `places` are named if no node is eligible, and `file` stands for the job file in the command
    /// that registers the job.
    pub(super) fn page(&self, shown: Shown, places: &Places, file: &str) -> Page {
        let mut page = Page::default();
        if let Some(diff) = self.diff.as_ref().filter(|_| shown.diff) {
            diff.show(&mut page, shown.verbose);
            page.line("");
        }
        page.bold("Scheduler dry-run:");
        self.dry_run(&mut page, shown, places);
        if let Some(warnings) = self.warnings.as_ref().filter(|warnings| !warnings.is_empty()) {
            page.title("Job Warnings:");
            page.line(warnings.as_str());
        }
        self.preemptions(&mut page);
        let index = self.job_modify_index.unwrap_or_default();
        page.title(format!("Job Modify Index: {index}"));
        page.line("To submit the job with version verification run:");
        page.line("");
        page.line(format!("drover job run -check-index {index} {file}"));
        page.line("");
        page.line("The job is registered only if it has not changed since this plan was made.");
        page
    }

    fn dry_run(&self, page: &mut Page, shown: Shown, places: &Places) {
        let failed = self.failed_tg_allocs.iter().flatten();
        let groups: Vec<_> = failed.collect();
        if groups.is_empty() {
            page.coloured(Colour::Green, "- All tasks successfully allocated.");
        } else {
            let which = if shown.everywhere { "allocations on all nodes" } else { "all allocations" };
            page.coloured(Colour::Yellow, format!("- WARNING: Failed to place {which}."));
            for (group, metric) in groups {
                page.line(format!("  {}", reasons::title(group, metric)));
                reasons(metric, places).iter().for_each(|reason| page.line(format!("    * {reason}")));
            }
        }
        if let Some(launch) = self.next_periodic_launch.filter(|launch| !launch.is_zero()) {
            let launch = from_now(launch.unix_nanos(), shown.now);
            page.coloured(
                Colour::Green,
                format!("- If submitted now, next periodic launch would be at {launch}."),
            );
        }
    }

    fn preemptions(&self, page: &mut Page) {
        let preempted =
            self.annotations.as_ref().and_then(|annotations| annotations.preempted_allocs.as_ref());
        let Some(preempted) = preempted.filter(|preempted| !preempted.is_empty()) else { return };
        page.title("Preemptions:");
        let rows = preempted.iter().map(|alloc| {
            [
                format::id(alloc.id.as_ref(), false),
                format::text(alloc.job_id.as_ref()),
                format::text(alloc.task_group.as_ref()),
            ]
        });
        page.table(&["Alloc ID", "Job ID", "Task Group"], rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(json: &str) -> Planned {
        api_types::decode::from_slice(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_plan_says_what_differs_and_what_becomes_of_it() {
        let planned = planned(
            r#"{"JobModifyIndex": 7, "Warnings": "1 warning:\n\n* mind the gap",
            "Annotations": {"DesiredTGUpdates": {"web": {"DestructiveUpdate": 2}},
                "PreemptedAllocs": [{"ID": "0a1b2c3d-0000", "JobID": "batch", "TaskGroup": "g"}]},
            "FailedTGAllocs": {"web": {"CoalescedFailures": 1, "NodesEvaluated": 3, "DimensionExhausted": {"memory": 3}}},
            "Diff": {"Type": "Edited", "ID": "shop", "Fields": [{"Type": "Edited", "Name": "Priority", "Old": "50", "New": "60"}],
                "TaskGroups": [
                    {"Type": "Edited", "Name": "web", "Updates": {"create/destroy update": 2},
                        "Fields": [{"Type": "Edited", "Name": "Count", "Old": "1", "New": "2", "Annotations": ["forces create"]}],
                        "Tasks": [{"Type": "Edited", "Name": "srv", "Annotations": ["forces create/destroy update"],
                            "Objects": [{"Type": "Edited", "Name": "Config", "Fields": [
                                {"Type": "Added", "Name": "image", "New": "web:2"}, {"Type": "Deleted", "Name": "tty", "Old": "true"},
                                {"Type": "None", "Name": "user", "Old": "www", "New": "www"}]}]}]},
                    {"Type": "None", "Name": "idle"}]}}"#,
        );
        assert!(planned.changes_allocations());
        let shown = Shown { diff: true, verbose: false, everywhere: false, now: 0 };
        let page = planned.page(shown, &Places::default(), "shop.nomad.hcl");
        insta::assert_snapshot!(page, @r#"
    +/- Job: "shop"
    +/- Priority: "50" => "60"
    +/- Task Group: "web" (2 create/destroy update)
      +/- Count: "1" => "2" (forces create)
      +/- Task: "srv" (forces create/destroy update)
        +/- Config {
          +   image: "web:2"
          -   tty: "true"
              user: "www"
            }

    Scheduler dry-run:
    - WARNING: Failed to place all allocations.
      Task Group "web" (failed to place 2 allocations):
        * Dimension "memory" exhausted on 3 nodes

    Job Warnings:
    1 warning:

    * mind the gap

    Preemptions:
    Alloc ID  Job ID  Task Group
    0a1b2c3d  batch   g

    Job Modify Index: 7
    To submit the job with version verification run:

    drover job run -check-index 7 shop.nomad.hcl

    The job is registered only if it has not changed since this plan was made.
    "#);
    }

    #[test]
    fn without_changes_nothing_happens() {
        let same = planned(
            r#"{"Annotations": {"DesiredTGUpdates": {"web": {"Ignore": 2}}}, "Diff": {"Type": "None", "ID": "shop"}}"#,
        );
        assert!(!same.changes_allocations());
        let placed =
            r#"{"Annotations": {"DesiredTGUpdates": {"web": {"Place": 2}}}, "Diff": {"Type": "None"}}"#;
        assert!(!planned(placed).changes_allocations(), "the job is the same");
    }
}
