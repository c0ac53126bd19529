//! Periodic and parameterized jobs in the output of commands: when they are launched next, and which jobs they have made.

use api_types::{Job, JobListStub, JobSummary};
use model::schedule::Schedule;
use model::{Nanos, Timestamp};

use crate::cli::format;
use crate::cli::page::Page;

/// Whether a job only makes other jobs: a periodic one, or a parameterized one that was not made by a dispatch itself.
pub(super) fn is_parent(job: &Job) -> bool {
    job.periodic.is_some() || (job.parameterized_job.is_some() && job.dispatched != Some(true))
}

/// The schedule of a periodic job, unless it is disabled or stopped, or is only launched for its dispatches.
pub(super) fn schedule(job: &Job) -> Option<Schedule> {
    let periodic = job.periodic.as_ref().filter(|periodic| periodic.enabled != Some(false))?;
    let is_launched = job.parameterized_job.is_none() || job.dispatched == Some(true);
    (is_launched && job.stop != Some(true)).then(|| Schedule::of_api(periodic))
}

/// When a job is launched next, as `2006-01-02T15:04:05Z (15h59m38s from now)`.
pub(super) fn next_launch(schedule: &Schedule, now: i64) -> Option<String> {
    schedule.next(Timestamp(now)).map(|next| from_now(next.0, now))
}

/// A time with its distance, as `2006-01-02T15:04:05Z (15h59m38s from now)`.
pub(super) fn from_now(moment: i64, now: i64) -> String {
    let seconds = Timestamp(moment).as_secs().saturating_sub(Timestamp(now).as_secs());
    format!("{} ({} from now)", format::moment(moment), Nanos::from_secs(seconds))
}

/// The line of a job's status about its next launch. `None` for a job that is not periodic.
pub(super) fn launch_line(job: &Job, now: i64) -> Option<String> {
    job.periodic.as_ref()?;
    if job.stop == Some(true) {
        return Some("none (job stopped)".to_owned());
    }
    let next = schedule(job).and_then(|schedule| next_launch(&schedule, now));
    Some(next.unwrap_or_else(|| "none".to_owned()))
}

/// The children of a parent: their counts, and a table of them.
pub(super) fn show(page: &mut Page, job: &Job, summary: &JobSummary, listed: &[JobListStub]) {
    let children = listed.iter().filter(|child| child.parent_id == job.id);
    let children: Vec<_> =
        children.map(|child| [child.id.as_ref(), child.status.as_ref()].map(format::text)).collect();
    let (counts, list, none) = if job.periodic.is_some() {
        ("Children Job Summary", "Previously Launched Jobs", "No instances of periodic job found")
    } else {
        parameters(page, job);
        ("Parameterized Job Summary", "Dispatched Jobs", "No dispatched instances of parameterized job found")
    };
    let summary = summary.children.clone().unwrap_or_default();
    page.title(counts);
    let row = [summary.pending, summary.running, summary.dead].map(format::number);
    page.table(&["Pending", "Running", "Dead"], [row]);
    if let Some(held) = summary.held.filter(|held| *held > 0) {
        page.line("");
        page.line(format!("{held} of the pending jobs wait until a running one has ended"));
    }
    if children.is_empty() {
        page.line("");
        page.line(none);
    } else {
        page.title(list);
        page.table(&["ID", "Status"], children);
    }
}

/// What dispatches of a parameterized job contain.
fn parameters(page: &mut Page, job: &Job) {
    let config = job.parameterized_job.clone().unwrap_or_default();
    let keys = |keys: Option<Vec<String>>| {
        keys.filter(|keys| !keys.is_empty()).map_or_else(|| "<none>".to_owned(), |keys| keys.join(", "))
    };
    page.title("Parameterized Job");
    let mut rows = vec![
        ("Payload", format::text(config.payload.as_ref())),
        ("Required Metadata", keys(config.meta_required)),
        ("Optional Metadata", keys(config.meta_optional)),
    ];
    if let Some(limit) = config.max_children_running.filter(|limit| *limit > 0) {
        rows.push(("Max Running", limit.to_string()));
    }
    page.block(&rows);
}

#[cfg(test)]
mod tests {
    use api_types::{JobChildrenSummary, ParameterizedJobConfig, PeriodicConfig};

    use super::*;

    /// 15 January 2027, 08:00:00 UTC.
    const NOW: i64 = 1_800_000_000_000_000_000;

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn cron(spec: &str) -> Job {
        let periodic = PeriodicConfig { specs: Some(vec![spec.to_owned()]), ..PeriodicConfig::default() };
        Job { id: text("cron"), periodic: Some(periodic), ..Job::default() }
    }

    fn child(id: &str, parent: &str) -> JobListStub {
        JobListStub { id: text(id), parent_id: text(parent), status: text("dead"), ..JobListStub::default() }
    }

    fn shown(job: &Job, summary: &JobSummary, listed: &[JobListStub]) -> String {
        let mut page = Page::default();
        show(&mut page, job, summary, listed);
        page.to_string()
    }

    #[test]
    fn the_next_launch_is_shown_with_its_distance() {
        // cli 4.6: `<RFC 3339> (15h59m33s from now)`, `none (job stopped)`.
        let job = cron("0 0 * * *");
        let line = |job: &Job| launch_line(job, NOW);
        assert_eq!(line(&job).as_deref(), Some("2027-01-16T00:00:00Z (16h0m0s from now)"));
        assert_eq!(line(&Job { stop: Some(true), ..job.clone() }).as_deref(), Some("none (job stopped)"));
        assert_eq!(line(&cron("0 0 30 2 *")).as_deref(), Some("none"));
        assert_eq!(line(&Job::default()), None);
        let disabled = job.periodic.clone().map(|one| PeriodicConfig { enabled: Some(false), ..one });
        assert!(schedule(&Job { periodic: disabled, ..job.clone() }).is_none());
        assert!(schedule(&job).is_some() && is_parent(&job));
    }

    #[test]
    fn launched_jobs_are_listed_below_their_counts() {
        let summary = JobSummary {
            children: Some(JobChildrenSummary {
                pending: Some(0),
                running: Some(1),
                dead: Some(2),
                held: None,
            }),
            ..JobSummary::default()
        };
        let listed = [child("cron/periodic-1", "cron"), child("cron/other", "")];
        let text = shown(&cron("@daily"), &summary, &listed);
        let expected = "Children Job Summary\nPending  Running  Dead\n0        1        2\n\n\
                        Previously Launched Jobs\nID               Status\ncron/periodic-1  dead\n";
        assert_eq!(text, expected);
        let text = shown(&cron("@daily"), &JobSummary::default(), &[]);
        assert!(text.ends_with("\n\nNo instances of periodic job found\n"), "{text}");
    }

    #[test]
    fn parameterized_jobs_show_what_a_dispatch_contains() {
        let config = ParameterizedJobConfig {
            payload: text("required"),
            meta_required: Some(vec!["a".to_owned(), "b".to_owned()]),
            max_children_running: Some(3),
            ..ParameterizedJobConfig::default()
        };
        let job = Job { id: text("call"), parameterized_job: Some(config), ..Job::default() };
        assert!(is_parent(&job) && !is_parent(&Job { dispatched: Some(true), ..job.clone() }));
        let children = JobChildrenSummary { held: Some(2), ..JobChildrenSummary::default() };
        let summary = JobSummary { children: Some(children), ..JobSummary::default() };
        let text = shown(&job, &summary, &[]);
        for line in [
            "Payload           = required",
            "Required Metadata = a, b",
            "Optional Metadata = <none>",
            "Max Running       = 3",
            "Parameterized Job Summary",
            "2 of the pending jobs wait until a running one has ended",
            "No dispatched instances of parameterized job found",
        ] {
            assert!(text.lines().any(|found| found.trim_end() == line), "{line}: {text}");
        }
    }
}
