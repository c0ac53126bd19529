//! `drover alloc status`: shows an allocation with its tasks and their events.

use std::process::ExitCode;

use api_types::{Allocation, TaskState};
use serde_json::Value;

use super::checks::Checks;
use super::{checks, resolve};
use crate::cli::page::Page;
use crate::cli::prefix::Ambiguous;
use crate::cli::{ApiCommand, Session, flags, format};

/// Shows an allocation with its tasks and their events.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(in crate::cli) show: flags::Show,
    /// The id of an allocation, or a prefix of it. It may be left out with -json or -t, which then print all allocations.
    #[arg(required_unless_present_any = ["json", "template"])]
    pub(in crate::cli) alloc: Option<String>,
    /// Print only one line for each task, with its last event.
    #[arg(long, conflicts_with_all = ["json", "template"])]
    pub(in crate::cli) short: bool,
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
        let checks = match self.short {
            true => None,
            false => checks::of_running(&session.client, &alloc).await,
        };
        session.output.page(&page(&alloc, checks.as_ref(), &self, format::now()));
        Ok(ExitCode::SUCCESS)
    }
}

fn page(alloc: &Allocation, checks: Option<&Checks>, args: &Args, now: i64) -> Page {
    let mut page = Page::default();
    head(&mut page, alloc, now, args.show.verbose);
    addresses(&mut page, alloc);
    if let Some(checks) = checks {
        checks::table(&mut page, checks);
    }
    let states = alloc.task_states.iter().flatten();
    if args.short {
        page.title("Tasks");
        let rows = states.map(|(name, state)| {
            let last = state.events.iter().flatten().last();
            [
                name.clone(),
                format::text(state.state.as_ref()),
                last.map(|event| format::text(event.r#type.as_ref())).unwrap_or_default(),
                last.map(|event| format::moment(event.time.unwrap_or_default())).unwrap_or_default(),
                lifecycle(alloc, name),
            ]
        });
        page.table(&["Name", "State", "Last Event", "Time", "Lifecycle"], rows);
    } else {
        states.for_each(|(name, state)| task(&mut page, alloc, name, state));
        placement(&mut page, alloc, args.show.verbose);
    }
    page
}

/// The lifecycle of a task, such as `prestart_sidecar`; `main` for tasks without one.
fn lifecycle(alloc: &Allocation, task: &str) -> String {
    let groups = alloc.job.iter().flat_map(|job| job.task_groups.iter().flatten());
    let group = groups.into_iter().find(|group| group.name == alloc.task_group);
    let mut tasks = group.into_iter().flat_map(|group| group.tasks.iter().flatten());
    let lifecycle =
        tasks.find(|found| found.name.as_deref() == Some(task)).and_then(|task| task.lifecycle.as_ref());
    match lifecycle {
        None => "main".to_owned(),
        Some(lifecycle) => {
            let sidecar = if lifecycle.sidecar == Some(true) { "_sidecar" } else { "" };
            format!("{}{sidecar}", format::text(lifecycle.hook.as_ref()))
        }
    }
}

fn head(page: &mut Page, alloc: &Allocation, now: i64, verbose: bool) {
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
    let related = [
        ("Deployment ID", &alloc.deployment_id),
        ("Replacement Alloc ID", &alloc.next_allocation),
        ("Replaces Alloc ID", &alloc.previous_allocation),
    ];
    for (key, id) in related {
        if let Some(id) = id.as_ref().filter(|id| !id.is_empty()) {
            pairs.push((key, format::id(Some(id), verbose)));
        }
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

fn task(page: &mut Page, alloc: &Allocation, name: &str, state: &TaskState) {
    page.title(format!("Task \"{name}\" is \"{}\"", format::text(state.state.as_ref())));
    let tasks = alloc.allocated_resources.as_ref().and_then(|resources| resources.tasks.as_ref());
    if let Some(resources) = tasks.and_then(|tasks| tasks.get(name)) {
        let cpu = resources.cpu.as_ref().and_then(|cpu| cpu.cpu_shares).unwrap_or_default();
        let memory = resources.memory.as_ref().and_then(|memory| memory.memory_mb).unwrap_or_default();
        let shared = alloc.allocated_resources.as_ref().and_then(|resources| resources.shared.as_ref());
        let disk = shared.and_then(|shared| shared.disk_mb).unwrap_or_default();
        page.line("Task Resources:");
        let row = [format!("{cpu} MHz"), format!("{memory} MiB"), format!("{disk} MiB")];
        page.table(&["CPU", "Memory", "Disk"], [row]);
        page.line("");
    }
    page.block(&[
        ("Started At", format::time(state.started_at)),
        ("Finished At", format::time(state.finished_at)),
        ("Total Restarts", state.restarts.unwrap_or_default().to_string()),
    ]);
    page.title("Recent Events:");
    let rows = state.events.iter().flatten().rev().map(|event| {
        [
            format::moment(event.time.unwrap_or_default()),
            format::text(event.r#type.as_ref()),
            format::text(event.display_message.as_ref()),
        ]
    });
    page.table(&["Time", "Type", "Description"], rows);
}

/// The nodes that the scheduler scored, with their scores.
fn placement(page: &mut Page, alloc: &Allocation, verbose: bool) {
    let Some(metrics) = &alloc.metrics else { return };
    let scores = metrics.score_meta_data.as_deref().unwrap_or_default();
    if scores.is_empty() {
        return;
    }
    page.title("Placement Metrics");
    let evaluated = metrics.nodes_evaluated.unwrap_or_default();
    page.line(format!("Nodes evaluated: {evaluated}; the best of them:"));
    let rows = scores.iter().map(|node| {
        let parts = node.scores.iter().flatten().map(|(name, score)| format!("{name} {score:.3}"));
        [
            format::id(node.node_id.as_ref(), verbose),
            parts.collect::<Vec<_>>().join(", "),
            format!("{:.3}", node.norm_score.unwrap_or_default()),
        ]
    });
    page.table(&["Node", "Scores", "Final"], rows);
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
}
