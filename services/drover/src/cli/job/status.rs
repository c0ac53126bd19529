//! `drover job status`: shows jobs, or one job with its allocations.

use std::collections::BTreeMap;
use std::process::ExitCode;

use api_types::{AllocListStub, Deployment, Evaluation, Job, JobListStub, JobSummary};
use serde_json::{Value, json};

use super::{ResolvedJob, children, resolve};
use crate::cli::client::escaped;
use crate::cli::page::Page;
use crate::cli::reasons::{Places, lacks_places, reasons};
use crate::cli::{ApiCommand, Session, flags, format, tables};

/// Shows jobs, or one job with its allocations.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  \
    drover job status\n  \
    drover job status web\n  \
    drover job status -evals -verbose web")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(in crate::cli) show: flags::Show,
    /// The id of a job, or a prefix of it. Without it, all jobs are listed.
    pub(in crate::cli) job: Option<String>,
    /// Of one job: leave out its summary, deployment and allocations.
    #[arg(long, requires = "job", conflicts_with_all = ["json", "template"])]
    pub(in crate::cli) short: bool,
    /// Of one job: also show its evaluations.
    #[arg(long, requires = "job", conflicts_with_all = ["json", "template", "short"])]
    pub(in crate::cli) evals: bool,
    /// Of one job: also show allocations of earlier jobs with the same id.
    #[arg(long, requires = "job", conflicts_with_all = ["json", "template", "short"])]
    pub(in crate::cli) all_allocs: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        match &self.job {
            None => list(&session, &self).await?,
            Some(name) => {
                let job = resolve(&session.client, name).await?;
                one(&session, &self, &job).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(session: &Session, args: &Args) -> anyhow::Result<()> {
    let jobs: Vec<JobListStub> = session.client.get("/v1/jobs", &[]).await?;
    if args.show.object.is_requested() {
        let mut objects = Vec::new();
        for job in &jobs {
            let [id, namespace] = [&job.id, &job.namespace].map(|text| format::text(text.as_ref()));
            objects.push(object(session, &id, &namespace).await?);
        }
        args.show.object.print(session.output, &Value::from(objects))?;
        return Ok(());
    }
    let mut page = Page::default();
    if jobs.is_empty() {
        page.line("No running jobs");
    } else {
        table(&mut page, &jobs, session.client.namespace() == Some("*"));
    }
    session.output.page(&page);
    Ok(())
}

/// A table of jobs, optionally with their namespaces.
pub(in crate::cli) fn table(page: &mut Page, jobs: &[JobListStub], namespaces: bool) {
    let row = |job: &JobListStub| {
        [
            format::text(job.id.as_ref()),
            type_of(job),
            format::number(job.priority),
            status_of(job.status.as_ref(), job.stop),
            format::moment(job.submit_time.unwrap_or_default()),
        ]
    };
    if namespaces {
        let rows = jobs.iter().map(|job| {
            let [id, kind, priority, status, submitted] = row(job);
            [id, format::text(job.namespace.as_ref()), kind, priority, status, submitted]
        });
        page.table(&["ID", "Namespace", "Type", "Priority", "Status", "Submit Date"], rows);
    } else {
        page.table(&["ID", "Type", "Priority", "Status", "Submit Date"], jobs.iter().map(row));
    }
}

fn type_of(job: &JobListStub) -> String {
    let kind = format::text(job.r#type.as_ref());
    if job.periodic == Some(true) {
        format!("{kind}/periodic")
    } else if job.parameterized_job == Some(true) {
        format!("{kind}/parameterized")
    } else {
        kind
    }
}

fn status_of(status: Option<&String>, stop: Option<bool>) -> String {
    let stopped = if stop == Some(true) { " (stopped)" } else { "" };
    format!("{}{stopped}", format::text(status))
}

/// What `-json` and `-t` print of a job: what the command shows of it, and not the job (`docs/rules/cli.md` 4.6).
async fn object(session: &Session, id: &str, namespace: &str) -> anyhow::Result<Value> {
    let path = format!("/v1/job/{}", escaped(id));
    let query = [("namespace", namespace)];
    let read = async |part: &str| session.client.get::<Value>(&format!("{path}/{part}"), &query).await;
    Ok(json!({
        "Allocations": read("allocations").await?,
        "Evaluations": read("evaluations").await?,
        "LatestDeployment": read("deployment").await?,
        "Summary": read("summary").await?,
    }))
}

async fn one(session: &Session, args: &Args, job: &ResolvedJob) -> anyhow::Result<()> {
    let path = format!("/v1/job/{}", escaped(&job.id));
    let namespace = [("namespace", job.namespace.as_str())];
    if args.show.object.is_requested() {
        let object = object(session, &job.id, &job.namespace).await?;
        args.show.object.print(session.output, &Value::from(vec![object]))?;
        return Ok(());
    }
    let found: Job = session.client.get(&path, &namespace).await?;
    let mut page = Page::default();
    head(&mut page, &found);
    if !args.short {
        let summary = session.client.get(&format!("{path}/summary"), &namespace).await?;
        if children::is_parent(&found) {
            let prefix = format!("{}/", job.id);
            let query = [("namespace", job.namespace.as_str()), ("prefix", prefix.as_str())];
            let listed: Vec<JobListStub> = session.client.get("/v1/jobs", &query).await?;
            children::show(&mut page, &found, &summary, &listed);
            session.output.page(&page);
            return Ok(());
        }
        let evals: Vec<Evaluation> = session.client.get(&format!("{path}/evaluations"), &namespace).await?;
        let all = if args.all_allocs { "true" } else { "false" };
        let query = [("namespace", job.namespace.as_str()), ("all", all)];
        let allocs: Vec<AllocListStub> = session.client.get(&format!("{path}/allocations"), &query).await?;
        summarise(&mut page, &summary);
        if args.evals || args.show.verbose {
            page.title("Evaluations");
            tables::evals(&mut page, &evals, args.show.verbose);
        }
        if let Some(eval) = unplaced(&evals) {
            let (eval, places) = explained(session, eval).await?;
            placement_failures(&mut page, &eval, &places);
        }
        reschedules(&mut page, &allocs, &evals, format::now(), args.show.verbose);
        let latest: Option<Deployment> =
            session.client.get(&format!("{path}/deployment"), &namespace).await?;
        if let Some(latest) = &latest {
            latest_deployment(&mut page, latest, args.show.verbose);
        }
        actions(&mut page, &found);
        page.title("Allocations");
        tables::allocs(&mut page, &allocs, format::now(), args.show.verbose);
    }
    session.output.page(&page);
    Ok(())
}

/// An evaluation with all reasons, and the places to name if a group found no node.
async fn explained(session: &Session, eval: &Evaluation) -> anyhow::Result<(Evaluation, Places)> {
    let path = format!("/v1/evaluation/{}", format::text(eval.id.as_ref()));
    let eval: Evaluation = session.client.get(&path, &[("reasons", "true")]).await?;
    let failed = eval.failed_tg_allocs.iter().flatten().map(|(_, metric)| metric);
    let places = if lacks_places(failed) { session.places().await } else { Places::default() };
    Ok((eval, places))
}

fn head(page: &mut Page, job: &Job) {
    let mut rows = vec![
        ("ID", format::text(job.id.as_ref())),
        ("Name", format::text(job.name.as_ref())),
        ("Submit Date", format::moment(job.submit_time.unwrap_or_default())),
        ("Type", format::text(job.r#type.as_ref())),
        ("Priority", format::number(job.priority)),
        ("Datacenters", job.datacenters.clone().unwrap_or_default().join(",")),
        ("Namespace", format::text(job.namespace.as_ref())),
        ("Node Pool", format::text(job.node_pool.as_ref())),
        ("Status", status_of(job.status.as_ref(), job.stop)),
        ("Version", job.version.unwrap_or_default().to_string()),
        ("Periodic", job.periodic.is_some().to_string()),
        ("Parameterized", job.parameterized_job.is_some().to_string()),
    ];
    rows.extend(children::launch_line(job, format::now()).map(|line| ("Next Periodic Launch", line)));
    page.block(&rows);
}

fn summarise(page: &mut Page, summary: &JobSummary) {
    page.title("Summary");
    let rows = summary.summary.iter().flatten().map(|(group, counts)| {
        [
            group.clone(),
            format::number(counts.queued),
            format::number(counts.starting),
            format::number(counts.running),
            format::number(counts.failed),
            format::number(counts.complete),
            format::number(counts.lost),
            format::number(counts.unknown),
        ]
    });
    let header = ["Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"];
    page.table(&header, rows);
}

fn latest_deployment(page: &mut Page, latest: &Deployment, verbose: bool) {
    page.title("Latest Deployment");
    page.block(&[
        ("ID", format::id(latest.id.as_ref(), verbose)),
        ("Status", format::text(latest.status.as_ref())),
        ("Description", format::text(latest.status_description.as_ref())),
    ]);
    page.title("Deployed");
    tables::deployment_groups(page, latest);
}

/// The commands that the job names for its tasks, if there are any.
fn actions(page: &mut Page, job: &Job) {
    let mut rows = Vec::new();
    for group in job.task_groups.iter().flatten() {
        for task in group.tasks.iter().flatten() {
            rows.extend(task.actions.iter().flatten().map(|action| {
                [action.name.as_ref(), group.name.as_ref(), task.name.as_ref()].map(format::text)
            }));
        }
    }
    if !rows.is_empty() {
        page.title("Actions");
        page.table(&["Action Name", "Task Group", "Task"], rows);
    }
}

/// The evaluation that says why not everything is placed: the one whose blocked evaluation waits for capacity.
fn unplaced(evals: &[Evaluation]) -> Option<&Evaluation> {
    let blocked = evals.iter().filter(|eval| eval.status.as_deref() == Some("blocked"));
    let blocked = blocked.max_by_key(|eval| eval.create_index)?;
    evals.iter().find(|eval| eval.blocked_eval == blocked.id).or(Some(blocked))
}

/// Why an evaluation could not place everything.
fn placement_failures(page: &mut Page, eval: &Evaluation, places: &Places) {
    let Some(failed) = &eval.failed_tg_allocs else { return };
    page.title("Placement Failure");
    for (at, (group, metric)) in failed.iter().enumerate() {
        if at > 0 {
            page.line("");
        }
        page.line(format!("Task Group \"{group}\":"));
        reasons(metric, places).iter().for_each(|reason| page.line(format!("  * {reason}")));
    }
}

/// When failed allocations are tried again: for each group the earliest of the evaluations that wait to do so.
fn reschedules(page: &mut Page, allocs: &[AllocListStub], evals: &[Evaluation], now: i64, verbose: bool) {
    let mut next: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for alloc in allocs.iter().filter(|alloc| alloc.client_status.as_deref() == Some("failed")) {
        let Some(id) = alloc.followup_eval_id.as_deref().filter(|id| !id.is_empty()) else { continue };
        let eval = evals.iter().find(|eval| eval.id.as_deref() == Some(id));
        let at = eval.and_then(|eval| eval.wait_until).map_or(0, |time| time.unix_nanos());
        if at > now {
            let group = alloc.task_group.as_deref().unwrap_or_default();
            let earliest = next.entry(group).or_insert((at, id));
            *earliest = (*earliest).min((at, id));
        }
    }
    if next.is_empty() {
        return;
    }
    page.title("Future Rescheduling Attempts");
    let rows = next.into_iter().map(|(group, (at, eval))| {
        let eval = eval.to_owned();
        [group.to_owned(), format::id(Some(&eval), verbose), format::from_now(at, now, verbose)]
    });
    page.table(&["Task Group", "Eval ID", "Eval Time"], rows);
}

#[cfg(test)]
mod tests {
    use api_types::{Action, AllocMetric, Task, TaskGroup, TaskGroupSummary};

    use super::*;

    #[test]
    fn a_job_with_what_it_waits_for() {
        let job = Job {
            id: Some("example".to_owned()),
            name: Some("example".to_owned()),
            datacenters: Some(vec!["dc1".to_owned(), "dc2".to_owned()]),
            status: Some("pending".to_owned()),
            submit_time: Some(1_136_214_245_000_000_000),
            priority: Some(50),
            version: Some(3),
            ..Job::default()
        };
        let counts = TaskGroupSummary { queued: Some(2), running: Some(1), ..TaskGroupSummary::default() };
        let summary =
            JobSummary { summary: Some([("web".to_owned(), counts)].into()), ..JobSummary::default() };
        let metric = AllocMetric { nodes_evaluated: Some(0), ..AllocMetric::default() };
        let blocked = Evaluation {
            status: Some("blocked".to_owned()),
            id: Some("b0".to_owned()),
            ..Evaluation::default()
        };
        let evals = [
            Evaluation {
                status: Some("complete".to_owned()),
                blocked_eval: blocked.id.clone(),
                failed_tg_allocs: Some([("web".to_owned(), metric)].into()),
                ..Evaluation::default()
            },
            blocked,
        ];
        let mut page = Page::default();
        head(&mut page, &job);
        summarise(&mut page, &summary);
        placement_failures(&mut page, unplaced(&evals).unwrap(), &Places::default());
        insta::assert_snapshot!(page, @r#"
        ID            = example
        Name          = example
        Submit Date   = 2006-01-02T15:04:05Z
        Type          = <none>
        Priority      = 50
        Datacenters   = dc1,dc2
        Namespace     = <none>
        Node Pool     = <none>
        Status        = pending
        Version       = 3
        Periodic      = false
        Parameterized = false

        Summary
        Task Group  Queued  Starting  Running  Failed  Complete  Lost  Unknown
        web         2       0         1        0       0         0     0

        Placement Failure
        Task Group "web":
          * No nodes were eligible for evaluation
        "#);
    }

    #[test]
    fn groups_say_when_their_failed_allocations_are_tried_again() {
        let second = 1_000_000_000;
        let eval = |id: &str, at: i64| Evaluation {
            id: Some(id.to_owned()),
            wait_until: Some(api_types::Time::from_unix_nanos(at * second)),
            ..Evaluation::default()
        };
        let alloc = |group: &str, status: &str, eval: &str| AllocListStub {
            task_group: Some(group.to_owned()),
            client_status: Some(status.to_owned()),
            followup_eval_id: Some(eval.to_owned()),
            ..AllocListStub::default()
        };
        let evals = [eval("e1", 130), eval("e2", 119), eval("e3", 90)];
        let allocs = [
            alloc("web", "failed", "e1"),
            alloc("web", "failed", "e2"),
            alloc("web", "complete", "e2"),
            alloc("db", "failed", "e3"),
            alloc("api", "failed", ""),
        ];
        let mut page = Page::default();
        reschedules(&mut page, &allocs, &evals, 100 * second, false);
        assert_eq!(
            page.to_string(),
            "Future Rescheduling Attempts\nTask Group  Eval ID  Eval Time\nweb         e2       19s from now\n"
        );
    }

    #[test]
    fn actions_are_listed_if_there_are_any() {
        let action = Action { name: Some("greet".to_owned()), ..Action::default() };
        let task = |actions: Vec<Action>| Task {
            name: Some("app".to_owned()),
            actions: Some(actions),
            ..Task::default()
        };
        let job = |tasks: Vec<Task>| {
            let name = Some("web".to_owned());
            let group = TaskGroup { name, tasks: Some(tasks), ..TaskGroup::default() };
            Job { task_groups: Some(vec![group]), ..Job::default() }
        };
        let shown = |job: &Job| {
            let mut page = Page::default();
            actions(&mut page, job);
            page.to_string()
        };
        assert_eq!(shown(&job(vec![task(vec![])])), "");
        let text = shown(&job(vec![task(vec![action])]));
        assert!(
            text.contains("Actions\nAction Name  Task Group  Task\ngreet        web         app\n"),
            "{text}"
        );
    }

    #[test]
    fn jobs_are_listed_with_their_namespaces_if_there_are_several() {
        let job = JobListStub {
            id: Some("nightly".to_owned()),
            namespace: Some("ops".to_owned()),
            r#type: Some("batch".to_owned()),
            periodic: Some(true),
            priority: Some(70),
            status: Some("dead".to_owned()),
            stop: Some(true),
            ..JobListStub::default()
        };
        let mut page = Page::default();
        table(&mut page, std::slice::from_ref(&job), false);
        table(&mut page, &[job], true);
        insta::assert_snapshot!(page, @r"
        ID       Type            Priority  Status          Submit Date
        nightly  batch/periodic  70        dead (stopped)  <none>
        ID       Namespace  Type            Priority  Status          Submit Date
        nightly  ops        batch/periodic  70        dead (stopped)  <none>
        ");
    }
}
