//! `drover eval status`: shows an evaluation, and why allocations could not be placed.

use std::process::ExitCode;

use api_types::{AllocListStub, DesiredUpdates, Evaluation};
use serde_json::Value;

use crate::cli::monitor::Until;
use crate::cli::page::Page;
use crate::cli::prefix::{Kind, resolve_id};
use crate::cli::reasons::{self, Places, has_failures, lacks_places, reasons};
use crate::cli::{ApiCommand, Session, flags, format, tables};

/// Shows an evaluation, and why allocations could not be placed.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover eval status 1a2b3c4d")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(in crate::cli) show: flags::Show,
    /// The id of an evaluation, or a prefix of it.
    pub(in crate::cli) eval: String,
    /// Follow the evaluation until it is complete.
    #[arg(long, conflicts_with_all = ["json", "template"])]
    pub(in crate::cli) monitor: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let kind = Kind {
            list: "/v1/evaluations",
            plural: "evaluations",
            not_found: "No evaluation(s) with prefix or id \"{}\" found",
            id: |eval: &Evaluation| eval.id.as_ref(),
            table: |evals, verbose| {
                let mut page = Page::default();
                tables::evals(&mut page, evals, verbose);
                page
            },
        };
        let id = resolve_id(&session.client, &kind, &self.eval, self.show.verbose).await?;
        if self.monitor {
            return session.follow(&id, Until::Running, self.show.verbose).await;
        }
        let path = format!("/v1/evaluation/{id}");
        if self.show.object.is_requested() {
            let eval: Value = session.client.get(&path, &[("related", "true")]).await?;
            self.show.object.print(session.output, &eval)?;
            return Ok(ExitCode::SUCCESS);
        }
        let eval: Evaluation = session.client.get(&path, &[("reasons", "true"), ("related", "true")]).await?;
        let failed = eval.failed_tg_allocs.iter().flatten().map(|(_, metric)| metric);
        let places = if lacks_places(failed) { session.places().await } else { Places::default() };
        let allocs: Vec<AllocListStub> = session.client.get(&format!("{path}/allocations"), &[]).await?;
        session.output.page(&page(&eval, &allocs, &places, (format::now(), self.show.verbose)));
        Ok(ExitCode::SUCCESS)
    }
}

fn page(eval: &Evaluation, allocs: &[AllocListStub], places: &Places, (now, verbose): (i64, bool)) -> Page {
    let mut page = Page::default();
    let mut pairs = vec![
        ("ID", format::id(eval.id.as_ref(), verbose)),
        ("Create Time", format::ago(eval.create_time.unwrap_or_default(), now, verbose)),
        ("Modify Time", format::ago(eval.modify_time.unwrap_or_default(), now, verbose)),
        ("Status", format::text(eval.status.as_ref())),
        ("Status Description", format::text(eval.status_description.as_ref())),
        ("Type", format::text(eval.r#type.as_ref())),
        ("TriggeredBy", format::text(eval.triggered_by.as_ref())),
        ("Job ID", format::text(eval.job_id.as_ref())),
        ("Namespace", format::text(eval.namespace.as_ref())),
    ];
    let id = |id: &Option<String>| format::id(id.as_ref(), verbose);
    // Only evaluations of a node name one.
    if eval.node_id.as_ref().is_some_and(|node| !node.is_empty()) {
        pairs.push(("Node ID", id(&eval.node_id)));
    }
    pairs.extend([
        ("Priority", format::number(eval.priority)),
        ("Placement Failures", tables::placement_failures(eval)),
        ("Previous Eval", id(&eval.previous_eval)),
        ("Next Eval", id(&eval.next_eval)),
        ("Blocked Eval", id(&eval.blocked_eval)),
    ]);
    if let Some(trace) = &eval.trace_id {
        pairs.push(("Trace ID", trace.clone()));
    }
    page.block(&pairs);
    related(&mut page, eval, verbose);
    annotations(&mut page, eval, verbose);
    if !allocs.is_empty() {
        page.title("Placed Allocations");
        tables::allocs(&mut page, allocs, now, verbose);
    }
    if has_failures(eval) {
        page.title("Failed Placements");
        for (group, metric) in eval.failed_tg_allocs.iter().flatten() {
            page.line(reasons::title(group, metric));
            reasons(metric, places).iter().for_each(|reason| page.line(format!("  * {reason}")));
        }
        if let Some(blocked) = eval.blocked_eval.as_ref().filter(|blocked| !blocked.is_empty()) {
            let blocked = format::id(Some(blocked), verbose);
            page.line("");
            page.line(format!("Evaluation \"{blocked}\" waiting for additional capacity to place remainder"));
        }
    }
    page
}

/// The evaluations before and after it.
fn related(page: &mut Page, eval: &Evaluation, verbose: bool) {
    let related = eval.related_evals.as_deref().unwrap_or_default();
    if related.is_empty() {
        return;
    }
    page.title("Related Evaluations");
    let rows = related.iter().map(|eval| {
        [
            format::id(eval.id.as_ref(), verbose),
            format::number(eval.priority),
            format::text(eval.triggered_by.as_ref()),
            format::id(eval.node_id.as_ref(), verbose),
            format::text(eval.status.as_ref()),
            format::text(eval.status_description.as_ref()),
        ]
    });
    page.table(&["ID", "Priority", "Triggered By", "Node ID", "Status", "Description"], rows);
}

/// Number of allocations of each group by what was decided about them. Columns after the first are shown if they count
/// something, or if everything is shown.
fn annotations(page: &mut Page, eval: &Evaluation, verbose: bool) {
    let groups = eval.plan_annotations.as_ref().and_then(|plan| plan.desired_tg_updates.as_ref());
    let Some(groups) = groups.filter(|groups| !groups.is_empty()) else { return };
    let columns: [Column; 12] = [
        ("Ignore", |group| group.ignore, true),
        ("Place", |group| group.place, true),
        ("Stop", |group| group.stop, true),
        ("InPlace", |group| group.in_place_update, true),
        ("Destructive", |group| group.destructive_update, true),
        ("Migrate", |group| group.migrate, false),
        ("Canary", |group| group.canary, false),
        ("Preemptions", |group| group.preemptions, false),
        ("Reschedule Now", |group| group.reschedule_now, false),
        ("Reschedule Later", |group| group.reschedule_later, false),
        ("Disconnect", |group| group.disconnect, false),
        ("Reconnect", |group| group.reconnect, false),
    ];
    let counts = |count: fn(&DesiredUpdates) -> Option<u64>| {
        groups.values().any(|group| count(group).unwrap_or_default() > 0)
    };
    let shown: Vec<Column> =
        columns.into_iter().filter(|(_, count, always)| *always || verbose || counts(*count)).collect();
    page.title("Plan Annotations");
    let mut header = vec!["Task Group"];
    header.extend(shown.iter().map(|(name, ..)| *name));
    let rows = groups.iter().map(|(name, group)| {
        let mut row = vec![name.clone()];
        row.extend(shown.iter().map(|(_, count, _)| count(group).unwrap_or_default().to_string()));
        row
    });
    page.table(&header, rows);
}

/// A column of the annotations: its name, its number, and whether it is always shown.
type Column = (&'static str, fn(&DesiredUpdates) -> Option<u64>, bool);

#[cfg(test)]
mod tests {
    use api_types::AllocMetric;

    use super::*;

    #[test]
    fn an_evaluation_says_why_it_could_not_place() {
        let metric = AllocMetric {
            nodes_evaluated: Some(2),
            nodes_exhausted: Some(2),
            dimension_exhausted: Some([("memory".to_owned(), 2)].into()),
            coalesced_failures: Some(4),
            ..AllocMetric::default()
        };
        let eval = Evaluation {
            id: Some("e0000000-0000".to_owned()),
            status: Some("complete".to_owned()),
            r#type: Some("service".to_owned()),
            job_id: Some("example".to_owned()),
            priority: Some(50),
            create_time: Some(1_000_000_000),
            modify_time: Some(4_000_000_000),
            blocked_eval: Some("b0000000-0000".to_owned()),
            failed_tg_allocs: Some([("web".to_owned(), metric)].into()),
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
            ..Evaluation::default()
        };
        let mut page = page(&eval, &[], &Places::default(), (5_000_000_000, false));
        tables::evals(&mut page, &[eval], false);
        insta::assert_snapshot!(page, @r#"
        ID                 = e0000000
        Create Time        = 4s ago
        Modify Time        = 1s ago
        Status             = complete
        Status Description = <none>
        Type               = service
        TriggeredBy        = <none>
        Job ID             = example
        Namespace          = <none>
        Priority           = 50
        Placement Failures = true
        Previous Eval      = <none>
        Next Eval          = <none>
        Blocked Eval       = b0000000
        Trace ID           = 0af7651916cd43dd8448eb211c80319c

        Failed Placements
        Task Group "web" (failed to place 5 allocations):
          * Resources exhausted on 2 nodes
          * Dimension "memory" exhausted on 2 nodes

        Evaluation "b0000000" waiting for additional capacity to place remainder
        ID        Priority  Triggered By  Status    Placement Failures
        e0000000  50        <none>        complete  true
        "#);
    }

    #[test]
    fn an_evaluation_names_its_neighbours_and_what_was_decided() {
        let json = r#"{"ID": "e0000000-0000", "Status": "complete",
            "RelatedEvals": [{"ID": "f0000000-0000", "Priority": 50, "Status": "blocked", "StatusDescription": "waits"}],
            "PlanAnnotations": {"DesiredTGUpdates": {"web": {"Place": 2, "Canary": 1}}}}"#;
        let eval: Evaluation = api_types::decode::from_slice(json.as_bytes()).unwrap();
        let shown = |verbose| page(&eval, &[], &Places::default(), (0, verbose)).to_string();
        let text = shown(false);
        for line in [
            "f0000000  50        <none>        <none>   blocked  waits",
            "Task Group  Ignore  Place  Stop  InPlace  Destructive  Canary",
            "web         0       2      0     0        0            1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(!text.contains("Placed Allocations") && shown(true).contains("Reschedule Later"), "{text}");
    }
}
