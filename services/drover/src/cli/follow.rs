//! Follows evaluations and deployments: fetches the snapshots that [`super::monitor`] and [`super::deployment::rollout`]
//! need, and prints their lines.

use std::process::ExitCode;
use std::time::Duration;

use api_types::{AllocListStub, Deployment, Evaluation};
use serde::de::DeserializeOwned;
use telemetry::clock;

use super::client::Error;
use super::deployment::rollout::Rollout;
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

    /// Follows a deployment to its end.
    pub(crate) async fn follow_deployment(&self, id: &str, verbose: bool) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/deployment/{id}");
        let (mut rollout, mut index) = (Rollout::new(verbose), 0);
        loop {
            let deployment: Deployment;
            (deployment, index) = self.wait(&path, index).await?;
            let (lines, exit) = rollout.update(&deployment);
            self.print_lines(lines);
            if let Some(exit) = exit {
                return Ok(ExitCode::from(exit));
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
