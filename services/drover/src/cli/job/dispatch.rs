//! `drover job dispatch`: makes a job from a parameterized one.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::ExitCode;

use anyhow::Context as _;
use api_types::{AllocListStub, Base64, Job};
use serde::{Deserialize, Serialize};

use super::{Kind, resolve_kind};
use crate::cli::client::escaped;
use crate::cli::monitor::Until;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format};

/// Maximum size of an input that is read. Servers refuse payloads that are much smaller.
const INPUT_BYTES_MAX: u64 = 1 << 20;
/// Exit code if an allocation of the job has failed.
const EXIT_FAILED: u8 = 2;

/// Dispatches a parameterized job: makes a job with the given input, and follows it until it runs.
///
/// Exits with 0 if everything runs, and with 2 if some allocations could not be placed. With `-wait`, exits with 2 if an
/// allocation failed.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a parameterized job, or a prefix of it.
    job: String,
    /// A file with the payload, or `-` for standard input.
    input: Option<String>,
    /// Set a meta key that the job asks for or allows, as in `-meta name=value`. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    meta: Vec<String>,
    /// Print the ids of the job and of its evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Also wait until all allocations of the job have ended.
    #[arg(long)]
    wait: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
    /// A token: a second dispatch with the same token makes no job, and prints that of the first.
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true)]
    idempotency_token: String,
    /// A text that the id of the job contains.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    id_prefix_template: String,
    /// The priority of the job, from 1 to 100. 0 stands for the priority of the parameterized job.
    #[arg(long, value_name = "PRIORITY", default_value_t = 0, hide = true)]
    priority: i64,
}

/// Body of the request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(rename = "JobID")]
    job_id: &'a str,
    payload: Option<Base64>,
    meta: BTreeMap<&'a str, &'a str>,
    id_prefix_template: &'a str,
    priority: i64,
}

/// The response.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Response {
    #[serde(rename = "DispatchedJobID")]
    dispatched_job_id: String,
    #[serde(rename = "EvalID")]
    eval_id: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let meta = pairs(&self.meta)?;
        let payload = self.input.as_deref().map(read).transpose()?.map(Base64);
        let job = resolve_kind(&session.client, &self.job, Kind::Parameterized).await?;
        let path = format!("/v1/job/{}/dispatch", escaped(&job.id));
        let query =
            [("namespace", job.namespace.as_str()), ("idempotency_token", self.idempotency_token.as_str())];
        let request = Request {
            job_id: &job.id,
            payload,
            meta,
            id_prefix_template: &self.id_prefix_template,
            priority: self.priority,
        };
        let made: Response =
            session.client.put_with(&path, &query, &request).await.context("Failed to dispatch job")?;
        let mut page = Page::default();
        let mut rows = vec![("Dispatched Job ID", made.dispatched_job_id.clone())];
        if !made.eval_id.is_empty() {
            rows.push(("Evaluation ID", format::id(Some(&made.eval_id), self.verbose)));
        }
        page.block(&rows);
        session.output.page(&page);
        if self.detach {
            return Ok(ExitCode::SUCCESS);
        }
        if !made.eval_id.is_empty() {
            session.output.line("");
            let followed = session.follow(&made.eval_id, Until::Running, self.verbose).await?;
            if followed != ExitCode::SUCCESS || !self.wait {
                return Ok(followed);
            }
        }
        if !self.wait {
            return Ok(ExitCode::SUCCESS);
        }
        wait(&session, &made.dispatched_job_id, &job.namespace).await
    }
}

/// Waits until the job is dead, and returns whether all its allocations succeeded, as an exit code.
async fn wait(session: &Session, job: &str, namespace: &str) -> anyhow::Result<ExitCode> {
    let path = format!("/v1/job/{}", escaped(job));
    let mut index = 0;
    loop {
        let (found, next): (Job, u64) = session.client.wait_in(&path, namespace, index).await?;
        if found.status.as_deref() == Some("dead") {
            break;
        }
        index = next;
    }
    let path = format!("{path}/allocations");
    let allocs: Vec<AllocListStub> = session.client.get(&path, &[("namespace", namespace)]).await?;
    session.output.line("");
    let failed = allocs.iter().any(|alloc| alloc.client_status.as_deref() == Some("failed"));
    Ok(if failed { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

/// The keys and values of `-meta`.
fn pairs(meta: &[String]) -> anyhow::Result<BTreeMap<&str, &str>> {
    let pair = |text: &str| anyhow::anyhow!("Error parsing meta value: {text}");
    meta.iter().map(|text| text.split_once('=').ok_or_else(|| pair(text))).collect()
}

/// Reads the payload.
fn read(input: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut limit = |input: &mut dyn std::io::Read| input.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes);
    let read = match input {
        "-" => limit(&mut std::io::stdin().lock()),
        path => std::fs::File::open(path).and_then(|mut file| limit(&mut file)),
    };
    read.with_context(|| format!("Error reading input data: open {input}"))?;
    anyhow::ensure!(
        bytes.len() as u64 <= INPUT_BYTES_MAX,
        "Error reading input data: {input} is larger than {INPUT_BYTES_MAX} bytes"
    );
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_keys_are_separated_from_their_values_by_the_first_sign() {
        // cli 4.8: `Error parsing meta value: who`.
        let meta = ["a=1", "b=x=y", "c="].map(str::to_owned);
        let expected = [("a", "1"), ("b", "x=y"), ("c", "")].into();
        assert_eq!(pairs(&meta).unwrap(), expected);
        let error = pairs(&["who".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "Error parsing meta value: who");
    }

    #[test]
    fn the_payload_is_read_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("input");
        std::fs::write(&file, "input").unwrap();
        assert_eq!(read(file.to_str().unwrap()).unwrap(), b"input");
        let missing = dir.path().join("missing");
        let missing = missing.to_str().unwrap();
        let error = read(missing).unwrap_err().to_string();
        assert_eq!(error, format!("Error reading input data: open {missing}"));
        std::fs::write(&file, vec![0; 1 + (1 << 20)]).unwrap();
        assert!(read(file.to_str().unwrap()).unwrap_err().to_string().contains("larger than 1048576"));
    }
}
