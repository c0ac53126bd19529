//! `drover deployment status`: shows one deployment, or all deployments.

use std::process::ExitCode;

use api_types::Deployment;
use serde_json::Value;

use super::{list, resolve};
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, flags, format, tables};

/// Shows a deployment, or lists all deployments.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  \
    drover deployment status 1a2b3c4d\n  \
    drover deployment status -monitor 1a2b3c4d")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(in crate::cli) show: flags::Show,
    /// The id of a deployment, or a prefix of it. Without it, all deployments are listed.
    pub(in crate::cli) deployment: Option<String>,
    /// Follow the deployment to its end. Exits with 0 if it succeeds, and with 1 if it does not.
    #[arg(long, conflicts_with_all = ["json", "template"], requires = "deployment")]
    pub(in crate::cli) monitor: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let Some(prefix) = &self.deployment else {
            if self.show.object.is_requested() {
                let deployments: Value = session.client.get("/v1/deployments", &[]).await?;
                self.show.object.print(session.output, &deployments)?;
                return Ok(ExitCode::SUCCESS);
            }
            let deployments: Vec<Deployment> = session.client.get("/v1/deployments", &[]).await?;
            let mut page = Page::default();
            match deployments.is_empty() {
                true => page.line("No deployments found"),
                false => list::table(&mut page, &deployments, self.show.verbose),
            }
            session.output.page(&page);
            return Ok(ExitCode::SUCCESS);
        };
        let id = resolve(&session.client, prefix, self.show.verbose).await?;
        if self.monitor {
            return session.follow_deployment(&id, self.show.verbose).await;
        }
        let path = format!("/v1/deployment/{id}");
        if self.show.object.is_requested() {
            let deployment: Value = session.client.get(&path, &[]).await?;
            self.show.object.print(session.output, &deployment)?;
            return Ok(ExitCode::SUCCESS);
        }
        let deployment: Deployment = session.client.get(&path, &[]).await?;
        let mut page = Page::default();
        show(&mut page, &deployment, self.show.verbose);
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

pub(in crate::cli) fn show(page: &mut Page, deployment: &Deployment, verbose: bool) {
    let mut pairs = vec![
        ("ID", format::id(deployment.id.as_ref(), verbose)),
        ("Job ID", format::text(deployment.job_id.as_ref())),
        ("Job Version", deployment.job_version.unwrap_or_default().to_string()),
        ("Status", format::text(deployment.status.as_ref())),
        ("Description", format::text(deployment.status_description.as_ref())),
    ];
    if let Some(trace) = &deployment.trace_id {
        pairs.push(("Trace ID", trace.clone()));
    }
    page.block(&pairs);
    page.title("Deployed");
    tables::deployment_groups(page, deployment);
}

#[cfg(test)]
mod tests {
    use api_types::DeploymentState;

    use super::*;

    #[test]
    fn a_deployment_with_its_groups() {
        let group = DeploymentState {
            desired_total: Some(5),
            placed_allocs: Some(2),
            healthy_allocs: Some(1),
            unhealthy_allocs: Some(0),
            ..DeploymentState::default()
        };
        let mut deployment = Deployment {
            id: Some("d0000000-0000".to_owned()),
            job_id: Some("web".to_owned()),
            job_version: Some(3),
            status: Some("running".to_owned()),
            status_description: Some("Deployment is running".to_owned()),
            task_groups: Some([("app".to_owned(), group.clone())].into()),
            ..Deployment::default()
        };
        let mut page = Page::default();
        show(&mut page, &deployment, false);
        let canaries = DeploymentState { desired_canaries: Some(1), promoted: Some(true), ..group };
        deployment.task_groups = Some([("app".to_owned(), canaries)].into());
        tables::deployment_groups(&mut page, &deployment);
        list::table(&mut page, &[deployment], false);
        insta::assert_snapshot!(page, @r"
        ID          = d0000000
        Job ID      = web
        Job Version = 3
        Status      = running
        Description = Deployment is running

        Deployed
        Task Group  Desired  Placed  Healthy  Unhealthy  Progress Deadline
        app         5        2       1        0          N/A
        Task Group  Promoted  Desired  Canaries  Placed  Healthy  Unhealthy  Progress Deadline
        app         true      5        1         2       1        0          N/A
        ID        Job ID  Job Version  Status   Description
        d0000000  web     3            running  Deployment is running
        ");
    }
}
