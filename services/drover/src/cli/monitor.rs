//! The lines that are printed while an evaluation and its allocations are followed (`docs/rules/cli.md`, *job run*). Pure: takes
//! successive snapshots, and returns lines, what to wait for next, and finally an exit code. [`super::follow`] fetches the
//! snapshots.

use std::collections::BTreeMap;

use api_types::{AllocListStub, Evaluation};

use super::failures::{event_text, is_notable, logs_command};
use super::format;
pub(crate) use super::lines::Line;
use super::reasons::{self, Places, reasons};

/// The exit code if some allocations could not be placed.
pub(crate) const EXIT_UNPLACED: u8 = 2;
/// The exit code if the evaluation or an allocation failed.
const EXIT_FAILED: u8 = 1;

/// How far to follow an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until the evaluation is complete.
    Scheduled,
    /// Until the placed allocations run, or have run.
    Running,
}

/// The action after a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for a change of the evaluation.
    Eval,
    /// Wait for a change of its allocations.
    Allocs,
    /// Follow the evaluation that replaces it.
    Other(String),
    /// Stop with this exit code.
    Done(u8),
}

/// The state of following one evaluation: what has been printed.
#[derive(Debug)]
pub(crate) struct Monitor {
    until: Until,
    verbose: bool,
    /// The last printed status, once anything was printed.
    status: Option<String>,
    is_finished: bool,
    is_deployment_printed: bool,
    allocs: BTreeMap<String, PrintedAlloc>,
    /// The places that are named if no node is eligible.
    places: Places,
}

/// The state of an allocation as last printed.
#[derive(Debug, Default)]
struct PrintedAlloc {
    status: String,
    /// The time of the last printed event, by task.
    events: BTreeMap<String, i64>,
    /// Whether the command that shows the output of the failed task was printed.
    is_explained: bool,
}

impl Monitor {
    pub(crate) fn new(until: Until, verbose: bool) -> Self {
        Self {
            until,
            verbose,
            status: None,
            is_finished: false,
            is_deployment_printed: false,
            allocs: BTreeMap::new(),
            places: Places::default(),
        }
    }

    /// Sets the places that are named if no node is eligible.
    pub(crate) fn set_places(&mut self, places: Places) {
        self.places = places;
    }

    /// The new lines for a snapshot, and what to do next.
    pub(crate) fn update(&mut self, eval: &Evaluation, allocs: &[AllocListStub]) -> (Vec<Line>, Next) {
        let mut lines = Vec::new();
        let status = format::text(eval.status.as_ref());
        let before = self.status.get_or_insert_with(|| {
            lines.push(Line::Milestone(format!(
                "Monitoring evaluation \"{}\"",
                format::id(eval.id.as_ref(), self.verbose)
            )));
            lines.push(Line::Progress(trigger(eval, self.verbose)));
            if let Some(trace) = eval.trace_id.as_ref().filter(|_| self.verbose) {
                lines.push(Line::Progress(format!("Trace ID = {trace}")));
            }
            "pending".to_owned()
        });
        let before = std::mem::replace(before, status.clone());
        let deployment = eval.deployment_id.as_ref().filter(|id| !id.is_empty());
        if let Some(deployment) = deployment.filter(|_| !self.is_deployment_printed) {
            self.is_deployment_printed = true;
            let id = format::id(Some(deployment), self.verbose);
            lines.push(Line::Progress(format!("Evaluation within deployment: \"{id}\"")));
        }
        for alloc in allocs {
            self.add_alloc(eval, alloc, &mut lines);
        }
        if before != status {
            lines.push(Line::Progress(format!("Evaluation status changed: \"{before}\" -> \"{status}\"")));
        }
        if status == "pending" {
            return (lines, Next::Eval);
        }
        if !self.is_finished {
            self.is_finished = true;
            self.finish(eval, &mut lines);
        }
        let next = self.next(eval, allocs, &mut lines);
        (lines, next)
    }

    fn next(&self, eval: &Evaluation, allocs: &[AllocListStub], lines: &mut Vec<Line>) -> Next {
        let is = |alloc: &AllocListStub, status| alloc.client_status.as_deref() == Some(status);
        let wanted = |alloc: &&AllocListStub| alloc.desired_status.as_deref() == Some("run");
        if self.until == Until::Running && allocs.iter().filter(wanted).any(|alloc| is(alloc, "pending")) {
            return Next::Allocs;
        }
        let created: Vec<_> = allocs.iter().filter(|alloc| is_new(eval, alloc)).collect();
        let failed = created.iter().filter(|alloc| is(alloc, "failed")).count();
        let count = created.len();
        if self.until == Until::Running && count > 0 {
            let (amount, happened) = if failed > 0 { (failed, "failed") } else { (count, "started") };
            // Those that could not be placed were asked for, too.
            let asked = unplaced(eval).saturating_add(count);
            lines
                .push(Line::Milestone(format!("{amount} of {asked} allocation{} {happened}", plural(asked))));
        }
        let has_failed = eval.status.as_deref() == Some("failed");
        if let Some(other) = eval.next_eval.clone().filter(|id| has_failed && !id.is_empty()) {
            return Next::Other(other);
        }
        if has_failed || (self.until == Until::Running && failed > 0) {
            return Next::Done(EXIT_FAILED);
        }
        Next::Done(if is_unplaced(eval) { EXIT_UNPLACED } else { 0 })
    }

    fn add_alloc(&mut self, eval: &Evaluation, alloc: &AllocListStub, lines: &mut Vec<Line>) {
        let id = format::id(alloc.id.as_ref(), self.verbose);
        let status = format::text(alloc.client_status.as_ref());
        let printed = self.allocs.entry(format::text(alloc.id.as_ref()));
        let printed = printed.or_insert_with(|| {
            let done = if is_new(eval, alloc) { "created" } else { "modified" };
            let node = format::id(alloc.node_id.as_ref(), self.verbose);
            let group = format::text(alloc.task_group.as_ref());
            lines.push(Line::Progress(format!(
                "Allocation \"{id}\" {done}: node \"{node}\", group \"{group}\""
            )));
            let status = if done == "created" { "pending".to_owned() } else { status.clone() };
            PrintedAlloc { status, ..PrintedAlloc::default() }
        });
        if printed.status != status {
            let before = std::mem::replace(&mut printed.status, status.clone());
            let line = format!("Allocation \"{id}\" status changed: \"{before}\" -> \"{status}\"");
            let reason = alloc.client_description.as_ref();
            let reason = reason
                .filter(|reason| !reason.is_empty())
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default();
            lines.push(Line::Progress(format!("{line}{reason}")));
        }
        if !is_new(eval, alloc) || !matches!(status.as_str(), "pending" | "failed") {
            return;
        }
        for (task, state) in alloc.task_states.iter().flatten() {
            let last = printed.events.entry(task.clone()).or_insert(i64::MIN);
            for event in state.events.iter().flatten() {
                let time = event.time.unwrap_or_default();
                if time > *last && is_notable(event) {
                    *last = time;
                    lines.push(Line::Detail(format!("Task \"{task}\": {}", event_text(event))));
                }
            }
        }
        if status == "failed" && !std::mem::replace(&mut printed.is_explained, true) {
            lines.extend(logs_command(alloc, self.verbose).map(Line::Detail));
        }
    }

    /// The result of the evaluation.
    fn finish(&self, eval: &Evaluation, lines: &mut Vec<Line>) {
        let id = format::id(eval.id.as_ref(), self.verbose);
        let status = format::text(eval.status.as_ref());
        let finished = format!("Evaluation \"{id}\" finished with status \"{status}\"");
        let Some(failed) = eval.failed_tg_allocs.as_ref().filter(|_| is_unplaced(eval)) else {
            lines.push(Line::Milestone(finished));
            let reason =
                eval.status_description.as_ref().filter(|reason| status == "failed" && !reason.is_empty());
            lines.extend(reason.map(|reason| Line::Progress(reason.clone())));
            return;
        };
        lines.push(Line::Milestone(format!("{finished} but failed to place all allocations:")));
        for (group, metric) in failed {
            lines.push(Line::Progress(reasons::title(group, metric)));
            lines.extend(reasons(metric, &self.places).into_iter().map(Line::Detail));
        }
        if let Some(blocked) = eval.blocked_eval.as_ref().filter(|blocked| !blocked.is_empty()) {
            let blocked = format::id(Some(blocked), self.verbose);
            lines.push(Line::Progress(format!(
                "Evaluation \"{blocked}\" waiting for additional capacity to place remainder"
            )));
        }
    }
}

fn trigger(eval: &Evaluation, verbose: bool) -> String {
    if eval.triggered_by.as_deref() == Some("node-update") {
        return format!("Evaluation triggered by node \"{}\"", format::id(eval.node_id.as_ref(), verbose));
    }
    format!("Evaluation triggered by job \"{}\"", format::text(eval.job_id.as_ref()))
}

fn is_new(eval: &Evaluation, alloc: &AllocListStub) -> bool {
    alloc.create_index >= eval.create_index
}

fn is_unplaced(eval: &Evaluation) -> bool {
    eval.failed_tg_allocs.as_ref().is_some_and(|failed| !failed.is_empty())
}

/// Number of allocations that the evaluation could not place.
fn unplaced(eval: &Evaluation) -> usize {
    let counts = eval.failed_tg_allocs.iter().flatten().map(|(_, metric)| reasons::unplaced(metric));
    usize::try_from(counts.fold(0_i64, i64::saturating_add)).unwrap_or_default()
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use api_types::{AllocMetric, TaskEvent, TaskState};

    use super::*;

    fn eval(status: &str) -> Evaluation {
        Evaluation {
            id: Some("e0000000-0000".to_owned()),
            job_id: Some("example".to_owned()),
            triggered_by: Some("job-register".to_owned()),
            status: Some(status.to_owned()),
            create_index: Some(10),
            ..Evaluation::default()
        }
    }

    fn unplaced(constraint: &str) -> Evaluation {
        let metric = AllocMetric {
            nodes_evaluated: Some(3),
            constraint_filtered: Some([(constraint.to_owned(), 3)].into()),
            coalesced_failures: Some(1),
            ..AllocMetric::default()
        };
        Evaluation {
            failed_tg_allocs: Some([("web".to_owned(), metric)].into()),
            blocked_eval: Some("b0000000-0000".to_owned()),
            ..eval("complete")
        }
    }

    fn alloc(id: &str, status: &str) -> AllocListStub {
        AllocListStub {
            id: Some(id.to_owned()),
            node_id: Some("40000000-0000".to_owned()),
            task_group: Some("web".to_owned()),
            desired_status: Some("run".to_owned()),
            client_status: Some(status.to_owned()),
            create_index: Some(11),
            ..AllocListStub::default()
        }
    }

    fn with_events(mut alloc: AllocListStub, events: &[(&str, &str)]) -> AllocListStub {
        let event = |(at, (kind, message)): (usize, &(&str, &str))| TaskEvent {
            r#type: Some((*kind).to_owned()),
            time: Some(at as i64),
            display_message: Some((*message).to_owned()),
            ..TaskEvent::default()
        };
        let events = Some(events.iter().enumerate().map(event).collect());
        alloc.task_states = Some([("serve".to_owned(), TaskState { events, ..TaskState::default() })].into());
        alloc
    }

    /// All lines for these snapshots, with the next action after each.
    fn output(until: Until, snapshots: &[(Evaluation, Vec<AllocListStub>)]) -> String {
        let mut monitor = Monitor::new(until, false);
        let mut text = String::new();
        for (eval, allocs) in snapshots {
            let (lines, next) = monitor.update(eval, allocs);
            for line in lines {
                match line {
                    Line::Milestone(line) => writeln!(text, "==> {line}"),
                    Line::Progress(line) | Line::Row(line) => writeln!(text, "    {line}"),
                    Line::Detail(line) => writeln!(text, "      * {line}"),
                }
                .unwrap();
            }
            writeln!(text, "[{next:?}]").unwrap();
        }
        text
    }

    #[test]
    fn a_job_that_starts() {
        let text = output(
            Until::Running,
            &[
                (eval("pending"), vec![]),
                (eval("complete"), vec![alloc("a1", "pending"), alloc("a2", "pending")]),
                (eval("complete"), vec![alloc("a1", "running"), alloc("a2", "pending")]),
                (eval("complete"), vec![alloc("a1", "running"), alloc("a2", "running")]),
            ],
        );
        insta::assert_snapshot!(text, @r#"
        ==> Monitoring evaluation "e0000000"
            Evaluation triggered by job "example"
        [Eval]
            Allocation "a1" created: node "40000000", group "web"
            Allocation "a2" created: node "40000000", group "web"
            Evaluation status changed: "pending" -> "complete"
        ==> Evaluation "e0000000" finished with status "complete"
        [Allocs]
            Allocation "a1" status changed: "pending" -> "running"
        [Allocs]
            Allocation "a2" status changed: "pending" -> "running"
        ==> 2 of 2 allocations started
        [Done(0)]
        "#);
    }

    #[test]
    fn a_task_that_does_not_start() {
        let failure = ("Driver Failure", "no such program");
        let first = [("Received", ""), failure, ("Restarting", "Task restarting in 1s")];
        let second = [first[0], first[1], first[2], failure, ("Not Restarting", "Exceeded allowed attempts")];
        let failed = AllocListStub {
            client_description: Some("Failed tasks".to_owned()),
            ..with_events(alloc("a1", "failed"), &second)
        };
        let text = output(
            Until::Running,
            &[
                (eval("complete"), vec![with_events(alloc("a1", "pending"), &first)]),
                (eval("complete"), vec![failed]),
            ],
        );
        insta::assert_snapshot!(text, @r#"
        ==> Monitoring evaluation "e0000000"
            Evaluation triggered by job "example"
            Allocation "a1" created: node "40000000", group "web"
              * Task "serve": Driver Failure: no such program
              * Task "serve": Restarting: Task restarting in 1s
            Evaluation status changed: "pending" -> "complete"
        ==> Evaluation "e0000000" finished with status "complete"
        [Allocs]
            Allocation "a1" status changed: "pending" -> "failed" (Failed tasks)
              * Task "serve": Driver Failure: no such program
              * Task "serve": Not Restarting: Exceeded allowed attempts
              * To see what the task wrote: drover alloc logs -stderr a1
        ==> 1 of 1 allocation failed
        [Done(1)]
        "#);
    }

    #[test]
    fn groups_that_cannot_be_placed_are_explained() {
        let text = output(Until::Running, &[(unplaced("${attr.kernel.name} = plan9"), vec![])]);
        insta::assert_snapshot!(text, @r#"
        ==> Monitoring evaluation "e0000000"
            Evaluation triggered by job "example"
            Evaluation status changed: "pending" -> "complete"
        ==> Evaluation "e0000000" finished with status "complete" but failed to place all allocations:
            Task Group "web" (failed to place 2 allocations):
              * Constraint "${attr.kernel.name} = plan9": 3 nodes excluded by filter
            Evaluation "b0000000" waiting for additional capacity to place remainder
        [Done(2)]
        "#);
    }

    #[test]
    fn some_room_waits_for_what_was_placed_and_still_says_two() {
        let text = output(
            Until::Running,
            &[(unplaced("x"), vec![alloc("a1", "pending")]), (unplaced("x"), vec![alloc("a1", "running")])],
        );
        assert!(text.ends_with("==> 1 of 3 allocations started\n[Done(2)]\n"), "{text}");
    }

    #[test]
    fn stopping_waits_for_the_scheduler_only_and_forgives_old_failures() {
        let old = |status: &str, desired: &str| AllocListStub {
            desired_status: Some(desired.to_owned()),
            create_index: Some(5),
            ..alloc("a1", status)
        };
        let stopped = output(Until::Scheduled, &[(eval("complete"), vec![old("running", "stop")])]);
        assert!(stopped.contains("Allocation \"a1\" modified: node"), "{stopped}");
        assert!(stopped.ends_with("finished with status \"complete\"\n[Done(0)]\n"), "{stopped}");
        let updated = output(Until::Running, &[(eval("complete"), vec![old("failed", "stop")])]);
        assert!(updated.ends_with("[Done(0)]\n"), "{updated}");
    }

    #[test]
    fn the_deployment_of_an_evaluation_is_named_once() {
        let within =
            |status: &str| Evaluation { deployment_id: Some("d0000000-0000".to_owned()), ..eval(status) };
        let running = AllocListStub {
            client_description: Some("Tasks are running".to_owned()),
            ..alloc("a1", "running")
        };
        let text =
            output(Until::Running, &[(within("pending"), vec![]), (within("complete"), vec![running])]);
        assert_eq!(text.matches("    Evaluation within deployment: \"d0000000\"\n").count(), 1, "{text}");
        assert!(text.contains("\"pending\" -> \"running\" (Tasks are running)\n"), "{text}");
    }

    #[test]
    fn a_failed_evaluation_is_followed_by_the_next() {
        let failed = Evaluation {
            status_description: Some("maximum attempts reached (5)".to_owned()),
            next_eval: Some("f0000000-0000".to_owned()),
            ..eval("failed")
        };
        let text = output(Until::Running, &[(failed.clone(), vec![])]);
        assert!(text.contains("    maximum attempts reached (5)\n[Other(\"f0000000-0000\")]"), "{text}");
        let text = output(Until::Running, &[(Evaluation { next_eval: None, ..failed }, vec![])]);
        assert!(text.ends_with("[Done(1)]\n"), "{text}");
    }
}
