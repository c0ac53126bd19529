//! `drover health`: asks a service process how it fares, for people, containers and scripts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::StatusCode;
use serde_json::json;

use super::output::Output;
use super::page::{Colour, Page};
use crate::health::report::Report;

/// Where it is asked unless somebody says otherwise.
const ADDRESS: &str = "127.0.0.1:4650";
/// How long the whole answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The size of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The exit code when the process is not ready.
const EXIT_NOT_READY: u8 = 1;
/// The exit code when the arguments cannot be used.
pub(crate) const EXIT_USAGE: u8 = 2;
/// The exit code when the process does not live, or does not answer.
const EXIT_NOT_LIVE: u8 = 3;

/// Asks a service process on its health address whether it lives and is ready, and if not, why not.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Exit codes:\n  \
    0  it lives and is ready (with -live: it lives)\n  \
    1  it is not ready; the output says why\n  \
    2  the arguments cannot be used\n  \
    3  it is not live, or does not answer within 3 seconds")]
pub(crate) struct Args {
    /// Ask only whether it lives: whether its event loop runs.
    #[arg(long)]
    live: bool,
    /// Ask only whether it is ready.
    #[arg(long)]
    ready: bool,
    /// Where the process tells how it fares: host and port. Of 0.0.0.0 and [::], which it may listen on, the loopback
    /// address is asked.
    #[arg(long, env = "DROVER_HEALTH_ADDR", value_name = "HOST:PORT", default_value = ADDRESS)]
    addr: String,
    /// Show the process's answer as it is, as JSON.
    #[arg(long)]
    json: bool,
}

/// Asks; the exit code tells how the process fares.
pub(crate) fn run(args: &Args) -> ExitCode {
    let output = Output::for_terminals();
    let base = match base(&args.addr) {
        Ok(base) => base,
        Err(error) => {
            output.error(&format!("{error:#}"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime needs nothing that a process has not");
    let asked = runtime.block_on(ask(&base, args.paths()));
    match asked {
        Ok(answer) => {
            if args.json {
                output.raw(answer.text.as_bytes());
            } else {
                output.page(&page(&answer.report));
            }
            ExitCode::from(answer.exit_code())
        }
        Err(error) => {
            if args.json {
                output.line(&json!({ "status": "unreachable", "message": format!("{error:#}") }).to_string());
            } else {
                output.error(&format!("{error:#}"));
            }
            ExitCode::from(EXIT_NOT_LIVE)
        }
    }
}

impl Args {
    /// What is asked, until something is wrong.
    fn paths(&self) -> &'static [&'static str] {
        match (self.live, self.ready) {
            (true, false) => &[LIVE],
            (false, true) => &[READY],
            (true, true) | (false, false) => &[LIVE, READY],
        }
    }
}

const LIVE: &str = "/live";
const READY: &str = "/ready";

/// What a process answered.
#[derive(Debug)]
struct Answer {
    path: &'static str,
    report: Report,
    text: String,
}

impl Answer {
    fn exit_code(&self) -> u8 {
        match (self.report.is_ok(), self.path) {
            (true, _) => 0,
            (false, LIVE) => EXIT_NOT_LIVE,
            (false, _) => EXIT_NOT_READY,
        }
    }
}

/// Asks for each path, and returns the first answer that is bad, or the last.
async fn ask(base: &str, paths: &[&'static str]) -> anyhow::Result<Answer> {
    // No proxy stands between a machine and itself.
    let client = reqwest::Client::builder().timeout(ANSWER_WITHIN).no_proxy().build();
    let client = client.context("cannot set up the HTTP client")?;
    let mut last = None;
    for path in paths {
        let answer = ask_for(&client, base, path).await?;
        if !answer.report.is_ok() {
            return Ok(answer);
        }
        last = Some(answer);
    }
    last.context("nothing was asked")
}

async fn ask_for(client: &reqwest::Client, base: &str, path: &'static str) -> anyhow::Result<Answer> {
    let unreachable = || format!("cannot reach the health endpoint at {base}");
    let sent = client.get(format!("{base}{path}")).send().await;
    let mut response = sent.map_err(reqwest::Error::without_url).with_context(unreachable)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(reqwest::Error::without_url).with_context(unreachable)?
    {
        ensure!(body.len() + chunk.len() <= ANSWER_BYTES_MAX, "the answer of {base} is too large");
        body.extend_from_slice(&chunk);
    }
    let is_expected = matches!(status, StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE);
    let report = serde_json::from_slice(&body).ok().filter(|_| is_expected);
    let Some(report) = report else {
        bail!("{base} is no health endpoint: it answers {path} with status {status} and something else");
    };
    Ok(Answer { path, report, text: String::from_utf8_lossy(&body).into_owned() })
}

/// The address as a URL; that of a listener as one that can be connected to.
fn base(text: &str) -> anyhow::Result<String> {
    let text = if text.is_empty() { ADDRESS } else { text };
    let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    if let Ok(address) = address.parse::<SocketAddr>() {
        let ip = match address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
        };
        return Ok(format!("http://{}", SocketAddr::new(ip, address.port())));
    }
    let host_and_port = address.rsplit_once(':').filter(|(host, port)| {
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !host.is_empty() && host.bytes().all(is_host) && port.parse::<u16>().is_ok()
    });
    match host_and_port {
        Some((host, port)) => Ok(format!("http://{host}:{port}")),
        None => bail!("cannot use {text:?} as a health address: want HOST:PORT, such as {ADDRESS}"),
    }
}

/// Status, role and checks, for people.
fn page(report: &Report) -> Page {
    let mut page = Page::default();
    let Report { status, service, role, .. } = report;
    let role = if role.is_empty() { String::new() } else { format!(" ({role})") };
    let colour = if report.is_ok() { Colour::Green } else { Colour::Red };
    page.coloured(colour, format!("{service}{role}: {status}"));
    let rows = report.checks.iter().map(|check| {
        let state = if check.ok { "ok" } else { "not ok" };
        [check.name.clone(), state.to_owned(), check.message.clone()]
    });
    page.table(&["Check", "State", "Message"], rows);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::report::Check;

    #[test]
    fn a_listener_is_asked_where_it_can_be_reached() {
        let found = |text: &str| base(text).unwrap();
        assert_eq!(found("0.0.0.0:4650"), "http://127.0.0.1:4650");
        assert_eq!(found("[::]:4650"), "http://[::1]:4650");
        assert_eq!(found("[fd00::2]:1"), "http://[fd00::2]:1");
        assert_eq!(found("10.0.0.1:4650"), "http://10.0.0.1:4650");
        assert_eq!(found("http://scheduler-1.drover:4650/"), "http://scheduler-1.drover:4650");
        assert_eq!(found(""), "http://127.0.0.1:4650");
        for wrong in ["4650", ":4650", "host", "host:port", "host:99999", "ftp://host:1", "a b:1", "::1:4650"]
        {
            let error = base(wrong).unwrap_err().to_string();
            assert!(error.starts_with("cannot use "), "{wrong}: {error}");
        }
    }

    fn answer(path: &'static str, ok: bool) -> Answer {
        let check = Check { name: "nats".into(), ok, message: "the connection was lost 4.0 s ago".into() };
        let status = if ok { "ready" } else { "not ready" };
        let report = Report {
            status: status.into(),
            service: "node-tracker".into(),
            role: "standby".into(),
            checks: vec![check],
        };
        Answer { path, report, text: String::new() }
    }

    #[test]
    fn exit_codes_tell_what_is_wrong() {
        assert_eq!(answer(LIVE, true).exit_code(), 0);
        assert_eq!(answer(READY, true).exit_code(), 0);
        assert_eq!(answer(READY, false).exit_code(), 1);
        assert_eq!(answer(LIVE, false).exit_code(), 3);
    }

    #[test]
    fn a_report_is_shown_as_a_table() {
        insta::assert_snapshot!(page(&answer(READY, false).report).text(false), @r"
        node-tracker (standby): not ready
        Check  State   Message
        nats   not ok  the connection was lost 4.0 s ago
        ");
    }
}
