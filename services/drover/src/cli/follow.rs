//! Follows evaluations and deployments: fetches the snapshots that [`super::monitor`] and [`super::deployment::rollout`]
//! need, and prints their lines.

use std::process::ExitCode;
use std::time::Duration;

use api_types::{AllocListStub, Deployment, Evaluation};
use serde::de::DeserializeOwned;
use telemetry::clock;

use super::client::{Error, escaped};
use super::deployment::rollout::{self, Rollout};
use super::monitor::{Line, Monitor, Next, Until};
use super::page::Page;
use super::{Session, format};

/// How long an unreachable API is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before a retry: the first one and the longest one.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// The result of following one evaluation.
enum Ended {
    /// The exit code, and the deployment of the evaluation.
    Done(u8, String),
    /// The evaluation that replaces it.
    Other(String),
}

impl Session {
    /// Follows an evaluation, and the evaluations that replace it, to the end. If `until` is [`Until::Running`] and there is a
    /// deployment, follows that too, and returns its exit code.
    pub(crate) async fn follow(&self, eval: &str, until: Until, verbose: bool) -> anyhow::Result<ExitCode> {
        let mut id = eval.to_owned();
        loop {
            match self.follow_one(&id, Monitor::new(until, verbose)).await? {
                Ended::Other(other) => id = other,
                Ended::Done(_, deployment) if until == Until::Running && !deployment.is_empty() => {
                    return self.follow_deployment(&deployment, verbose).await;
                }
                Ended::Done(exit, _) => return Ok(ExitCode::from(exit)),
            }
        }
    }

    /// Follows a deployment to its end. If it fails, and its job returns to an older version, follows the deployment of that
    /// version, too; the exit code is still that of a failure.
    pub(crate) async fn follow_deployment(&self, id: &str, verbose: bool) -> anyhow::Result<ExitCode> {
        let (mut id, mut exit) = (id.to_owned(), 0);
        loop {
            let (deployment, code) = self.follow_to_end(&id, verbose).await?;
            exit = code.max(exit);
            let Some(next) = self.rollback_of(&deployment).await? else { return Ok(ExitCode::from(exit)) };
            self.output.line("");
            id = next;
        }
    }

    /// Follows one deployment to its end. Returns it with the exit code.
    async fn follow_to_end(&self, id: &str, verbose: bool) -> Result<(Deployment, u8), Error> {
        let path = format!("/v1/deployment/{id}");
        let (mut rollout, mut index) = (Rollout::new(verbose), 0);
        loop {
            let deployment: Deployment;
            (deployment, index) = self.wait(&path, index).await?;
            let (lines, exit) = rollout.update(&deployment);
            self.print_lines(lines);
            if let Some(exit) = exit {
                return Ok((deployment, exit));
            }
        }
    }

    /// The deployment of the older version to which the job of a failed deployment returns. `None` if the job does not
    /// return, or needs no deployment for it.
    async fn rollback_of(&self, failed: &Deployment) -> Result<Option<String>, Error> {
        if !rollout::rolls_back(failed) {
            return Ok(None);
        }
        let [namespace, job] = [&failed.namespace, &failed.job_id].map(|text| format::text(text.as_ref()));
        let (query, path) = ([("namespace", namespace.as_str())], format!("/v1/job/{}", escaped(&job)));
        let evals: Vec<Evaluation> = self.client.get(&format!("{path}/evaluations"), &query).await?;
        // The write that failed the deployment has created the evaluation that places the older version.
        let of_deployment = |eval: &Evaluation| eval.triggered_by.as_deref() == Some("deployment-watcher");
        let newest = evals.into_iter().filter(of_deployment).max_by_key(|eval| eval.create_index);
        if let Some(eval) = newest.and_then(|eval| eval.id) {
            self.wait_for_eval(&eval).await?;
        }
        let latest: Option<Deployment> = self.client.get(&format!("{path}/deployment"), &query).await?;
        let latest = latest.filter(|latest| latest.id != failed.id);
        Ok(latest.and_then(|latest| latest.id))
    }

    /// Waits until an evaluation is not pending any more.
    async fn wait_for_eval(&self, id: &str) -> Result<(), Error> {
        let (path, mut index) = (format!("/v1/evaluation/{id}"), 0);
        loop {
            let eval: Evaluation;
            (eval, index) = self.wait(&path, index).await?;
            if eval.status.as_deref() != Some("pending") {
                return Ok(());
            }
        }
    }

    async fn follow_one(&self, id: &str, mut monitor: Monitor) -> Result<Ended, Error> {
        let path = format!("/v1/evaluation/{id}");
        let allocs_path = format!("{path}/allocations");
        let (mut eval, mut eval_index): (Evaluation, u64) = self.wait(&path, 0).await?;
        let (mut allocs, mut allocs_index): (Vec<AllocListStub>, u64) = self.wait(&allocs_path, 0).await?;
        loop {
            let (lines, next) = monitor.update(&eval, &allocs);
            self.print_lines(lines);
            match next {
                Next::Eval => {
                    (eval, eval_index) = self.wait(&path, eval_index).await?;
                    (allocs, allocs_index) = self.wait(&allocs_path, 0).await?;
                }
                Next::Allocs => (allocs, allocs_index) = self.wait(&allocs_path, allocs_index).await?,
                Next::Other(id) => return Ok(Ended::Other(id)),
                Next::Done(exit) => return Ok(Ended::Done(exit, format::text(eval.deployment_id.as_ref()))),
            }
        }
    }

    /// Waits for a version newer than `index`. Retries while the API is unreachable.
    pub(super) async fn wait<T: DeserializeOwned>(&self, path: &str, index: u64) -> Result<(T, u64), Error> {
        let mut unreachable_since = None;
        let mut pause = RETRY_PAUSE;
        loop {
            let error = match self.client.wait(path, index).await {
                Err(error) if error.is_transient() => error,
                answer => return answer,
            };
            let now = clock::monotonic();
            if unreachable_since.is_none() {
                self.print_lines(vec![Line::Progress(format!("{error}; trying again"))]);
            }
            if now.duration_since(*unreachable_since.get_or_insert(now)) >= RETRY_TIMEOUT {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    /// Prints these lines with the current time.
    pub(super) fn print_lines(&self, lines: Vec<Line>) {
        let now = format::moment(format::now());
        let mut page = Page::default();
        for line in lines {
            match line {
                Line::Milestone(text) => page.bold(format!("==> {now}: {text}")),
                Line::Progress(text) => page.line(format!("    {now}: {text}")),
                Line::Detail(text) => page.line(format!("      * {text}")),
            }
        }
        self.output.page(&page);
    }
}
