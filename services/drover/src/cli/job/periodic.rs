//! `drover job periodic …`: launches periodic jobs, and shows when they are launched.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::Job;
use serde::Deserialize;
use serde_json::json;

use super::children::schedule;
use super::file::{JobFile, Loaded};
use super::{Kind, resolve_kind};
use crate::cli::client::escaped;
use crate::cli::monitor::Until;
use crate::cli::{ApiCommand, Session, WithApi, format};
use crate::command::commands;

commands! {
    /// Launches periodic jobs, and shows when they are launched.
    Command {
        Force(WithApi<Force>),
        Next(WithApi<Next>),
    }
}

/// Launches a periodic job at once, whatever its schedule says, and follows the launched job until it runs.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Force {
    /// The id of a periodic job, or a prefix of it.
    job: String,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

/// Shows when a periodic job is launched next: that of a job file, or one of the cluster.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Next {
    #[command(flatten)]
    file: JobFile,
    /// How many launches are shown.
    #[arg(short = 'n', value_name = "COUNT", default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
}

/// The response to a launch.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Launched {
    #[serde(rename = "EvalID")]
    eval_id: String,
}

impl ApiCommand for Force {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve_kind(&session.client, &self.job, Kind::Periodic).await?;
        let path = format!("/v1/job/{}/periodic/force", escaped(&job.id));
        let namespace = [("namespace", job.namespace.as_str())];
        let launched: Launched = session
            .client
            .put_with(&path, &namespace, &json!({}))
            .await
            .with_context(|| format!("Error forcing periodic job {:?}", job.id))?;
        if self.detach {
            session.output.line("Force periodic successful");
            session.output.line(&format!("Evaluation ID: {}", launched.eval_id));
            return Ok(ExitCode::SUCCESS);
        }
        session.follow(&launched.eval_id, Until::Running, self.verbose).await
    }
}

impl ApiCommand for Next {
    async fn run(self, mut session: Session) -> anyhow::Result<ExitCode> {
        let job = if self.file.is_there() {
            match self.file.load(&mut session.client).await {
                Ok(Loaded { job, .. }) => job,
                Err(failure) => return session.refuse(failure),
            }
        } else {
            let job = resolve_kind(&session.client, self.file.name(), Kind::Periodic).await?;
            let namespace = [("namespace", job.namespace.as_str())];
            session.client.get(&format!("/v1/job/{}", escaped(&job.id)), &namespace).await?
        };
        let launches = launches(&job, format::now(), self.count.into())?;
        launches.iter().for_each(|launch| session.output.line(launch));
        Ok(ExitCode::SUCCESS)
    }
}

/// The next launches of a job.
fn launches(job: &Job, now: i64, count: usize) -> anyhow::Result<Vec<String>> {
    let id = format::text(job.id.as_ref());
    anyhow::ensure!(job.periodic.is_some(), "job \"{id}\" is not periodic");
    let schedule = schedule(job).with_context(|| format!("job \"{id}\" is disabled or stopped"))?;
    let next = |after: &model::Timestamp| schedule.next(*after);
    let moments = std::iter::successors(schedule.next(model::Timestamp(now)), next);
    Ok(moments.take(count).map(|moment| format::moment(moment.0)).collect())
}

#[cfg(test)]
mod tests {
    use api_types::PeriodicConfig;

    use super::*;

    #[test]
    fn the_next_launches_are_listed() {
        const NOW: i64 = 1_800_000_000_000_000_000;
        let periodic = PeriodicConfig {
            specs: Some(vec!["0 2 * * *".to_owned()]),
            time_zone: Some("Europe/Vienna".to_owned()),
            ..PeriodicConfig::default()
        };
        let job = Job { id: Some("cron".to_owned()), periodic: Some(periodic), ..Job::default() };
        let expected = ["2027-01-16T01:00:00Z", "2027-01-17T01:00:00Z"];
        assert_eq!(launches(&job, NOW, 2).unwrap(), expected);
        let error = |job: &Job| launches(job, NOW, 1).unwrap_err().to_string();
        assert_eq!(error(&Job { periodic: None, ..job.clone() }), "job \"cron\" is not periodic");
        assert_eq!(error(&Job { stop: Some(true), ..job.clone() }), "job \"cron\" is disabled or stopped");
    }
}
