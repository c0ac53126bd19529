//! `drover alloc status`: shows an allocation with its tasks and their events.

mod tasks;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use api_types::{Allocation, Evaluation, ReschedulePolicy};
use serde_json::Value;

use super::checks::Checks;
use super::{checks, resolve};
use crate::cli::measured::Alloc;
use crate::cli::page::Page;
use crate::cli::prefix::Ambiguous;
use crate::cli::{ApiCommand, Session, flags, format};

/// Shows an allocation with its tasks and their events.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover alloc status 1a2b3c4d\n  drover alloc status -stats 1a2b3c4d")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(in crate::cli) show: flags::Show,
    /// The id of an allocation, or a prefix of it. It may be left out with -json or -t, which then print all allocations.
    #[arg(required_unless_present_any = ["json", "template"])]
    pub(in crate::cli) alloc: Option<String>,
    /// Print only one line for each task, with its last event.
    #[arg(long, conflicts_with_all = ["json", "template"])]
    pub(in crate::cli) short: bool,
    /// Also show what its tasks use of memory and processors, as measured on the node.
    #[arg(long, conflicts_with_all = ["json", "template", "short"])]
    pub(in crate::cli) stats: bool,
}

/// What is known about an allocation besides itself.
#[derive(Debug, Default)]
struct Around {
    /// What its tasks use. `None` if they do not run, or the node does not answer.
    used: Option<Alloc>,
    /// The evaluation that will reschedule it.
    followup: Option<Evaluation>,
    /// The results of its checks.
    checks: Option<Checks>,
    /// The current time, in nanoseconds since 1970.
    now: i64,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let Some(prefix) = &self.alloc else {
            let all: Value = session.client.get("/v1/allocations", &[]).await?;
            self.show.object.print(session.output, &all)?;
            return Ok(ExitCode::SUCCESS);
        };
        let id = match resolve(&session.client, prefix, self.show.verbose).await {
            // Scripts know this list as a result (`docs/rules/cli.md` 1.4).
            Err(error) if error.is::<Ambiguous>() => {
                session.output.line(&error.to_string());
                return Ok(ExitCode::SUCCESS);
            }
            resolved => resolved?,
        };
        let path = format!("/v1/allocation/{id}");
        if self.show.object.is_requested() {
            let alloc: Value = session.client.get(&path, &[]).await?;
            self.show.object.print(session.output, &alloc)?;
            return Ok(ExitCode::SUCCESS);
        }
        let alloc: Allocation = session.client.get(&path, &[]).await?;
        let around = self.around(&session, &alloc).await;
        session.output.page(&page(&alloc, &self, &around));
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    /// Reads what is shown besides the allocation. What cannot be read is left out.
    async fn around(&self, session: &Session, alloc: &Allocation) -> Around {
        let mut around = Around { now: format::now(), ..Around::default() };
        if alloc.client_status.as_deref() == Some("running") && !self.short {
            around.used = session.alloc_use(&format::text(alloc.id.as_ref())).await;
        }
        if !self.short {
            around.checks = checks::of_running(&session.client, alloc).await;
        }
        if let Some(eval) = alloc.followup_eval_id.as_ref().filter(|id| !id.is_empty() && !self.short) {
            around.followup = session.client.get(&format!("/v1/evaluation/{eval}"), &[]).await.ok();
        }
        around
    }
}

fn page(alloc: &Allocation, args: &Args, around: &Around) -> Page {
    let mut page = Page::default();
    let verbose = args.show.verbose;
    if args.short {
        page.block(&short_head(alloc, around.now, verbose));
        tasks::short(&mut page, alloc);
        return page;
    }
    head(&mut page, alloc, around, verbose);
    addresses(&mut page, alloc);
    if let Some(checks) = &around.checks {
        checks::table(&mut page, checks);
    }
    tasks::show(&mut page, alloc, around.used.as_ref(), args.stats);
    if verbose {
        placement(&mut page, alloc);
    }
    page
}

fn short_head(alloc: &Allocation, now: i64, verbose: bool) -> Vec<(&'static str, String)> {
    vec![
        ("ID", format::text(alloc.id.as_ref())),
        ("Name", format::text(alloc.name.as_ref())),
        ("Created", format::ago(alloc.create_time.unwrap_or_default(), now, verbose)),
        ("Modified", format::ago(alloc.modify_time.unwrap_or_default(), now, verbose)),
    ]
}

fn head(page: &mut Page, alloc: &Allocation, around: &Around, verbose: bool) {
    let now = around.now;
    let version = alloc.job.as_ref().and_then(|job| job.version).unwrap_or_default();
    let mut pairs = vec![
        ("ID", format::text(alloc.id.as_ref())),
        ("Eval ID", format::id(alloc.eval_id.as_ref(), verbose)),
        ("Name", format::text(alloc.name.as_ref())),
        ("Node ID", format::id(alloc.node_id.as_ref(), verbose)),
        ("Node Name", format::text(alloc.node_name.as_ref())),
        ("Job ID", format::text(alloc.job_id.as_ref())),
        ("Job Version", version.to_string()),
        ("Client Status", format::text(alloc.client_status.as_ref())),
        ("Client Description", format::text(alloc.client_description.as_ref())),
        ("Desired Status", format::text(alloc.desired_status.as_ref())),
        ("Desired Description", format::text(alloc.desired_description.as_ref())),
        ("Created", format::ago(alloc.create_time.unwrap_or_default(), now, verbose)),
        ("Modified", format::ago(alloc.modify_time.unwrap_or_default(), now, verbose)),
    ];
    let related = |pairs: &mut Vec<(&'static str, String)>, key, id: &Option<String>| {
        if let Some(id) = id.as_ref().filter(|id| !id.is_empty()) {
            pairs.push((key, format::id(Some(id), verbose)));
        }
    };
    related(&mut pairs, "Deployment ID", &alloc.deployment_id);
    if alloc.deployment_id.as_ref().is_some_and(|id| !id.is_empty()) {
        let status = alloc.deployment_status.as_ref();
        let health = match status.and_then(|status| status.healthy) {
            Some(true) => "healthy",
            Some(false) => "unhealthy",
            None => "unset",
        };
        pairs.push(("Deployment Health", health.to_owned()));
        if status.is_some_and(|status| status.canary == Some(true)) {
            pairs.push(("Canary", "true".to_owned()));
        }
    }
    related(&mut pairs, "Replacement Alloc ID", &alloc.next_allocation);
    related(&mut pairs, "Replaces Alloc ID", &alloc.previous_allocation);
    pairs.extend(attempts(alloc, now).map(|attempts| ("Reschedule Attempts", attempts)));
    let at = around.followup.as_ref().and_then(|eval| eval.wait_until).map_or(0, |time| time.unix_nanos());
    if at > now {
        pairs.push(("Reschedule Eligibility", format::from_now(at, now, verbose)));
    }
    if let Some(metrics) = alloc.metrics.as_ref().filter(|_| verbose) {
        pairs.push(("Evaluated Nodes", format::number(metrics.nodes_evaluated)));
        pairs.push(("Filtered Nodes", format::number(metrics.nodes_filtered)));
        pairs.push(("Exhausted Nodes", format::number(metrics.nodes_exhausted)));
        pairs.push(("Allocation Time", format!("{:?}", elapsed(metrics.allocation_time))));
        pairs.push(("Failures", format::number(metrics.coalesced_failures)));
    }
    if let Some(trace) = &alloc.trace_id {
        pairs.push(("Trace ID", trace.clone()));
    }
    page.block(&pairs);
}

/// The ports of the group, each with its address on the node and the port inside the allocation's own network.
fn addresses(page: &mut Page, alloc: &Allocation) {
    let shared = alloc.allocated_resources.as_ref().and_then(|resources| resources.shared.as_ref());
    let networks = shared.and_then(|shared| shared.networks.as_ref());
    let mappings = shared.and_then(|shared| shared.ports.as_ref());
    let mut rows = Vec::new();
    let mut mode = String::new();
    for network in networks.into_iter().flatten() {
        if let Some(named) = network.mode.as_ref().filter(|mode| !matches!(mode.as_str(), "" | "host")) {
            mode = format!(" (mode: \"{named}\")");
        }
        let ports = [(&network.reserved_ports, "no"), (&network.dynamic_ports, "yes")];
        for (ports, dynamic) in ports {
            for port in ports.iter().flatten() {
                let mapping = mappings.into_iter().flatten().find(|mapping| mapping.label == port.label);
                let ip = mapping.and_then(|mapping| mapping.host_ip.as_ref()).or(network.ip.as_ref());
                let mut address = joined(&format::text(ip), port.value.unwrap_or_default());
                if let Some(to) = port.to.filter(|to| *to > 0) {
                    address.push_str(&format!(" -> {to}"));
                }
                rows.push([format!("*{}", format::text(port.label.as_ref())), dynamic.to_owned(), address]);
            }
        }
    }
    if !rows.is_empty() {
        page.title(format!("Allocation Addresses{mode}:"));
        page.table(&["Label", "Dynamic", "Address"], rows);
    }
}

fn joined(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn elapsed(nanos: Option<i64>) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.unwrap_or_default()).unwrap_or_default())
}

/// How often the allocation was rescheduled within the interval of its group's policy, of how many attempts. `None` unless
/// the policy has a limit.
fn attempts(alloc: &Allocation, now: i64) -> Option<String> {
    let groups = alloc.job.iter().flat_map(|job| job.task_groups.iter().flatten());
    let group = groups.into_iter().find(|group| group.name == alloc.task_group)?;
    let policy: &ReschedulePolicy = group.reschedule_policy.as_ref()?;
    let limit = policy.attempts.filter(|attempts| *attempts > 0 && policy.unlimited != Some(true))?;
    let since = now.saturating_sub(policy.interval.unwrap_or_default());
    let events = alloc.reschedule_tracker.iter().flat_map(|tracker| tracker.events.iter().flatten());
    let made = events.filter(|event| event.reschedule_time.is_some_and(|time| time > since)).count();
    Some(format!("{made}/{limit}"))
}

/// The nodes that the scheduler scored, with their scores.
fn placement(page: &mut Page, alloc: &Allocation) {
    let scores = alloc.metrics.as_ref().and_then(|metrics| metrics.score_meta_data.as_deref());
    let scores = scores.unwrap_or_default();
    if scores.is_empty() {
        return;
    }
    let names: BTreeSet<&str> =
        scores.iter().flat_map(|node| node.scores.iter().flatten().map(|(name, _)| name.as_str())).collect();
    page.title("Placement Metrics");
    let mut header = vec!["Node"];
    header.extend(&names);
    header.push("final score");
    let rows = scores.iter().map(|node| {
        let score = |name: &&str| node.scores.as_ref().and_then(|scores| scores.get(*name)).copied();
        let mut row = vec![format::text(node.node_id.as_ref())];
        row.extend(names.iter().map(|name| significant(score(name).unwrap_or_default())));
        row.push(significant(node.norm_score.unwrap_or_default()));
        row
    });
    page.table(&header, rows);
}

/// A number with three significant digits, without zeros at its end.
fn significant(value: f64) -> String {
    // The exponent after rounding to three digits.
    let scientific = format!("{value:.2e}");
    let exponent = scientific.rsplit_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let decimals = usize::try_from(2 - exponent.unwrap_or_default()).unwrap_or_default();
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_shown_with_their_addresses_on_the_node() {
        let shared = json!({
            "Networks": [{
                "Mode": "bridge", "IP": "10.0.0.1",
                "ReservedPorts": [{ "Label": "http", "Value": 80, "To": 8080 }],
                "DynamicPorts": [{ "Label": "admin", "Value": 21000 }, { "Label": "v6", "Value": 21001, "To": -1 }],
            }],
            "Ports": [
                { "Label": "http", "Value": 80, "To": 8080, "HostIP": "203.0.113.7" },
                { "Label": "v6", "Value": 21001, "HostIP": "2001:db8::7" },
            ],
        });
        let text = json!({ "AllocatedResources": { "Shared": shared } }).to_string();
        let alloc: Allocation = api_types::decode::from_slice(text.as_bytes()).unwrap();
        let mut page = Page::default();
        addresses(&mut page, &alloc);
        let shown = page.to_string();
        for line in [
            "Allocation Addresses (mode: \"bridge\"):",
            "203.0.113.7:80 -> 8080",
            "10.0.0.1:21000",
            "[2001:db8::7]:21001",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
        assert!(shown.contains("*http") && shown.contains("*admin"), "{shown}");
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        assert_eq!(significant(0.066_21), "0.0662");
        assert_eq!(significant(0.5), "0.5");
        assert_eq!(significant(0.0), "0");
        assert_eq!(significant(-1.0), "-1");
        assert_eq!(significant(12.345), "12.3");
    }

    fn parsed(json: serde_json::Value) -> Allocation {
        api_types::decode::from_slice(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_head_says_when_and_how_often_it_is_tried_again() {
        let second = 1_000_000_000_i64;
        let policy = json!({ "Attempts": 3, "Interval": 60 * second });
        let alloc = parsed(json!({
            "ID": "0a1b2c3d", "TaskGroup": "web", "ClientStatus": "failed", "DeploymentID": "d0000000",
            "DeploymentStatus": { "Healthy": false, "Canary": true },
            "Job": { "TaskGroups": [{ "Name": "web", "ReschedulePolicy": policy }] },
            "RescheduleTracker": { "Events": [
                { "RescheduleTime": 30 * second }, { "RescheduleTime": 90 * second }] },
        }));
        let followup = Evaluation {
            wait_until: Some(api_types::Time::from_unix_nanos(129 * second)),
            ..Evaluation::default()
        };
        let around = Around { followup: Some(followup), now: 100 * second, ..Around::default() };
        let mut page = Page::default();
        head(&mut page, &alloc, &around, false);
        let shown = page.to_string();
        for line in [
            "Deployment Health      = unhealthy",
            "Canary                 = true",
            "Reschedule Attempts    = 1/3",
            "Reschedule Eligibility = 29s from now",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        }
    }
}
