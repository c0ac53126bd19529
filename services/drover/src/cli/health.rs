//! `drover health`: checks the health of a service process, for people, containers and scripts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::StatusCode;
use serde_json::json;

use super::output::{Colours, Output};
use super::page::{Colour, Page};
use crate::command::Run;
use crate::health::report::Report;

/// The default health address.
const ADDRESS: &str = "127.0.0.1:4650";
/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of a response.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// The exit code if the process is not ready.
const EXIT_NOT_READY: u8 = 1;
/// The exit code if the arguments are invalid.
pub(crate) const EXIT_USAGE: u8 = 2;
/// The exit code if the process is not live, or does not answer.
const EXIT_NOT_LIVE: u8 = 3;

/// Checks whether a service process is live and ready.
///
/// Asks the process at its health address. If it is not live or not ready, prints the checks that failed.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Exit codes:\n  \
    0  the process is live and ready (with -live: it is live)\n  \
    1  the process is not ready; the output names the failed checks\n  \
    2  the arguments are invalid\n  \
    3  the process is not live, or does not answer within 3 seconds")]
pub(crate) struct Args {
    /// Check only whether the process is live: whether its event loop runs.
    #[arg(long)]
    live: bool,
    /// Check only whether the process is ready.
    #[arg(long)]
    ready: bool,
    /// The health address of the process. For 0.0.0.0 and [::], which a process may listen on, the loopback address is
    /// used.
    #[arg(long, env = "DROVER_HEALTH_ADDR", value_name = "HOST:PORT", default_value = ADDRESS)]
    addr: String,
    /// Print the process's response unchanged, as JSON.
    #[arg(long)]
    json: bool,
}

impl Run for Args {
    fn run(self) -> ExitCode {
        check_and_print(&self)
    }
}

/// Checks the process, and returns the exit code for its health.
fn check_and_print(args: &Args) -> ExitCode {
    let output = Output::new(Colours::OnTerminals);
    let base = match base(&args.addr) {
        Ok(base) => base,
        Err(error) => {
            output.error(&format!("{error:#}"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime starts");
    let result = runtime.block_on(check(&base, args.paths()));
    match result {
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
    /// The paths to request, until a check fails.
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

/// The response of a process.
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

/// Requests each path. Returns the first response with a failed check, or the last response.
async fn check(base: &str, paths: &[&'static str]) -> anyhow::Result<Answer> {
    // A request to this machine must not go through a proxy.
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build();
    let client = client.context("cannot set up the HTTP client")?;
    let mut last = None;
    for path in paths {
        let answer = request(&client, base, path).await?;
        if !answer.report.is_ok() {
            return Ok(answer);
        }
        last = Some(answer);
    }
    last.context("no path was requested")
}

async fn request(client: &reqwest::Client, base: &str, path: &'static str) -> anyhow::Result<Answer> {
    let unreachable = || format!("cannot reach the health endpoint at {base}");
    let sent = client.get(format!("{base}{path}")).send().await;
    let mut response = sent.map_err(reqwest::Error::without_url).with_context(unreachable)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(reqwest::Error::without_url).with_context(unreachable)?
    {
        ensure!(body.len() + chunk.len() <= RESPONSE_BYTES_MAX, "the response of {base} is too large");
        body.extend_from_slice(&chunk);
    }
    let is_expected = matches!(status, StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE);
    let report = serde_json::from_slice(&body).ok().filter(|_| is_expected);
    let Some(report) = report else {
        bail!(
            "{base} is not a health endpoint: its response to {path} has status {status} and no health report"
        );
    };
    Ok(Answer { path, report, text: String::from_utf8_lossy(&body).into_owned() })
}

/// The address as a URL. An unspecified IP address becomes the loopback address.
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
        None => bail!("cannot use {text:?} as a health address: expected HOST:PORT, such as {ADDRESS}"),
    }
}

/// Status, role and checks, as text.
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
