//! `drover cluster …`: shows the processes of the cluster.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

use super::page::{Colour, Page};
use super::{ApiCommand, Session, WithApi, flags, format};
use crate::command::commands;

/// The exit code if something is wrong with the cluster.
const EXIT_UNHEALTHY: u8 = 2;
/// Maximum length of a host's name in the table, unless whole names are asked for.
const HOST_WIDTH: usize = 16;

commands! {
    /// Shows the processes of the cluster.
    Command {
        Status(WithApi<Status>),
    }
}

/// Lists the server processes: what each does, and how it does.
///
/// The active processes come first. A process that went silent is listed for a minute. Agents are nodes: see `drover node
/// status`.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Exit codes:\n  \
    0  all is well\n  \
    1  the cluster cannot be asked\n  \
    2  a service has no active process, or a process is silent or lacks NATS or its database")]
pub(crate) struct Status {
    #[command(flatten)]
    show: flags::Show,
}

/// The part of the response that is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Answer {
    processes: Vec<Process>,
    without_active: Vec<String>,
    nodes: Nodes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Process {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    host: String,
    #[serde(rename = "PID")]
    pid: u32,
    version: String,
    start_time: i64,
    status: String,
    heard_ago_ms: u64,
    services: Vec<Service>,
    behind: Option<u64>,
    #[serde(rename = "NATS")]
    nats: Health,
    database: Health,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Service {
    name: String,
    state: String,
    epoch: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Health {
    status: String,
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Nodes {
    ready: u32,
    down: u32,
    disconnected: u32,
    total: u64,
}

impl ApiCommand for Status {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let object: Value = session.client.get("/v1/cluster", &[]).await?;
        let answer = Answer::deserialize(&object)?;
        if self.show.object.is_requested() {
            self.show.object.print(session.output, &object)?;
        } else {
            let mut page = Page::default();
            show(&mut page, &answer, format::now(), self.show.verbose);
            session.output.page(&page);
        }
        Ok(if answer.is_healthy() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_UNHEALTHY) })
    }
}

impl Answer {
    /// Whether every service has an active process, and no process is silent or lacks something.
    fn is_healthy(&self) -> bool {
        self.without_active.is_empty() && self.processes.iter().all(|process| process.problems().is_empty())
    }
}

impl Process {
    /// What is wrong with the process.
    fn problems(&self) -> Vec<String> {
        if self.is_silent() {
            let ago = format::duration(i64::try_from(self.heard_ago_ms / 1_000).unwrap_or(i64::MAX));
            return vec![format!("nothing heard for {ago}")];
        }
        let parts = [("NATS", &self.nats), ("database", &self.database)];
        let failing = parts.into_iter().filter(|(_, health)| health.is_failing());
        failing.map(|(name, health)| format!("{name}: {}", health.message)).collect()
    }

    fn is_silent(&self) -> bool {
        self.status == "silent"
    }

    /// What works, in a word or two.
    fn health(&self) -> &'static str {
        match (self.is_silent(), self.nats.is_failing(), self.database.is_failing()) {
            (true, _, _) => "silent",
            (_, true, true) => "no NATS, no database",
            (_, true, false) => "no NATS",
            (_, false, true) => "no database",
            (_, false, false) => "ok",
        }
    }
}

impl Health {
    fn is_failing(&self) -> bool {
        self.status == "failing"
    }
}

fn show(page: &mut Page, answer: &Answer, now: i64, verbose: bool) {
    table(page, answer, now, verbose);
    let problems = problems(answer);
    if !problems.is_empty() {
        page.title("Problems");
        problems.into_iter().for_each(|problem| page.coloured(Colour::Red, problem));
    }
    let Nodes { ready, down, disconnected, total } = answer.nodes;
    page.line("");
    page.line(format!("Nodes: {total}, of which {ready} ready, {down} down, {disconnected} disconnected"));
}

/// One line for each service of each process: the active ones first, then the others, those of silent processes last.
fn table(page: &mut Page, answer: &Answer, now: i64, verbose: bool) {
    let processes = answer.processes.iter();
    let mut rows: Vec<(&Process, &Service)> = processes
        .flat_map(|process| process.services.iter().map(move |service| (process, service)))
        .collect();
    rows.sort_by_key(|(process, service)| {
        let place = match service.state.as_str() {
            "active" => 0,
            _ if process.is_silent() => 2,
            _ => 1,
        };
        (place, &service.name, &process.host, process.pid)
    });
    let row = |(process, service): &(&Process, &Service)| {
        let up = match (process.start_time, verbose) {
            (..=0, _) => String::new(),
            (start, true) => format::moment(start),
            (start, false) => format::duration(now.saturating_sub(start) / 1_000_000_000),
        };
        let host: String = match verbose {
            true => process.host.clone(),
            false => process.host.chars().take(HOST_WIDTH).collect(),
        };
        let mut row = vec![
            service.name.clone(),
            service.state.clone(),
            service.epoch.map(|epoch| epoch.to_string()).unwrap_or_default(),
            host,
            process.pid.to_string(),
            process.version.clone(),
            up,
            process.behind.map(|behind| behind.to_string()).unwrap_or_default(),
            process.health().to_owned(),
        ];
        if verbose {
            let heard_ms = process.heard_ago_ms.to_string();
            row.extend([format!("{heard_ms} ms ago"), process.name.clone(), process.id.clone()]);
        }
        row.iter().map(|cell| if cell.is_empty() { "-".to_owned() } else { cell.clone() }).collect::<Vec<_>>()
    };
    let since = if verbose { "Since" } else { "Up" };
    let mut header = vec!["Service", "State", "Epoch", "Host", "PID", "Version", since, "Behind", "Health"];
    if verbose {
        header.extend(["Heard", "Process", "ID"]);
    }
    page.table(&header, rows.iter().map(row));
}

/// What is wrong with the cluster, a line each.
fn problems(answer: &Answer) -> Vec<String> {
    let missing = answer.without_active.iter().map(|service| format!("{service}: no process is active"));
    let of_processes = answer.processes.iter().flat_map(|process| {
        let Process { name, host, pid, .. } = process;
        process.problems().into_iter().map(move |problem| format!("{name} on {host} ({pid}): {problem}"))
    });
    missing.chain(of_processes).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn process(name: &str, state: &str, epoch: Option<u64>, pid: u32) -> Value {
        json!({
            "ID": "00000000-0000-4000-8000-000000000001",
            "Name": name,
            "Host": "a-host-with-a-very-long-name.example.org",
            "PID": pid,
            "Version": "0.1.0",
            "StartTime": HOUR,
            "Status": "alive",
            "HeardAgoMs": 1_200,
            "Services": [{ "Name": name, "State": state, "Epoch": epoch }],
            "Index": 7,
            "Behind": 0,
            "NATS": { "Status": "ok", "Message": "" },
            "Database": { "Status": "unknown", "Message": "" },
        })
    }

    fn answer(processes: &[Value], without_active: &[&str]) -> Answer {
        let nodes = json!({ "Ready": 2, "Down": 1, "Disconnected": 0, "Total": 3 });
        let object = json!({ "Processes": processes, "WithoutActive": without_active, "Nodes": nodes });
        Answer::deserialize(&object).unwrap()
    }

    fn lines(answer: &Answer, verbose: bool) -> Vec<String> {
        let mut page = Page::default();
        show(&mut page, answer, HOUR * 30, verbose);
        page.to_string().lines().map(str::to_owned).collect()
    }

    /// The words of the first columns of each line.
    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().take(3).collect()
    }

    #[test]
    fn active_processes_come_first_and_the_table_is_not_wide() {
        let processes = [
            process("deployment-watcher", "standby", None, 4_000_001),
            process("api", "running", None, 4_000_002),
            process("plan-applier", "active", Some(12), 4_000_003),
            process("deployment-watcher", "active", Some(12_345), 4_000_004),
        ];
        let answer = answer(&processes, &[]);
        assert!(answer.is_healthy());
        let lines = lines(&answer, false);
        assert_eq!(words(&lines[1]), ["deployment-watcher", "active", "12345"]);
        assert_eq!(words(&lines[2]), ["plan-applier", "active", "12"]);
        assert_eq!(words(&lines[3]), ["api", "running", "-"]);
        assert_eq!(words(&lines[4]), ["deployment-watcher", "standby", "-"]);
        assert!(lines[1].contains("a-host-with-a-ve  4000004  0.1.0    1d5h  0       ok"), "{lines:?}");
        assert!(lines.iter().all(|line| line.len() <= 100), "{lines:?}");
        assert_eq!(lines[5..], ["", "Nodes: 3, of which 2 ready, 1 down, 0 disconnected"]);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let mut silent = process("scheduler", "unknown", None, 7);
        silent["Status"] = json!("silent");
        silent["HeardAgoMs"] = json!(25_000);
        let mut failing = process("api", "running", None, 8);
        failing["NATS"] = json!({ "Status": "failing", "Message": "lost the connection 3 s ago" });
        failing["Database"] = json!({ "Status": "failing", "Message": "refused" });
        let answer = answer(&[silent, failing], &["eval-broker"]);
        assert!(!answer.is_healthy());
        let lines = lines(&answer, false);
        assert_eq!(words(&lines[1]), ["api", "running", "-"]);
        assert!(lines[1].ends_with("no NATS, no database"), "{lines:?}");
        assert_eq!(words(&lines[2]), ["scheduler", "unknown", "-"]);
        let host = "a-host-with-a-very-long-name.example.org";
        assert_eq!(
            lines[3..8],
            [
                String::new(),
                "Problems".to_owned(),
                "eval-broker: no process is active".to_owned(),
                format!("scheduler on {host} (7): nothing heard for 25s"),
                format!("api on {host} (8): NATS: lost the connection 3 s ago"),
            ]
        );
    }

    #[test]
    fn details_have_whole_names_and_ids() {
        let lines = lines(&answer(&[process("api", "running", None, 8)], &[]), true);
        assert!(lines[0].ends_with("ID") && lines[0].contains("Since"), "{lines:?}");
        assert!(lines[1].contains("a-host-with-a-very-long-name.example.org"), "{lines:?}");
        assert!(
            lines[1].ends_with("1200 ms ago  api      00000000-0000-4000-8000-000000000001"),
            "{lines:?}"
        );
    }
}
