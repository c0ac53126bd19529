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

    /// Adds the lines of a job's differences. With `verbose`, includes groups and tasks that are the same.
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
        self.parts(0, job);
        for group in job.task_groups.iter().flatten().filter(|group| is_printed(group, verbose)) {
            let updates: Vec<String> =
                group.updates.iter().flatten().map(|(what, count)| format!("{count} {what}")).collect();
            let updates =
                if updates.is_empty() { String::new() } else { format!(" ({})", updates.join(", ")) };
            let name = format::text(group.name.as_ref());
            self.line(0, kind(&group.r#type), &format!("Task Group: {name:?}{updates}"));
            self.parts(1, group);
            for task in group.tasks.iter().flatten().filter(|task| is_printed(task, verbose)) {
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
