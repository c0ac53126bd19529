//! Sources of artifacts: what a job writes, and what it means. Pure.
//!
//! A source is a URL, with three additions: a protocol before it (`git::`), a directory in it after `//`, and options in its
//! query. `github.com/user/repo`, and the same for GitLab and Bitbucket, and `git@host:path` are repositories of Git.

use std::collections::BTreeMap;

use model::job::unbuilt_protocol;
use model::text::quoted;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::checksum::{self, Checksum};
use super::format::{self, Format};

/// Hosts whose repositories may be named without a scheme.
const GIT_HOSTS: [&str; 3] = ["github.com", "gitlab.com", "bitbucket.org"];
/// The longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The name of a file whose URL has none.
const DEFAULT_NAME: &str = "index.html";

/// Where an artifact comes from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// How it is fetched.
    pub(crate) kind: Kind,
    /// The directory in it that is delivered, as a relative path without `..`; `None` is all of it.
    pub(crate) subdir: Option<String>,
    /// What it is unpacked as; `None` is not at all.
    pub(crate) format: Option<Format>,
    /// The checksum that it must have.
    pub(crate) checksum: Option<Checksum>,
    /// The name of its file.
    pub(crate) file_name: String,
    /// The source for people, without secrets.
    pub(crate) shown: String,
    /// Texts of the source that may be secret.
    pub(crate) secrets: Vec<String>,
}

/// How an artifact is fetched.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// By HTTP from a URL.
    Http(String),
    /// By Git.
    Git(Git),
}

/// A repository of Git.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Git {
    /// Its URL.
    pub(crate) url: String,
    /// A branch, tag or commit; `None` is the default branch.
    pub(crate) reference: Option<String>,
    /// The number of commits that are fetched; `None` is all.
    pub(crate) depth: Option<u32>,
    /// The private key for SSH.
    pub(crate) ssh_key: Option<String>,
}

impl Source {
    /// Reads the source of a job, with its options.
    ///
    /// # Errors
    /// If it is not valid, or of a protocol that is not built. The text has no secrets.
    pub(crate) fn read(text: &str, options: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = text.trim();
        if let Some(protocol) = unbuilt_protocol(text) {
            return Err(format!("artifacts by {protocol} are not built into this agent"));
        }
        let (forced, rest) = if means_git(text) { (Some("git"), text) } else { forced(text) };
        let (url, subdir) = split_subdir(&with_scheme(rest)?);
        let mut url: Url = url.parse().map_err(|_| "the source is not a URL".to_owned())?;
        let is_git = match (forced, url.scheme()) {
            (Some("git"), "http" | "https" | "ssh") => true,
            (None | Some("http" | "https"), "http" | "https") => false,
            (None, "ssh" | "git") => return Err("a repository needs git:: before its URL".to_owned()),
            (forced, scheme) => {
                let name = forced.unwrap_or(scheme);
                return Err(format!("download not supported for scheme {}", quoted(name)));
            }
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err("the source names no host".to_owned());
        }
        let mut given = take_options(&mut url, options, is_git)?;
        let mut secrets = secrets_of(&url);
        secrets.extend(given.get("sshkey").cloned());
        let file_name = match given.remove("filename") {
            Some(name) => name,
            None => last_element(&url),
        };
        if matches!(&*file_name, "" | "." | "..")
            || file_name.contains(['/', '\0'])
            || file_name.len() > NAME_BYTES_MAX
        {
            return Err("the source gives its file no valid name".to_owned());
        }
        let archive = given.remove("archive");
        let checksum = given.remove("checksum").filter(|text| !text.is_empty());
        let checksum = checksum.map(|text| checksum::read(&text)).transpose()?;
        let shown = shown(is_git, &url);
        if is_git {
            if checksum.is_some() || archive.is_some() {
                return Err("a repository has no checksum and is no archive".to_owned());
            }
            let kind = Kind::Git(git(url, &mut given)?);
            return Ok(Self { kind, subdir, format: None, checksum: None, file_name, shown, secrets });
        }
        let format = format::of(archive.as_deref(), &file_name)?;
        if subdir.is_some() && !matches!(format, Some(Format::Tar(_) | Format::Zip)) {
            return Err("the source names a directory, and is no archive".to_owned());
        }
        let kind = Kind::Http(url.into());
        Ok(Self { kind, subdir, format, checksum, file_name, shown, secrets })
    }
}

/// The protocol that is written before a URL, and the rest.
fn forced(text: &str) -> (Option<&str>, &str) {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric());
    match text.split_once("::") {
        Some((name, rest)) if is_name(name) => (Some(name), rest),
        _ => (None, text),
    }
}

/// A source as a URL with a scheme.
fn with_scheme(text: &str) -> Result<String, String> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    if let Some((host, path)) = path.split_once(':')
        && host.contains('@')
        && !host.contains('/')
    {
        return Ok(format!("ssh://{host}/{}{query}", path.trim_start_matches('/')));
    }
    let (repository, subdir) = path.split_once("//").map_or((path, None), |(path, dir)| (path, Some(dir)));
    let parts: Vec<&str> = repository.split('/').filter(|part| !part.is_empty()).collect();
    if let [host, user, name, inner @ ..] = &parts[..]
        && GIT_HOSTS.contains(host)
    {
        let name = name.strip_suffix(".git").unwrap_or(name);
        let inner: Vec<&str> = inner.iter().copied().chain(subdir).collect();
        let inner = if inner.is_empty() { String::new() } else { format!("//{}", inner.join("/")) };
        return Ok(format!("https://{host}/{user}/{name}.git{inner}{query}"));
    }
    Err("the source has no scheme, such as https://".to_owned())
}

/// Whether a source without a protocol and a scheme means a repository.
fn means_git(text: &str) -> bool {
    if text.contains("://") || text.contains("::") {
        return false;
    }
    let is_short = text.split_once(':').is_some_and(|(host, _)| host.contains('@') && !host.contains('/'));
    is_short || GIT_HOSTS.iter().any(|host| text.strip_prefix(host).is_some_and(|rest| rest.starts_with('/')))
}

/// A URL without the directory after `//` in its path, and that directory.
fn split_subdir(url: &str) -> (String, Option<String>) {
    let Some((scheme, rest)) = url.split_once("://") else { return (url.to_owned(), None) };
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let Some((path, dir)) = path.split_once("//") else { return (url.to_owned(), None) };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let parts: Vec<&str> = dir.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let dir = (!parts.is_empty()).then(|| parts.join("/"));
    (format!("{scheme}://{path}{query}"), dir)
}

/// Takes the options of artifacts out of the query of a URL, and adds those of the job. What is no option of artifacts
/// stays in the query, exactly as it is written, because it may be signed.
fn take_options(
    url: &mut Url,
    options: &BTreeMap<String, String>,
    is_git: bool,
) -> Result<BTreeMap<String, String>, String> {
    let is_option = |name: &str| match name {
        "archive" | "checksum" | "filename" => true,
        "ref" | "sshkey" | "depth" => is_git,
        _ => false,
    };
    let mut taken = BTreeMap::new();
    let mut kept: Vec<String> = Vec::new();
    for part in url.query().unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if is_option(name) {
            let value = value.replace('+', " ");
            // A key in Base64 contains plus signs.
            let value = if name == "sshkey" { value.replace(' ', "+") } else { value };
            let value =
                percent_decode_str(&value).decode_utf8().map_err(|_| "an option is no text".to_owned())?;
            taken.insert(name.to_owned(), value.into_owned());
        } else {
            kept.push(part.to_owned());
        }
    }
    for (name, value) in options {
        if is_option(name) {
            taken.insert(name.clone(), value.clone());
        } else if is_git {
            return Err(format!("option {} is unknown for git", quoted(name)));
        } else {
            let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
            kept.push(format!("{}={}", encoded(name), encoded(value)));
        }
    }
    let query = kept.join("&");
    url.set_query((!query.is_empty()).then_some(&query));
    Ok(taken)
}

fn git(url: Url, options: &mut BTreeMap<String, String>) -> Result<Git, String> {
    let reference = options.remove("ref").filter(|text| !text.is_empty());
    let is_valid = |text: &String| !text.starts_with('-') && !text.contains(char::is_control);
    if reference.as_ref().is_some_and(|text| !is_valid(text)) {
        return Err("option ref is not valid".to_owned());
    }
    let depth = options.remove("depth").filter(|text| !matches!(&**text, "" | "0"));
    let depth = depth.map(|text| text.parse::<u32>()).transpose();
    let depth = depth.map_err(|_| "option depth is no number".to_owned())?;
    let ssh_key = options.remove("sshkey").filter(|text| !text.is_empty());
    if ssh_key.is_some() && url.scheme() != "ssh" {
        return Err("option sshkey needs a URL with ssh".to_owned());
    }
    if url.username().starts_with('-') || url.host_str().is_some_and(|host| host.starts_with('-')) {
        return Err("the source is not a URL".to_owned());
    }
    Ok(Git { url: url.into(), reference, depth, ssh_key })
}

/// The last element of a URL's path.
fn last_element(url: &Url) -> String {
    let last = url.path().rsplit('/').find(|part| !part.is_empty()).unwrap_or(DEFAULT_NAME);
    percent_decode_str(last).decode_utf8().map_or_else(|_| last.to_owned(), std::borrow::Cow::into_owned)
}

/// The source for people: without user, password and query.
fn shown(is_git: bool, url: &Url) -> String {
    let before = if is_git { "git::" } else { "" };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{before}{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

/// The parts of a URL that may be secret.
fn secrets_of(url: &Url) -> Vec<String> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut secrets = Vec::new();
    for part in [Some(url.username()).filter(|_| url.password().is_none()), url.password(), url.query()] {
        secrets.extend(part.into_iter().flat_map(|part| [part.to_owned(), decoded(part)]));
    }
    for (_, value) in url.query_pairs() {
        secrets.push(value.into_owned());
    }
    // The user of repositories is always the same.
    secrets.retain(|text| !text.is_empty() && text != "git");
    secrets
}

#[cfg(test)]
mod tests;
