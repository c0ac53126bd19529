//! `drover job restart`: restarts a job's allocations in batches. It waits until the allocations of a batch run again before
//! it restarts the next.

mod batch;
mod restarted;

use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use api_types::{AllocListStub, Allocation};
use serde::Deserialize;
use serde_json::{Value, json};

use self::batch::{Size, Wait};
use self::restarted::ExpectedRestart;
use super::{ResolvedJob, resolve};
use crate::cli::client::escaped;
use crate::cli::confirm::ask;
use crate::cli::monitor::{Line, Until};
use crate::cli::{ApiCommand, Session, format};

/// Restarts a job's running allocations in batches.
///
/// A batch begins when all allocations of the one before it run again. Tasks are restarted in place; with -reschedule,
/// allocations are stopped, and new ones replace them.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    /// The number of allocations in a batch, or a percentage of the running allocations, such as `20%`.
    #[arg(long, value_name = "COUNT", default_value = "1")]
    batch_size: Size,
    /// How long to pause between batches, such as `10s`. `ask` waits for confirmation.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    batch_wait: Wait,
    /// Restart only allocations of this task group. May be given several times.
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Restart only this task. May be given several times.
    #[arg(long, value_name = "TASK", conflicts_with_all = ["all_tasks", "reschedule"])]
    task: Vec<String>,
    /// Also restart tasks that have ended.
    #[arg(long, conflicts_with = "reschedule")]
    all_tasks: bool,
    /// Stop the allocations, so that new ones replace them.
    #[arg(long)]
    reschedule: bool,
    /// With -reschedule: stop the tasks without their shutdown delay.
    #[arg(long, requires = "reschedule")]
    no_shutdown_delay: bool,
    /// What to do if an allocation does not run again.
    #[arg(long, value_enum, default_value_t = OnError::Ask)]
    on_error: OnError,
    /// Answer every question with yes.
    #[arg(long)]
    yes: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

/// The reaction to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnError {
    /// Ask whether to continue.
    Ask,
    /// Stop, and leave the remaining allocations unchanged.
    Fail,
}

#[derive(Deserialize)]
struct Stopped {
    #[serde(rename = "EvalID")]
    eval_id: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        if !job.is_exact && !self.confirm(&format!("Are you sure you want to restart job \"{}\"?", job.id))? {
            session.output.line("Cancelling job restart");
            return Ok(ExitCode::SUCCESS);
        }
        let allocs = running(&session, &self, &job).await?;
        if allocs.is_empty() {
            session.output.line("No allocations to restart");
            return Ok(ExitCode::SUCCESS);
        }
        let count = allocs.len();
        session.print_lines(vec![Line::Milestone(format!("Restarting {count} allocation{}", plural(count)))]);
        let (size, mut failed, mut done) = (self.batch_size.of(count), 0, 0);
        for batch in allocs.chunks(size) {
            if done > 0 && !self.pause(&session).await? {
                bail!("Stopped after {done} of {count} allocations");
            }
            done += batch.len();
            if let Err(error) = restart(&session, &self, batch).await {
                session.output.error(&format!("{error:#}"));
                failed += 1;
                let continues = self.on_error == OnError::Ask
                    && done < count
                    && self.confirm("Continue with the remaining allocations?")?;
                ensure!(continues || done == count, "Stopped after {done} of {count} allocations");
            }
        }
        ensure!(failed == 0, "Some allocations did not restart");
        session.print_lines(vec![Line::Milestone("Finished job restart".to_owned())]);
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    fn confirm(&self, question: &str) -> anyhow::Result<bool> {
        Ok(self.yes || ask(question)?)
    }

    /// Waits between batches. Returns whether to continue.
    async fn pause(&self, session: &Session) -> anyhow::Result<bool> {
        match self.batch_wait {
            Wait::Ask => self.confirm("Continue with the next batch?"),
            Wait::For(duration) if duration.is_zero() => Ok(true),
            Wait::For(duration) => {
                session
                    .print_lines(vec![Line::Progress(format!("Waiting {duration:?} before the next batch"))]);
                tokio::time::sleep(duration).await;
                Ok(true)
            }
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The allocations to restart, sorted by name.
async fn running(session: &Session, args: &Args, job: &ResolvedJob) -> anyhow::Result<Vec<AllocListStub>> {
    let path = format!("/v1/job/{}/allocations", escaped(&job.id));
    let mut allocs: Vec<AllocListStub> =
        session.client.get(&path, &[("namespace", job.namespace.as_str())]).await?;
    for group in &args.group {
        let exists = allocs.iter().any(|alloc| alloc.task_group.as_ref() == Some(group));
        ensure!(exists, "No allocations of job \"{}\" in task group \"{group}\" found", job.id);
    }
    for task in &args.task {
        let exists = allocs.iter().any(|alloc| has_task(alloc, task));
        ensure!(exists, "No allocations of job \"{}\" with task \"{task}\" found", job.id);
    }
    allocs.retain(|alloc| is_selected(alloc, &args.group, &args.task));
    allocs.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    Ok(allocs)
}

fn has_task(alloc: &AllocListStub, task: &str) -> bool {
    alloc.task_states.iter().flatten().any(|(name, _)| name == task)
}

/// Whether an allocation runs, belongs to one of these groups, and has one of these tasks. An empty list matches all.
fn is_selected(alloc: &AllocListStub, groups: &[String], tasks: &[String]) -> bool {
    let group = alloc.task_group.as_deref().unwrap_or_default();
    alloc.client_status.as_deref() == Some("running")
        && alloc.desired_status.as_deref() == Some("run")
        && (groups.is_empty() || groups.iter().any(|one| one == group))
        && (tasks.is_empty() || tasks.iter().any(|task| has_task(alloc, task)))
}

/// Restarts these allocations, and waits until all of them run.
async fn restart(session: &Session, args: &Args, allocs: &[AllocListStub]) -> anyhow::Result<()> {
    let ids: Vec<String> = allocs.iter().map(|alloc| format::text(alloc.id.as_ref())).collect();
    if args.reschedule {
        return replace(session, args, &ids).await;
    }
    let mut expected = Vec::new();
    for id in &ids {
        let short = format::id(Some(id), args.verbose);
        session.print_lines(vec![Line::Progress(format!("Restarting allocation \"{short}\""))]);
        // The events of its tasks before the restart show later which tasks have started again.
        let before: Allocation = session.client.get(&format!("/v1/allocation/{id}"), &[]).await?;
        for task in tasks(&before, &args.task) {
            let body = json!({ "TaskName": task, "AllTasks": args.all_tasks });
            let path = format!("/v1/client/allocation/{id}/restart");
            let _: Value = session
                .client
                .put(&path, &body)
                .await
                .with_context(|| format!("cannot restart allocation \"{short}\""))?;
        }
        expected.push((id, ExpectedRestart::new(&before, &args.task)));
    }
    for (id, expected) in expected {
        let (path, mut index) = (format!("/v1/allocation/{id}"), 0);
        let short = format::id(Some(id), args.verbose);
        loop {
            let alloc: Allocation;
            (alloc, index) = session.wait(&path, index).await?;
            if expected
                .has_restarted(&alloc)
                .with_context(|| format!("allocation \"{short}\" did not restart"))?
            {
                break;
            }
        }
        session.print_lines(vec![Line::Progress(format!("Allocation \"{short}\" runs again"))]);
    }
    Ok(())
}

/// The tasks to name in requests. A request without a name restarts all tasks.
fn tasks<'a>(alloc: &Allocation, wanted: &'a [String]) -> Vec<&'a str> {
    if wanted.is_empty() {
        return vec![""];
    }
    let has = |task: &&String| alloc.task_states.iter().flatten().any(|(name, _)| name == *task);
    wanted.iter().filter(has).map(String::as_str).collect()
}

/// Stops these allocations, and waits until their replacements run.
async fn replace(session: &Session, args: &Args, ids: &[String]) -> anyhow::Result<()> {
    let mut evals = Vec::new();
    for id in ids {
        let short = format::id(Some(id), args.verbose);
        session.print_lines(vec![Line::Progress(format!("Stopping allocation \"{short}\""))]);
        let delay = if args.no_shutdown_delay { "true" } else { "false" };
        let query = [("reschedule", "true"), ("no_shutdown_delay", delay)];
        let path = format!("/v1/allocation/{id}/stop");
        let stopped: Stopped = session.client.put_with(&path, &query, &json!({})).await?;
        evals.push((short, stopped.eval_id));
    }
    for (short, eval) in evals {
        let exit = session.follow(&eval, Until::Running, args.verbose).await?;
        ensure!(exit == ExitCode::SUCCESS, "the replacement of allocation \"{short}\" does not run");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use api_types::TaskState;

    use super::*;

    #[test]
    fn running_tasks_of_the_named_groups_are_restarted() {
        let alloc = |status: &str, desired: &str| AllocListStub {
            client_status: Some(status.to_owned()),
            desired_status: Some(desired.to_owned()),
            task_group: Some("web".to_owned()),
            task_states: Some([("server".to_owned(), TaskState::default())].into()),
            ..AllocListStub::default()
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let is_selected = |status, desired, groups: &[&str], tasks: &[&str]| {
            is_selected(&alloc(status, desired), &names(groups), &names(tasks))
        };
        assert!(is_selected("running", "run", &[], &[]));
        assert!(is_selected("running", "run", &["db", "web"], &["server"]));
        assert!(!is_selected("running", "run", &["db"], &[]));
        assert!(!is_selected("running", "run", &[], &["sidecar"]));
        assert!(!is_selected("running", "stop", &[], &[]));
        assert!(!is_selected("pending", "run", &[], &[]));
    }
}
