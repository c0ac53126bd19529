//! `drover job run`: registers a job and follows it until its tasks run.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api_types::{Job, JobRegisterRequest, JobRegisterResponse, JobSubmission};

use super::variables::Given;
use crate::cli::client::Error;
use crate::cli::monitor::Until;
use crate::cli::page::Page;
use crate::cli::{Session, client, flags};

/// The largest job file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Registers a job and follows it until its tasks run.
///
/// Exits with 0 when everything runs, 2 when not all could be placed, and 1 when something failed.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// The job file; `-` reads standard input.
    file: String,
    /// The file is JSON as the API takes it, not HCL.
    #[arg(long)]
    json: bool,
    /// Return as soon as the job is registered.
    #[arg(long)]
    detach: bool,
    /// Whole ids.
    #[arg(long)]
    verbose: bool,
    /// Print the job as JSON, and register nothing.
    #[arg(long)]
    output: bool,
    /// Register only if the job's modify index is this; 0 if it must not exist.
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    /// Priority of the evaluation, 1 to 100, where it is to differ from the job's.
    #[arg(long, value_name = "PRIORITY", default_value_t = 0)]
    eval_priority: i64,
    /// Leave the counts of groups that are registered as they are.
    #[arg(long)]
    preserve_counts: bool,
    /// Leave the resources of tasks that are registered as they are.
    #[arg(long)]
    preserve_resources: bool,
    /// A value for one of the job file's variables, as `name=value`; may be given again.
    #[arg(long = "var", value_name = "NAME=VALUE")]
    variables: Vec<String>,
    /// A file with values for the job file's variables; may be given again.
    #[arg(long = "var-file", value_name = "FILE")]
    variable_files: Vec<String>,
    /// Whether values for variables that the job file does not declare are errors.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", hide = true)]
    hcl2_strict: bool,
    /// For policies, which are not built.
    #[arg(long, hide = true)]
    policy_override: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let source = read(&args.file).context("Error getting job struct")?;
    let variables = variables(&args, &source)?;
    let job = parse(&args, &source, &variables).context("Error getting job struct")?;
    if args.output {
        let job = serde_json::json!({ "Job": job });
        session.output.line(&client::indented(&job));
        return Ok(ExitCode::SUCCESS);
    }
    let format = if args.json { "json" } else { "hcl2" };
    let request = JobRegisterRequest {
        submission: Some(JobSubmission {
            source: Some(source),
            format: Some(format.to_owned()),
            variables: Some(variables),
            ..JobSubmission::default()
        }),
        job: Some(job),
        enforce_index: args.check_index.map(|_| true),
        job_modify_index: args.check_index,
        preserve_counts: Some(args.preserve_counts),
        preserve_resources: Some(args.preserve_resources),
        eval_priority: Some(args.eval_priority),
        policy_override: Some(args.policy_override),
        ..JobRegisterRequest::default()
    };
    let registered = session.client.put("/v1/jobs", &request).await;
    let registered: JobRegisterResponse = registered.map_err(|error| {
        let is_conflict =
            matches!(&error, Error::Refused { text, .. } if text.contains("Enforcing job modify index"));
        let error = anyhow::Error::from(error);
        if is_conflict { error.context("Job not updated") } else { error.context("Error submitting job") }
    })?;
    if let Some(warnings) = registered.warnings.filter(|warnings| !warnings.is_empty()) {
        let mut page = Page::default();
        page.bold("Job Warnings:");
        page.line(format!("{warnings}\n"));
        session.output.page(&page);
    }
    let eval = registered.eval_id.unwrap_or_default();
    if eval.is_empty() {
        session.output.line("Job registration successful");
        return Ok(ExitCode::SUCCESS);
    }
    if args.detach {
        session.output.line("Job registration successful");
        session.output.line(&format!("Evaluation ID: {eval}"));
        return Ok(ExitCode::SUCCESS);
    }
    session.follow(&eval, Until::Running, args.verbose).await
}

fn read(file: &str) -> anyhow::Result<String> {
    if file.starts_with("http://") || file.starts_with("https://") {
        bail!("not built yet: job files at a URL; download {file} and run the copy");
    }
    let mut text = String::new();
    let mut limit = |input: &mut dyn std::io::Read| input.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let read = match file {
        "-" => limit(&mut std::io::stdin().lock()),
        path => std::fs::File::open(path).and_then(|mut file| limit(&mut file)),
    };
    let bytes = read.with_context(|| format!("cannot read {file}"))?;
    anyhow::ensure!(bytes as u64 <= FILE_BYTES_MAX, "job file {file} is larger than {FILE_BYTES_MAX} bytes");
    Ok(text)
}

/// Values for the job file's variables, as the parser and the API take them. JSON has none.
fn variables(args: &Args, source: &str) -> anyhow::Result<String> {
    if args.json {
        return Ok(String::new());
    }
    let mut given = Given::of(source);
    for (name, value) in std::env::vars_os() {
        if let (Some(name), Some(value)) =
            (name.to_str().and_then(|name| name.strip_prefix("NOMAD_VAR_")), value.to_str())
        {
            given.environment(name, value);
        }
    }
    for file in &args.variable_files {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        given.file(&text).with_context(|| format!("cannot read {file}"))?;
    }
    // One without a value is passed over.
    for (name, value) in args.variables.iter().filter_map(|variable| variable.split_once('=')) {
        given.flag(name, value, args.hcl2_strict)?;
    }
    Ok(given.into_text())
}

fn parse(args: &Args, source: &str, variables: &str) -> anyhow::Result<Job> {
    let mut job = if args.json {
        let wrapped: JobRegisterRequest = api_types::decode::from_slice(source.as_bytes())?;
        match wrapped.job {
            Some(job) => job,
            None => api_types::decode::from_slice(source.as_bytes())?,
        }
    } else {
        let name = if args.file == "-" { "<stdin>" } else { &args.file };
        let options = jobspec::Options { file_name: name.to_owned(), variables: variables.to_owned() };
        jobspec::parse(source, &options)?
    };
    for (of_job, flag) in [(&mut job.namespace, &args.api.namespace), (&mut job.region, &args.api.region)] {
        if let Some(flag) = flag.as_ref().filter(|flag| !flag.is_empty()) {
            *of_job = Some(flag.clone());
        }
    }
    Ok(job)
}
