//! The lines that are printed while a deployment is followed (`docs/rules/cli.md`, *job run*). Pure: takes successive snapshots,
//! and returns lines, and finally an exit code.

use std::collections::BTreeMap;

use api_types::Deployment;

use crate::cli::format;
use crate::cli::monitor::Line;

/// The exit code for a deployment that did not succeed.
const EXIT_FAILED: u8 = 1;

/// The state of following one deployment: what has been printed.
#[derive(Debug, Default)]
pub(crate) struct Rollout {
    verbose: bool,
    has_begun: bool,
    groups: BTreeMap<String, String>,
}

/// How a deployment has ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The last lines.
    pub(crate) lines: Vec<Line>,
    /// The exit code.
    pub(crate) exit: u8,
}

impl Rollout {
    pub(crate) fn new(verbose: bool) -> Self {
        Self { verbose, ..Self::default() }
    }

    /// The new lines for a snapshot, and how the deployment has ended, once it has.
    pub(crate) fn update(&mut self, deployment: &Deployment) -> (Vec<Line>, Option<Ending>) {
        let id = format::id(deployment.id.as_ref(), self.verbose);
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            lines.push(Line::Milestone(format!("Monitoring deployment \"{id}\"")));
        }
        for (name, group) in deployment.task_groups.iter().flatten() {
            let [placed, healthy, unhealthy, desired] =
                [group.placed_allocs, group.healthy_allocs, group.unhealthy_allocs, group.desired_total]
                    .map(format::number);
            let now = format!("{placed} of {desired} placed, {healthy} healthy, {unhealthy} unhealthy");
            if self.groups.get(name) != Some(&now) {
                lines.push(Line::Row(format!("Task Group \"{name}\": {now}")));
                self.groups.insert(name.clone(), now);
            }
        }
        let status = format::text(deployment.status.as_ref());
        let exit = match status.as_str() {
            "successful" => 0,
            "failed" | "cancelled" => EXIT_FAILED,
            _ => return (lines, None),
        };
        let mut last = vec![Line::Milestone(format!("Deployment \"{id}\" {status}"))];
        let reason = deployment.status_description.as_ref().filter(|reason| exit != 0 && !reason.is_empty());
        last.extend(reason.map(|reason| Line::Progress(reason.clone())));
        (lines, Some(Ending { lines: last, exit }))
    }
}

/// Whether a deployment has failed, and its job returns to an older version. The description of the deployment says so
/// (N-12.5).
pub(crate) fn rolls_back(deployment: &Deployment) -> bool {
    let description = deployment.status_description.as_deref().unwrap_or_default();
    deployment.status.as_deref() == Some("failed") && description.contains(" - rolling back to job version ")
}

#[cfg(test)]
mod tests {
    use api_types::DeploymentState;

    use super::*;

    fn deployment(status: &str, [placed, healthy, unhealthy]: [i64; 3]) -> Deployment {
        let group = DeploymentState {
            desired_total: Some(2),
            placed_allocs: Some(placed),
            healthy_allocs: Some(healthy),
            unhealthy_allocs: Some(unhealthy),
            ..DeploymentState::default()
        };
        Deployment {
            id: Some("d0000000-0000".to_owned()),
            status: Some(status.to_owned()),
            status_description: Some(format!("it is {status}")),
            task_groups: Some([("web".to_owned(), group)].into()),
            ..Deployment::default()
        }
    }

    /// All lines for these snapshots.
    fn output(snapshots: &[Deployment]) -> (String, Option<u8>) {
        let mut rollout = Rollout::new(false);
        let (mut text, mut exit) = (String::new(), None);
        for deployment in snapshots {
            let (mut lines, ending) = rollout.update(deployment);
            exit = ending.map(|ending| {
                lines.extend(ending.lines);
                ending.exit
            });
            for line in lines {
                let (Line::Milestone(line) | Line::Progress(line) | Line::Row(line) | Line::Detail(line)) =
                    line;
                text += &format!("{line}\n");
            }
        }
        (text, exit)
    }

    #[test]
    fn one_that_succeeds_is_told_step_by_step() {
        let (text, exit) = output(&[
            deployment("running", [1, 0, 0]),
            deployment("running", [1, 1, 0]),
            deployment("running", [1, 1, 0]),
            deployment("successful", [2, 2, 0]),
        ]);
        assert_eq!(exit, Some(0));
        insta::assert_snapshot!(text, @r#"
        Monitoring deployment "d0000000"
        Task Group "web": 1 of 2 placed, 0 healthy, 0 unhealthy
        Task Group "web": 1 of 2 placed, 1 healthy, 0 unhealthy
        Task Group "web": 2 of 2 placed, 2 healthy, 0 unhealthy
        Deployment "d0000000" successful
        "#);
    }

    #[test]
    fn one_that_fails_says_why() {
        let (text, exit) = output(&[deployment("failed", [1, 0, 1])]);
        assert_eq!(exit, Some(1));
        assert!(text.ends_with("Deployment \"d0000000\" failed\nit is failed\n"), "{text}");
    }
}
