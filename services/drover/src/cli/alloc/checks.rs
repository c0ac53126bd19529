//! `drover alloc checks`: shows the checks of an allocation's services that its node runs, with their results.

use std::collections::BTreeMap;
use std::process::ExitCode;

use api_types::Allocation;
use serde::Deserialize;
use serde_json::Value;

use super::resolve;
use crate::cli::client::Client;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, flags, format};

/// Nanoseconds of a second.
const NANOS_PER_SEC: i64 = 1_000_000_000;

/// Shows the checks of an allocation's services that its node runs, with their results.
///
/// These are the checks of services of the provider nomad. Checks of services in Consul are shown by Consul.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    /// The id of an allocation, or a prefix of it.
    alloc: String,
}

/// The result of a check, as the API shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct CheckResult {
    #[serde(rename = "ID")]
    id: String,
    mode: String,
    status: String,
    status_code: u16,
    output: String,
    timestamp: i64,
    group: String,
    task: String,
    service: String,
    check: String,
}

/// The checks of an allocation, or a text about why they are not known.
pub(super) type Checks = Result<Vec<CheckResult>, String>;

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.alloc, self.show.verbose).await?;
        if self.show.object.is_requested() {
            let checks: Value = session.client.get(&path(&id), &[]).await?;
            self.show.object.print(session.output, &checks)?;
            return Ok(ExitCode::SUCCESS);
        }
        let checks: Option<BTreeMap<String, CheckResult>> = session.client.get(&path(&id), &[]).await?;
        session.output.page(&page(&checks.unwrap_or_default()));
        Ok(ExitCode::SUCCESS)
    }
}

fn path(alloc: &str) -> String {
    format!("/v1/client/allocation/{alloc}/checks")
}

fn page(checks: &BTreeMap<String, CheckResult>) -> Page {
    let mut page = Page::default();
    page.line(format!("Status of {} Nomad Service Checks", checks.len()));
    page.line("");
    for check in checks.values() {
        let mut pairs = vec![
            ("ID", check.id.clone()),
            ("Name", check.check.clone()),
            ("Group", check.group.clone()),
            ("Task", task(check)),
            ("Service", check.service.clone()),
            ("Status", check.status.clone()),
        ];
        if check.status_code > 0 {
            pairs.push(("StatusCode", check.status_code.to_string()));
        }
        pairs.extend([
            ("Mode", check.mode.clone()),
            ("Timestamp", format::moment(check.timestamp.saturating_mul(NANOS_PER_SEC))),
            ("Output", harmless(&check.output)),
        ]);
        let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
        for (key, value) in pairs {
            page.line(format!("{key:width$} =  {value}"));
        }
        page.line("");
    }
    page
}

/// The task of a check's service.
fn task(check: &CheckResult) -> String {
    if check.task.is_empty() { "(group)".to_owned() } else { check.task.clone() }
}

/// The output of a check without control characters: a service may answer anything, and a terminal would obey.
fn harmless(output: &str) -> String {
    let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    output.chars().map(|c| if is_shown(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// The checks of an allocation for its status: `None` if its node runs none, or a text about why they are not known.
pub(super) async fn of_running(client: &Client, alloc: &Allocation) -> Option<Checks> {
    let is_running = matches!(alloc.client_status.as_deref(), Some("pending" | "running"));
    if !is_running || !has_checks(alloc) {
        return None;
    }
    let id = alloc.id.as_ref()?;
    match client.get::<Option<BTreeMap<String, CheckResult>>>(&path(id), &[]).await {
        Ok(checks) => Some(Ok(checks?.into_values().collect())),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Whether the node of an allocation runs checks for it.
fn has_checks(alloc: &Allocation) -> bool {
    let groups = alloc.job.iter().flat_map(|job| job.task_groups.iter().flatten());
    let mut groups = groups.filter(|group| group.name == alloc.task_group);
    groups.any(|group| {
        let of_tasks = group.tasks.iter().flatten().flat_map(|task| task.services.iter().flatten());
        let mut services = group.services.iter().flatten().chain(of_tasks);
        services.any(|service| {
            service.provider.as_deref() == Some("nomad") && service.checks.iter().flatten().next().is_some()
        })
    })
}

/// The table of checks in the status of an allocation, sorted by the names of the checks.
pub(super) fn table(page: &mut Page, checks: &Checks) {
    page.title("Nomad Service Checks:");
    let checks = match checks {
        Ok(checks) => checks,
        Err(error) => return page.line(format!("not known: {error}")),
    };
    let mut sorted: Vec<&CheckResult> = checks.iter().collect();
    sorted.sort_by_key(|check| (&check.check, &check.service, &check.task));
    let rows = sorted.into_iter().map(|check| {
        [check.service.clone(), task(check), check.check.clone(), check.mode.clone(), check.status.clone()]
    });
    page.table(&["Service", "Task", "Name", "Mode", "Status"], rows);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results() -> BTreeMap<String, CheckResult> {
        let results = json!({
            "0a": {
                "ID": "0a", "Mode": "healthiness", "Status": "failure", "StatusCode": 503, "Output": "\u{1b}[2Jdown",
                "Timestamp": 1_700_000_000, "Group": "site.app[0]", "Task": "", "Service": "web", "Check": "page",
            },
            "0b": {
                "ID": "0b", "Mode": "readiness", "Status": "success", "StatusCode": 0, "Output": "nomad: tcp ok",
                "Timestamp": 1_700_000_000, "Group": "site.app[0]", "Task": "db", "Service": "db", "Check": "open",
            },
        });
        serde_json::from_value(results).unwrap()
    }

    #[test]
    fn checks_are_shown_one_by_one() {
        let shown = page(&results()).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[..2], ["Status of 2 Nomad Service Checks", ""]);
        for line in [
            "ID         =  0a",
            "Task       =  (group)",
            "StatusCode =  503",
            "Timestamp  =  2023-11-14T22:13:20Z",
            "Output     =  \u{fffd}[2Jdown",
            "ID        =  0b",
            "Task      =  db",
            "Output    =  nomad: tcp ok",
        ] {
            assert!(lines.contains(&line), "{line}: {shown}");
        }
        assert_eq!(page(&BTreeMap::new()).to_string(), "Status of 0 Nomad Service Checks\n\n");
    }

    #[test]
    fn the_status_of_an_allocation_has_a_table_of_checks() {
        let mut page = Page::default();
        table(&mut page, &Ok(results().into_values().collect()));
        let shown = page.to_string();
        let words: Vec<Vec<&str>> =
            shown.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["db", "db", "open", "readiness", "success"]);
        assert_eq!(words[1], ["web", "(group)", "page", "healthiness", "failure"]);
    }

    #[test]
    fn only_services_of_the_provider_nomad_have_checks_on_the_node() {
        let of = |provider: &str, checks: Value| {
            let service = json!({ "Name": "web", "Provider": provider, "Checks": checks });
            let job = json!({ "TaskGroups": [{ "Name": "app", "Services": [service] }] });
            let text = json!({ "TaskGroup": "app", "Job": job }).to_string();
            has_checks(&api_types::decode::from_slice(text.as_bytes()).unwrap())
        };
        assert!(of("nomad", json!([{ "Name": "open", "Type": "tcp" }])));
        assert!(!of("nomad", json!(null)));
        assert!(!of("consul", json!([{ "Name": "open", "Type": "tcp" }])));
    }
}
