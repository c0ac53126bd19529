//! Follows evaluations and deployments: asks for what [`super::monitor`] and [`super::deployment::rollout`] want to see,
//! and writes what they say.

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

/// For how long an API that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait before asking again: at first, and at most.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(2);

/// How following one evaluation ended.
enum Ended {
    /// With this exit code; and the deployment that it is for.
    Done(u8, String),
    /// Another one takes its place.
    Other(String),
}

impl Session {
    /// Follows an evaluation, and those that take its place, to the end; and the deployment that it is for, if it is to
    /// run. That one's end is what counts then.
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
            let (lines, exit) = rollout.see(&deployment);
            self.tell(lines);
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
            let (lines, next) = monitor.see(&eval, &allocs);
            self.tell(lines);
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

    /// Waits for something newer than `index`, also while the API is away for a moment.
    pub(super) async fn wait<T: DeserializeOwned>(&self, path: &str, index: u64) -> Result<(T, u64), Error> {
        let mut away_since = None;
        let mut pause = AGAIN_AFTER;
        loop {
            let error = match self.client.wait(path, index).await {
                Err(error) if error.is_passing() => error,
                answer => return answer,
            };
            let now = clock::monotonic();
            if away_since.is_none() {
                self.tell(vec![Line::Progress(format!("{error}; trying again"))]);
            }
            if now.duration_since(*away_since.get_or_insert(now)) >= PATIENCE {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_AFTER_MAX);
        }
    }

    /// Says these lines, with the time.
    pub(super) fn tell(&self, lines: Vec<Line>) {
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
