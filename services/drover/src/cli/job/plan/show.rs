//! A dry run as people read it: what differs, what becomes of allocations, what could not be placed. Pure.

use std::collections::BTreeMap;

use api_types::{AllocMetric, PlanAnnotations, Time};
use serde::Deserialize;

use crate::cli::format;
use crate::cli::page::{Colour, Page};
use crate::cli::reasons::reasons;

/// What the server answers to a plan (http-api A.9).
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

/// What differs in a job, a group, a task or a part of one (http-api A.10).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Diff {
    r#type: Option<String>,
    #[serde(rename = "ID")]
    id: Option<String>,
    name: Option<String>,
    fields: Option<Vec<Field>>,
    objects: Option<Vec<Diff>>,
    task_groups: Option<Vec<Diff>>,
    tasks: Option<Vec<Diff>>,
    updates: Option<BTreeMap<String, u64>>,
    annotations: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Field {
    r#type: Option<String>,
    name: Option<String>,
    old: Option<String>,
    new: Option<String>,
    annotations: Option<Vec<String>>,
}

impl Planned {
    /// Whether the job differs and some allocation would be stopped, placed or moved.
    pub(super) fn changes_allocations(&self) -> bool {
        let differs = self.diff.as_ref().is_none_or(|diff| kind(&diff.r#type) != "None");
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

    /// All of it.
    pub(super) fn page(&self, with_diff: bool, verbose: bool) -> Page {
        let mut page = Page::default();
        if let Some(diff) = self.diff.as_ref().filter(|_| with_diff) {
            Writer { page: &mut page, verbose }.job(diff);
            page.line("");
        }
        page.bold("Scheduler dry-run:");
        self.dry_run(&mut page);
        if let Some(warnings) = self.warnings.as_ref().filter(|warnings| !warnings.is_empty()) {
            page.title("Job Warnings:");
            page.line(warnings.as_str());
        }
        self.preemptions(&mut page);
        let index = self.job_modify_index.unwrap_or_default();
        page.title(format!("Job Modify Index: {index}"));
        page.line("To submit the job with version verification run:");
        page.line("");
        page.line(format!("drover job run -check-index {index} <job file>"));
        page.line("");
        page.line("The job is registered only if nobody has changed it since this plan was made.");
        page
    }

    fn dry_run(&self, page: &mut Page) {
        let failed = self.failed_tg_allocs.iter().flatten();
        let groups: Vec<_> = failed.collect();
        if groups.is_empty() {
            page.coloured(Colour::Green, "- All tasks successfully allocated.");
        } else {
            page.coloured(Colour::Yellow, "- WARNING: Failed to place all allocations.");
            for (group, metric) in groups {
                let more = metric.coalesced_failures.unwrap_or_default() + 1;
                page.line(format!("  Task Group {group:?} (failed to place {more} allocation(s)):"));
                reasons(metric).iter().for_each(|reason| page.line(format!("    * {reason}")));
            }
        }
        let launch = format::time(self.next_periodic_launch);
        if !launch.is_empty() {
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

fn kind(kind: &Option<String>) -> &str {
    kind.as_deref().unwrap_or("None")
}

/// The sign and the colour of a kind of difference.
fn sign(kind: &str) -> (&'static str, Option<Colour>) {
    match kind {
        "Added" => ("+   ", Some(Colour::Green)),
        "Deleted" => ("-   ", Some(Colour::Red)),
        "Edited" => ("+/- ", Some(Colour::Yellow)),
        _ => ("", None),
    }
}

/// Whether a group or a task is worth a line.
fn is_told(diff: &Diff, verbose: bool) -> bool {
    let updates = diff.updates.as_ref().is_some_and(|updates| !updates.is_empty());
    verbose || updates || kind(&diff.r#type) != "None"
}

struct Writer<'p> {
    page: &'p mut Page,
    verbose: bool,
}

impl Writer<'_> {
    fn job(&mut self, job: &Diff) {
        let verbose = self.verbose;
        let id = format::text(job.id.as_ref());
        self.line(0, kind(&job.r#type), &format!("Job: {id:?}"));
        self.parts(0, job);
        for group in job.task_groups.iter().flatten().filter(|group| is_told(group, verbose)) {
            let updates: Vec<String> =
                group.updates.iter().flatten().map(|(what, count)| format!("{count} {what}")).collect();
            let updates =
                if updates.is_empty() { String::new() } else { format!(" ({})", updates.join(", ")) };
            let name = format::text(group.name.as_ref());
            self.line(0, kind(&group.r#type), &format!("Task Group: {name:?}{updates}"));
            self.parts(1, group);
            for task in group.tasks.iter().flatten().filter(|task| is_told(task, verbose)) {
                let name = format::text(task.name.as_ref());
                let forced = annotated(task.annotations.as_deref());
                self.line(1, kind(&task.r#type), &format!("Task: {name:?}{forced}"));
                self.parts(2, task);
            }
        }
    }

    fn parts(&mut self, depth: usize, diff: &Diff) {
        for field in diff.fields.iter().flatten() {
            let kind = kind(&field.r#type);
            let (old, new) = (format::text(field.old.as_ref()), format::text(field.new.as_ref()));
            let values = match kind {
                "Added" => format!("{new:?}"),
                "Edited" => format!("{old:?} => {new:?}"),
                "Deleted" | "None" => format!("{old:?}"),
                _ => format!("{new:?}"),
            };
            let name = format::text(field.name.as_ref());
            let forced = annotated(field.annotations.as_deref());
            self.line(depth, kind, &format!("{name}: {values}{forced}"));
        }
        for object in diff.objects.iter().flatten() {
            let name = format::text(object.name.as_ref());
            self.line(depth, kind(&object.r#type), &format!("{name} {{"));
            self.parts(depth + 1, object);
            self.line(depth, "None", "}");
        }
    }

    fn line(&mut self, depth: usize, kind: &str, text: &str) {
        let (sign, colour) = sign(kind);
        let line = format!("{}{sign:4}{text}", "  ".repeat(depth));
        match colour {
            Some(colour) => self.page.coloured(colour, line),
            None => self.page.line(line),
        }
    }
}

fn annotated(annotations: Option<&[String]>) -> String {
    match annotations {
        Some(annotations) if !annotations.is_empty() => format!(" ({})", annotations.join(", ")),
        Some(_) | None => String::new(),
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
        insta::assert_snapshot!(planned.page(true, false), @r#"
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
      Task Group "web" (failed to place 2 allocation(s)):
        * Dimension "memory" exhausted on 3 nodes

    Job Warnings:
    1 warning:

    * mind the gap

    Preemptions:
    Alloc ID  Job ID  Task Group
    0a1b2c3d  batch   g

    Job Modify Index: 7
    To submit the job with version verification run:

    drover job run -check-index 7 <job file>

    The job is registered only if nobody has changed it since this plan was made.
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
