//! The difference between two versions of a job, as text (http-api A.10). Pure.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cli::format;
use crate::cli::page::{Colour, Page};

/// The difference of a job, a group, a task or a part of one (http-api A.10).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Diff {
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

impl Diff {
    /// Whether there is no difference.
    pub(super) fn is_none(&self) -> bool {
        kind(&self.r#type) == "None"
    }

    /// Adds the lines of a job's differences. With `verbose`, includes groups and tasks that are the same, and the members of
    /// jobs, groups and tasks that are new or gone (`docs/rules/cli.md` 4.5).
    pub(super) fn show(&self, page: &mut Page, verbose: bool) {
        Writer { page, verbose }.job(self);
    }
}

fn kind(kind: &Option<String>) -> &str {
    kind.as_deref().unwrap_or("None")
}

/// The sign and the colour of a type of difference.
fn sign(kind: &str) -> (&'static str, Option<Colour>) {
    match kind {
        "Added" => ("+   ", Some(Colour::Green)),
        "Deleted" => ("-   ", Some(Colour::Red)),
        "Edited" => ("+/- ", Some(Colour::Yellow)),
        _ => ("", None),
    }
}

/// Whether a group or a task is printed.
fn is_printed(diff: &Diff, verbose: bool) -> bool {
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
        self.members(0, job);
        for group in job.task_groups.iter().flatten().filter(|group| is_printed(group, verbose)) {
            let updates: Vec<String> =
                group.updates.iter().flatten().map(|(what, count)| format!("{count} {what}")).collect();
            let updates =
                if updates.is_empty() { String::new() } else { format!(" ({})", updates.join(", ")) };
            let name = format::text(group.name.as_ref());
            self.line(0, kind(&group.r#type), &format!("Task Group: {name:?}{updates}"));
            self.members(1, group);
            for task in group.tasks.iter().flatten().filter(|task| is_printed(task, verbose)) {
                let name = format::text(task.name.as_ref());
                let forced = annotated(task.annotations.as_deref());
                self.line(1, kind(&task.r#type), &format!("Task: {name:?}{forced}"));
                self.members(2, task);
            }
        }
    }

    /// The fields and objects of a job, a group or a task. One that is new or gone is one line without them, unless everything
    /// is shown.
    fn members(&mut self, depth: usize, diff: &Diff) {
        if self.verbose || !matches!(kind(&diff.r#type), "Added" | "Deleted") {
            self.parts(depth, diff);
        }
    }

    fn parts(&mut self, depth: usize, diff: &Diff) {
        for field in diff.fields.iter().flatten() {
            let kind = kind(&field.r#type);
            let name = format::text(field.name.as_ref());
            let [old, new] =
                [&field.old, &field.new].map(|value| readable(&name, &format::text(value.as_ref())));
            let values = match kind {
                "Added" => format!("{new:?}"),
                "Edited" => format!("{old:?} => {new:?}"),
                "Deleted" | "None" => format!("{old:?}"),
                _ => format!("{new:?}"),
            };
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

/// Fields that are durations. The API has them in nanoseconds.
const DURATIONS: [&str; 19] = [
    "Delay",
    "Grace",
    "HealthyDeadline",
    "Interval",
    "KillTimeout",
    "LostAfter",
    "MaxClientDisconnect",
    "MaxDelay",
    "MaxRunDuration",
    "MinHealthyTime",
    "ProgressDeadline",
    "ShutdownDelay",
    "Splay",
    "Stagger",
    "StopAfterClientDisconnect",
    "StopOnClientAfter",
    "TTL",
    "Timeout",
    "VaultGrace",
];
/// Nanoseconds of a millisecond. Smaller durations stay as they are.
const MILLISECOND: i64 = 1_000_000;

/// A value as people read it: durations such as `1h30m`. Others stay as they are.
fn readable(field: &str, value: &str) -> String {
    let nanos = value.parse::<i64>().ok().filter(|nanos| *nanos > 0 && nanos % MILLISECOND == 0);
    let Some(nanos) = nanos.filter(|_| DURATIONS.contains(&field)) else { return value.to_owned() };
    let millis = nanos / MILLISECOND;
    let parts = [
        (millis / 3_600_000, "h"),
        (millis / 60_000 % 60, "m"),
        (millis / 1000 % 60, "s"),
        (millis % 1000, "ms"),
    ];
    parts.iter().filter(|(amount, _)| *amount > 0).map(|(amount, unit)| format!("{amount}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str, verbose: bool) -> String {
        let diff: Diff = api_types::decode::from_slice(json.as_bytes()).unwrap();
        let mut page = Page::default();
        diff.show(&mut page, verbose);
        page.to_string()
    }

    const NEW: &str = r#"{"Type": "Added", "ID": "shop",
        "Fields": [{"Type": "Added", "Name": "Priority", "New": "50"}],
        "TaskGroups": [{"Type": "Added", "Name": "web", "Updates": {"create": 3},
            "Fields": [{"Type": "Added", "Name": "Count", "New": "3"}],
            "Tasks": [{"Type": "Added", "Name": "app", "Annotations": ["forces create"],
                "Fields": [{"Type": "Added", "Name": "KillTimeout", "New": "5000000000"}]}]}]}"#;

    #[test]
    fn a_new_job_is_a_line_for_each_part() {
        let text = shown(NEW, false);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "+   Job: \"shop\"",
                "+   Task Group: \"web\" (3 create)",
                "  +   Task: \"app\" (forces create)",
            ]
        );
        let whole = shown(NEW, true);
        assert!(whole.contains("Priority: \"50\"") && whole.contains("KillTimeout: \"5s\""), "{whole}");
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(readable("KillTimeout", "5000000000"), "5s");
        assert_eq!(readable("Interval", "5400000000000"), "1h30m");
        assert_eq!(readable("Delay", "1500000000"), "1s500ms");
        assert_eq!(readable("Delay", "0"), "0");
        assert_eq!(readable("Count", "5000000000"), "5000000000");
        assert_eq!(readable("Timeout", "text"), "text");
    }
}
