//! Reads job files for commands: from a path, standard input or a URL, with values for their variables, in HCL or in the
//! API's JSON (`docs/rules/cli.md` §4).

mod disk;
mod drivers;
mod report;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use api_types::{Job, JobRegisterRequest, JobSubmission};
use jobspec::{FunctionInputs, Options, VARIABLE_PREFIX, Variables};

use self::disk::Disk;
pub(crate) use self::report::{as_json, render};
use crate::cli::client::{Client, escaped};
use crate::cli::paging::quote;

/// Maximum size of a job file, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// The timeout of downloading a job file.
const DOWNLOAD: Duration = Duration::from_secs(30);

/// Flags that name the job file and the values of its variables.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct JobFile {
    /// The job file: a path, a URL, or `-` for standard input.
    file: String,
    /// Read the job file as JSON in the API's form instead of HCL.
    #[arg(long)]
    json: bool,
    /// Set a variable of the job file, as in `-var greeting=hello`. May be given several times.
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment, conflicts_with = "json")]
    variables: Vec<(String, String)>,
    /// Read values for variables of the job file from this file. May be given several times.
    #[arg(long = "var-file", value_name = "FILE", conflicts_with = "json")]
    variable_files: Vec<String>,
    /// Whether a value for a variable that the job file does not declare is an error.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", conflicts_with = "json")]
    hcl2_strict: bool,
    /// The Vault namespace of the job, if the job file sets none.
    #[arg(long, value_name = "NAMESPACE", hide = true)]
    vault_namespace: Option<String>,
    /// The Consul namespace of the job, if the job file sets none.
    #[arg(long, value_name = "NAMESPACE", hide = true)]
    consul_namespace: Option<String>,
}

/// A job, and the source that it was parsed from.
pub(crate) struct Loaded {
    pub(crate) job: Job,
    pub(crate) submission: JobSubmission,
}

/// Why a file does not contain a job.
pub(crate) enum Failure {
    /// The file contains errors.
    Invalid(jobspec::Error),
    /// The file could not be read.
    Other(anyhow::Error),
}

impl JobFile {
    /// The file as it was named.
    pub(crate) fn name(&self) -> &str {
        &self.file
    }

    /// Whether the name is that of a file, of a resource, or of standard input.
    pub(crate) fn is_there(&self) -> bool {
        let is_url = self.file.starts_with("http://") || self.file.starts_with("https://");
        self.file == "-" || is_url || std::path::Path::new(&self.file).is_file()
    }

    /// Reads the file. Flags and the environment provide the namespaces and the region that the file leaves out
    /// (`docs/rules/cli.md` 4.1). Directs further requests of `client` to the namespace and the region of the job.
    pub(crate) async fn load(&self, client: &mut Client) -> Result<Loaded, Failure> {
        let source = self.read().await.map_err(Failure::Other)?;
        let (mut job, submission) = if self.json {
            let job = api_job(&source).map_err(Failure::Other)?;
            (job, JobSubmission { format: Some("json".to_owned()), ..JobSubmission::default() })
        } else {
            let variables = self.variable_values().map_err(Failure::Other)?;
            let submission = submission(&variables);
            let options = Options {
                file_name: if self.file == "-" { "<stdin>" } else { &self.file }.to_owned(),
                variables,
                strict: self.hcl2_strict,
                function_inputs: FunctionInputs {
                    seed: telemetry::clock::random_bytes(),
                    files: Some(Arc::new(Disk::relative_to(&self.file))),
                },
            };
            let job = jobspec::parse_bytes(&source, &options).map_err(Failure::Invalid)?;
            // Reports with its line what the server would refuse anyway.
            let text = String::from_utf8_lossy(&source);
            jobspec::lint(&text, &options.file_name).map_err(Failure::Invalid)?;
            (job, submission)
        };
        let mistakes = drivers::mistakes(&job);
        if !mistakes.is_empty() {
            return Err(Failure::Other(anyhow!("its tasks cannot start\n  * {}", mistakes.join("\n  * "))));
        }
        for (own, given) in [
            (&mut job.namespace, client.namespace()),
            (&mut job.region, client.region()),
            (&mut job.vault_namespace, self.vault_namespace.as_deref()),
            (&mut job.consul_namespace, self.consul_namespace.as_deref()),
        ] {
            set_if_missing(own, given);
        }
        client.select(job.namespace.as_deref(), job.region.as_deref());
        let source = String::from_utf8_lossy(&source).into_owned();
        Ok(Loaded { job, submission: JobSubmission { source: Some(source), ..submission } })
    }

    /// The flags and the argument with which another command reads the same file, for a shell.
    pub(crate) fn for_shell(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.json.then(|| "-json".to_owned()));
        for (name, value) in &self.variables {
            words.push(format!("-var={}", quote(&format!("{name}={value}"))));
        }
        words.extend(self.variable_files.iter().map(|file| format!("-var-file={}", quote(file))));
        words.push(quote(&self.file));
        words.join(" ")
    }

    async fn read(&self) -> anyhow::Result<Vec<u8>> {
        let file = self.file.as_str();
        let bytes = if file.starts_with("http://") || file.starts_with("https://") {
            download(file).await?
        } else {
            let mut bytes = Vec::new();
            let mut limit =
                |input: &mut dyn std::io::Read| input.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
            let read = match file {
                "-" => limit(&mut std::io::stdin().lock()),
                path => std::fs::File::open(path).and_then(|mut file| limit(&mut file)),
            };
            read.with_context(|| format!("cannot read {file}"))?;
            bytes
        };
        ensure!(
            bytes.len() as u64 <= FILE_BYTES_MAX,
            "job file {file} is larger than {FILE_BYTES_MAX} bytes"
        );
        Ok(bytes)
    }

    /// Values for the file's variables, in ascending precedence.
    fn variable_values(&self) -> anyhow::Result<Vec<Variables>> {
        let mut variable_values = Vec::new();
        for (name, value) in std::env::vars_os() {
            let name = name.to_str().and_then(|name| name.strip_prefix(VARIABLE_PREFIX));
            if let (Some(name), Some(value)) = (name, value.to_str()) {
                variable_values
                    .push(Variables::Environment { name: name.to_owned(), value: value.to_owned() });
            }
        }
        for file in &self.variable_files {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
            variable_values.push(Variables::File { name: file.clone(), text });
        }
        for (name, value) in &self.variables {
            variable_values.push(Variables::Flag { name: name.clone(), value: value.clone() });
        }
        Ok(variable_values)
    }
}

/// Parses the value of a variable.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected a name and a value, as in `-var greeting=hello`".to_owned()),
    }
}

/// Sets an attribute that the job file leaves out.
fn set_if_missing(own: &mut Option<String>, given: Option<&str>) {
    let given = given.filter(|given| !given.is_empty());
    if own.as_deref().unwrap_or_default().is_empty() && given.is_some() {
        *own = given.map(str::to_owned);
    }
}

async fn download(url: &str) -> anyhow::Result<Vec<u8>> {
    let client = reqwest::Client::builder().timeout(DOWNLOAD).build()?;
    let mut response = client.get(url).send().await.with_context(|| format!("cannot read {url}"))?;
    let status = response.status();
    if !status.is_success() {
        bail!("cannot read {url}: the server answers {status}");
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.with_context(|| format!("cannot read {url}"))? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > FILE_BYTES_MAX {
            break;
        }
    }
    Ok(bytes)
}

/// Parses a job in JSON, with `{"Job": …}` around it or without.
fn api_job(source: &[u8]) -> anyhow::Result<Job> {
    let wrapped: JobRegisterRequest = api_types::decode::from_slice(source)?;
    match wrapped.job {
        Some(job) => Ok(job),
        None => Ok(api_types::decode::from_slice(source)?),
    }
}

/// The source and values that the API stores for people to read. Values from flags are escaped. Values from the environment
/// are left out.
fn submission(variables: &[Variables]) -> JobSubmission {
    let (mut flags, mut text) = (BTreeMap::new(), String::new());
    for variable in variables {
        match variable {
            Variables::Environment { .. } => {}
            Variables::Flag { name, value } => {
                flags.insert(name.clone(), escaped(value));
            }
            Variables::File { text: file, .. } => {
                text.push_str(file);
                text.push('\n');
            }
        }
    }
    JobSubmission {
        format: Some("hcl2".to_owned()),
        variable_flags: (!flags.is_empty()).then_some(flags),
        variables: Some(text),
        ..JobSubmission::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_file_takes_precedence_over_flags_and_environment() {
        let set = |own: Option<&str>, given| {
            let mut own = own.map(str::to_owned);
            set_if_missing(&mut own, given);
            own
        };
        assert_eq!(set(Some("own"), Some("given")).as_deref(), Some("own"));
        assert_eq!(set(None, Some("given")).as_deref(), Some("given"));
        assert_eq!(set(Some(""), Some("given")).as_deref(), Some("given"));
        assert_eq!(set(Some("own"), None).as_deref(), Some("own"));
        assert_eq!(set(None, Some("")), None);
    }

    #[test]
    fn a_variable_has_a_name_and_a_value() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(assignment("greeting=hello"), pair("greeting", "hello"));
        assert_eq!(assignment("expression=a=b"), pair("expression", "a=b"));
        assert_eq!(assignment("empty="), pair("empty", ""));
        for text in ["greeting", "", "=hello"] {
            let error = assignment(text).unwrap_err();
            assert!(error.contains("-var greeting=hello"), "{text}: {error}");
        }
    }
}
