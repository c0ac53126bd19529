//! Follows evaluations and deployments: fetches the snapshots that [`super::monitor`] and [`super::deployment::rollout`]
//! need, and prints their lines.

use std::process::ExitCode;
use std::time::Duration;

use api_types::{AllocListStub, Deployment, Evaluation, NodeListStub};
use serde::de::DeserializeOwned;
use telemetry::clock;

use super::client::{Error, escaped};
use super::deployment::rollout::{self, Ending, Rollout};
use super::failures::Failures;
use super::monitor::{Line, Monitor, Next, Until};
use super::page::Page;
use super::progress::Progress;
use super::reasons::{Places, lacks_places};
use super::{Session, format, tables};

/// Number of nodes whose places are counted if no node was eligible.
const NODES_COUNTED_MAX: &str = "1000";

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
        let allocs_path = format!("/v1/deployment/allocations/{id}");
        let (mut rollout, mut failures) = (Rollout::new(verbose), Failures::new(verbose));
        let (mut progress, mut index) = (Progress::new(self.output), 0);
        loop {
            let deployment: Deployment;
            (deployment, index) = self.wait(&path, index).await?;
            let (allocs, _): (Vec<AllocListStub>, u64) = self.wait(&allocs_path, 0).await?;
            let (mut lines, ending) = rollout.update(&deployment);
            if progress.is_drawn() {
                lines.retain(|line| !matches!(line, Line::Row(_)));
            }
            lines.extend(failures.update(&allocs));
            if !lines.is_empty() {
                progress.print(&page_of(lines));
            }
            progress.draw(&block_of(&deployment, verbose));
            if let Some(Ending { lines, exit }) = ending {
                progress.leave();
                self.print_lines(lines);
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
        let path = format!("/v1/evaluation/{id}?reasons=true");
        let allocs_path = format!("/v1/evaluation/{id}/allocations");
        let (mut eval, mut eval_index): (Evaluation, u64) = self.wait(&path, 0).await?;
        let (mut allocs, mut allocs_index): (Vec<AllocListStub>, u64) = self.wait(&allocs_path, 0).await?;
        loop {
            if eval.status.as_deref() != Some("pending") {
                monitor.set_places(self.places_for(&eval).await);
            }
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

    /// The places that are named if an evaluation found no node in its node pool and datacenters.
    async fn places_for(&self, eval: &Evaluation) -> Places {
        let failed = eval.failed_tg_allocs.iter().flatten().map(|(_, metric)| metric);
        if lacks_places(failed) { self.places().await } else { Places::default() }
    }

    /// The node pools and datacenters of the cluster's nodes. Unknown if the nodes cannot be read: then they are not named.
    pub(super) async fn places(&self) -> Places {
        let nodes = self.client.get("/v1/nodes", &[("per_page", NODES_COUNTED_MAX)]).await;
        nodes.map(|nodes: Vec<NodeListStub>| Places::of(&nodes)).unwrap_or_default()
    }

    /// Prints these lines with the current time.
    pub(super) fn print_lines(&self, lines: Vec<Line>) {
        self.output.page(&page_of(lines));
    }
}

/// Lines with the current time.
fn page_of(lines: Vec<Line>) -> Page {
    let now = format::moment(format::now());
    let mut page = Page::default();
    for line in lines {
        match line {
            Line::Milestone(text) => page.bold(format!("==> {now}: {text}")),
            Line::Progress(text) | Line::Row(text) => page.line(format!("    {now}: {text}")),
            Line::Detail(text) => page.line(format!("      * {text}")),
        }
    }
    page
}

/// The block that shows the progress of a deployment on a terminal.
fn block_of(deployment: &Deployment, verbose: bool) -> Page {
    let mut page = Page::default();
    let id = format::id(deployment.id.as_ref(), verbose);
    page.bold(format!("Deployment \"{id}\" of job \"{}\"", format::text(deployment.job_id.as_ref())));
    page.block(&[
        ("Status", format::text(deployment.status.as_ref())),
        ("Description", format::text(deployment.status_description.as_ref())),
    ]);
    page.line("");
    tables::deployment_groups(&mut page, deployment);
    page
}
