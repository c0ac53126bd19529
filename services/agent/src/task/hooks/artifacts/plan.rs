//! What to do with one artifact: where it comes from and goes to. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use api_types::TaskArtifact;
use model::text::quoted;
use sha2::{Digest as _, Sha256};

use crate::artifacts::source::{Kind, Source};
use crate::artifacts::{Fetch, Limits, Mode, Sandbox, hex};
use crate::node::facts::NodeFacts;
use crate::task::env::Env;
use crate::task::hooks::places::place;
use crate::task::interpolation::Interpolator;

/// What stands for a secret.
const REDACTED: &str = "<redacted>";
/// Texts that are shorter are no secrets. They would be found in many words.
const SECRET_CHARS_MIN: usize = 4;
/// The longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// What to do with one artifact.
#[derive(Clone)]
pub(super) struct Plan {
    /// Where it comes from.
    pub(super) source: Source,
    /// Where it goes to, relative to the allocation's directory: the directory, or the file for [`Mode::File`].
    pub(super) destination: PathBuf,
    /// What it becomes.
    pub(super) mode: Mode,
    /// Headers of requests.
    pub(super) headers: BTreeMap<String, String>,
    /// Whether any certificate of a server is accepted.
    pub(super) insecure: bool,
    /// Whether it belongs to the task's user.
    pub(super) chown: bool,
}

/// The task that artifacts belong to.
pub(super) struct Owner<'a> {
    /// The task's name.
    pub(super) task: &'a str,
    /// The environment that fields refer to.
    pub(super) env: &'a Env,
    /// The node that fields refer to.
    pub(super) node: &'a NodeFacts,
}

impl Plan {
    /// Reads an artifact of a job. Its source, destination, options and headers may refer to variables.
    ///
    /// # Errors
    /// If a value is not valid, or the destination leads out of the allocation's directory.
    pub(super) fn new(artifact: &TaskArtifact, owner: &Owner<'_>) -> Result<Self, String> {
        let mut names = Interpolator::new(owner.node);
        let mut fill = |text: &str| names.fill(text, owner.env).map_err(|error| error.to_string());
        let mut filled = |given: &Option<BTreeMap<String, String>>| {
            let pairs = given.iter().flatten();
            pairs
                .map(|(name, value)| Ok((fill(name)?, fill(value)?)))
                .collect::<Result<BTreeMap<_, _>, String>>()
        };
        let options = filled(&artifact.getter_options)?;
        let headers = filled(&artifact.getter_headers)?;
        let source = fill(artifact.getter_source.as_deref().unwrap_or_default())?;
        let destination = fill(artifact.relative_dest.as_deref().unwrap_or_default())?;
        let mode = match artifact.getter_mode.as_deref().unwrap_or_default() {
            "" | "any" => Mode::Any,
            "file" => Mode::File,
            "dir" => Mode::Dir,
            other => {
                return Err(format!(
                    "invalid artifact mode {}; must be one of: any, file, dir",
                    quoted(other)
                ));
            }
        };
        Ok(Self {
            source: Source::read(&source, &options)?,
            destination: place(owner.task, owner.env, &destination)?,
            mode,
            headers,
            insecure: artifact.getter_insecure.unwrap_or_default(),
            chown: artifact.chown.unwrap_or_default(),
        })
    }

    /// What a fetcher is told.
    pub(super) fn fetch(&self, limits: Limits, staging: PathBuf, sandbox: Sandbox) -> Fetch {
        Fetch {
            source: self.source.clone(),
            headers: self.headers.clone(),
            insecure: self.insecure,
            mode: self.mode,
            limits,
            staging,
            sandbox,
        }
    }

    /// The text of a failure, without secrets.
    pub(super) fn failure(&self, error: &str) -> String {
        let mut secrets: Vec<&String> = self.source.secrets.iter().chain(self.headers.values()).collect();
        if let Kind::Git(git) = &self.source.kind {
            secrets.extend(git.ssh_key.as_ref());
        }
        // One may contain another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let mut error: String = error.chars().take(MESSAGE_CHARS_MAX).collect();
        for secret in secrets {
            if secret.chars().count() >= SECRET_CHARS_MIN {
                error = error.replace(secret.as_str(), REDACTED);
            }
        }
        let error: String = error.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
        message(&self.source.shown, &error)
    }
}

fn message(source: &str, error: &str) -> String {
    format!("failed to download artifact {}: {error}", quoted(source))
}

/// The text of the failure of an artifact that could not be read. Its source is shown up to what may be secret.
pub(super) fn failure(artifact: &TaskArtifact, error: &str) -> String {
    let source = artifact.getter_source.as_deref().unwrap_or_default();
    let source = source.split_once('?').map_or(source, |(before, _)| before);
    let (scheme, rest) = source.split_once("://").map_or(("", source), |(scheme, rest)| (scheme, rest));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let shown = if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") };
    message(&shown, error)
}

/// Distinguishes an artifact from others: a hash of its fields.
pub(super) fn hash(artifact: &TaskArtifact) -> String {
    // The fields are texts, numbers and maps with texts as keys, which always have a JSON.
    let json = serde_json::to_vec(artifact).unwrap_or_default();
    hex(&Sha256::digest(json))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(source: &str, destination: &str) -> TaskArtifact {
        TaskArtifact {
            getter_source: Some(source.to_owned()),
            relative_dest: Some(destination.to_owned()),
            ..TaskArtifact::default()
        }
    }

    fn read(artifact: &TaskArtifact) -> Result<Plan, String> {
        let env: Env = [("NOMAD_TASK_DIR", "/local"), ("VERSION", "1.2")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let node = NodeFacts::default();
        Plan::new(artifact, &Owner { task: "web", env: &env, node: &node })
    }

    //
    #[test]
    fn fields_are_filled_in() {
        let mut given =
            artifact("https://example.org/tool-${VERSION}.zip", "${NOMAD_TASK_DIR}/tool-${VERSION}");
        given.getter_headers = Some([("X-Version".to_owned(), "v${VERSION}".to_owned())].into());
        given.getter_options = Some([("filename".to_owned(), "t-${VERSION}.zip".to_owned())].into());
        let plan = read(&given).ok().unwrap();
        assert_eq!(plan.source.shown, "https://example.org/tool-1.2.zip");
        assert_eq!(plan.source.file_name, "t-1.2.zip");
        assert_eq!(plan.destination, PathBuf::from("web/local/tool-1.2"));
        assert_eq!(plan.headers["X-Version"], "v1.2");
        let outside = read(&artifact("https://example.org/a", "../../x")).map(|_| ());
        assert_eq!(outside, Err("Path escapes the alloc directory".to_owned()));
    }

    #[test]
    fn failures_have_no_secrets() {
        let mut given = artifact("https://user:p4ssword@example.org/a?sig=s1gnature", "local/");
        given.getter_headers = Some([("Authorization".to_owned(), "Bearer t0ken".to_owned())].into());
        let plan = read(&given).ok().unwrap();
        let text = plan.failure("https://user:p4ssword@x failed\n?sig=s1gnature Bearer t0ken");
        let expected = "failed to download artifact \"https://example.org/a\": \
                        https://user:<redacted>@x failed ?<redacted> <redacted>";
        assert_eq!(text, expected);
        given.getter_mode = Some("what".to_owned());
        let error = read(&given).map(|_| ()).unwrap_err();
        let text = failure(&given, &error);
        assert!(text.starts_with("failed to download artifact \"https://example.org/a\": invalid"), "{text}");
    }

    #[test]
    fn an_artifact_is_known_by_its_fields() {
        let one = artifact("https://example.org/a", "local/");
        assert_eq!(hash(&one), hash(&one.clone()));
        assert_ne!(hash(&one), hash(&TaskArtifact { chown: Some(true), ..one.clone() }));
    }
}
