//! The fetcher: a process for each artifact of a task, which downloads and unpacks it.
//!
//! It is the agent's own program with the sub-command of executors. It gives up all rights that it does not need (`confine`)
//! before it opens a connection, and has one directory to write to, the *staging directory*. The agent inspects what is
//! there afterwards, and moves it to the artifact's destination. Agent and fetcher communicate through another directory,
//! which only the agent's user can read:
//!
//! | file | content |
//! |---|---|
//! | `fetch` | what to fetch (`Fetch`); removed after it is read, because it contains secrets |
//! | `fetched` | the outcome (`Fetched`) |
//!
//! The standard input of the fetcher is a pipe of the agent. When the pipe closes, the fetcher and its children end.
//!
//! `source`, `address` and `format` are pure, and so are the names of checksums in `checksum`.

mod address;
mod checksum;
mod confine;
pub(crate) mod format;
mod git;
mod http;
pub(crate) mod source;
mod unpack;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::getpgrp;
use serde::{Deserialize, Serialize};

use self::checksum::Checksum;
use self::confine::enter;
use self::format::Format;
use self::source::{Kind, Source};
use self::unpack::{Budget, Sink};
use crate::disk::store::{self, Durability};
use crate::disk::tree::{Links, OpenDir, explained};

pub(crate) use self::checksum::hex;
pub(crate) use self::confine::Sandbox;
pub(crate) use self::git::ENTRIES_MAX;
pub(crate) use self::unpack::{DEPTH_MAX, stays_inside};

/// The file that says what to fetch.
const FETCH: &str = "fetch";
/// The file with the outcome.
const FETCHED: &str = "fetched";
/// The largest outcome that the agent reads, in bytes.
const OUTCOME_BYTES_MAX: u64 = 64 << 10;
/// The longest reason in an outcome, in characters.
const REASON_CHARS_MAX: usize = 2_000;

/// The directory in the staging directory that the fetcher writes to.
pub(crate) const WORK: &str = "work";
/// The directory in `work` with what is delivered.
pub(crate) const OUT: &str = "out";
/// The file in `work` with what is downloaded before it is unpacked.
const DOWNLOAD: &str = "download";
/// Permissions of a file that is delivered as it was downloaded.
const FILE_MODE: u32 = 0o644;
/// Permissions of files and directories that the fetcher keeps to itself.
const OWN_FILE_MODE: u32 = 0o600;
const OWN_DIR_MODE: u32 = 0o755;

/// What an artifact becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mode {
    /// A directory if it is unpacked, otherwise a file in the destination.
    Any,
    /// One file, at the destination.
    File,
    /// A directory.
    Dir,
}

/// Limits of a fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// The largest download, in bytes.
    pub(crate) download_bytes: u64,
    /// The longest download by HTTP.
    pub(crate) http_time: Duration,
    /// The longest download by Git.
    pub(crate) git_time: Duration,
    /// The most bytes that an archive may contain.
    pub(crate) unpacked_bytes: u64,
    /// The most entries that an archive may have.
    pub(crate) unpacked_files: u64,
}

/// What to fetch.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fetch {
    /// Where it comes from.
    pub(crate) source: Source,
    /// Headers of requests.
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether any certificate of a server is accepted.
    pub(crate) insecure: bool,
    /// What it becomes.
    pub(crate) mode: Mode,
    /// The limits.
    pub(crate) limits: Limits,
    /// The staging directory. No task can change its path.
    pub(crate) staging: PathBuf,
    /// What the fetcher gives up.
    pub(crate) sandbox: Sandbox,
}

/// The outcome of a fetch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fetched {
    /// Why it failed; `None` if it did not.
    pub(crate) error: Option<String>,
}

/// Describes in a directory what a fetcher shall fetch.
pub(crate) fn describe(dir: &Path, fetch: &Fetch) -> io::Result<()> {
    store::write(&dir.join(FETCH), fetch, Durability::Process)
}

/// Whether a directory is for a fetcher.
pub(crate) fn is_described(dir: &Path) -> bool {
    dir.join(FETCH).exists()
}

/// The outcome that a fetcher has left in a directory; `None` if it left none. It is not trusted.
pub(crate) fn outcome(dir: &Path) -> Option<Fetched> {
    let mut bytes = Vec::new();
    File::open(dir.join(FETCHED)).ok()?.take(OUTCOME_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    rmp_serde::from_slice(&bytes).ok()
}

/// Fetches what a directory describes, and writes down the outcome.
pub(crate) fn run(dir: &Path) -> io::Result<()> {
    let file = dir.join(FETCH);
    let read = store::read::<Fetch>(&file).map_err(io::Error::other)?;
    let fetch = read.ok_or_else(|| io::Error::other(format!("nothing to fetch in {}", dir.display())))?;
    fs::remove_file(file)?;
    // Opened while this process still may.
    let mut written = File::create_new(dir.join(FETCHED))?;
    let outcome = enter(fetch.sandbox, &fetch.staging, &fetch.limits)
        .map_err(|error| format!("cannot confine the download: {error}"))
        .and_then(|()| {
            end_with_agent();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let done = fetch_into(&runtime, &fetch, Path::new("."));
            // A look-up of a name that does not end must not keep the process.
            runtime.shutdown_background();
            done
        });
    let error = outcome.err().map(|reason| reason.chars().take(REASON_CHARS_MAX).collect());
    let bytes = rmp_serde::to_vec_named(&Fetched { error }).map_err(io::Error::other)?;
    written.write_all(&bytes)
}

/// Ends this process and its children when the agent closes the pipe that is this process's standard input.
fn end_with_agent() {
    std::thread::spawn(|| {
        // Nothing is sent.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        if nix::unistd::getpid() == getpgrp() {
            let _ = killpg(getpgrp(), Signal::SIGKILL);
        }
        std::process::exit(1);
    });
}

/// Fetches into a directory: what is delivered is in its directory `out` afterwards. The error is a text for people.
pub(crate) fn fetch_into(
    runtime: &tokio::runtime::Runtime,
    fetch: &Fetch,
    work: &Path,
) -> Result<(), String> {
    let dir = OpenDir::open(work).map_err(|error| format!("cannot open the staging directory: {error}"))?;
    match &fetch.source.kind {
        Kind::Git(git) => {
            let clone = git::clone(git, fetch, work, git::PROTOCOLS);
            runtime.block_on(clone)
        }
        Kind::Http(url) => {
            runtime.block_on(download(fetch, url, &dir))?;
            deliver(fetch, &dir).map_err(|error| error.to_string())
        }
    }
}

/// Downloads into a file, and compares the checksum.
async fn download(fetch: &Fetch, url: &str, dir: &OpenDir) -> Result<(), String> {
    let client = http::Client::new(fetch)?;
    let created = dir.create_new(DOWNLOAD, OWN_FILE_MODE);
    let mut file = created.map_err(|error| format!("cannot make a file: {error}"))?;
    client.download(url, &mut file, fetch.limits.download_bytes).await?;
    let expected = match &fetch.source.checksum {
        None => return Ok(()),
        Some(Checksum::Digest(digest)) => digest.clone(),
        Some(Checksum::File(list)) => {
            let text = client.text(list).await?;
            let found = checksum::find(&text, &fetch.source.file_name);
            found.ok_or("the file of checksums has none for the artifact")?
        }
    };
    let read = open(dir, DOWNLOAD).and_then(|file| checksum::digest(expected.algorithm, file));
    let found = read.map_err(|error| format!("cannot read what was downloaded: {error}"))?;
    if found != expected.digest {
        let (expected, found) = (checksum::hex(&expected.digest), checksum::hex(&found));
        return Err(format!("checksums did not match: expected {expected}, got {found}"));
    }
    Ok(())
}

/// Opens a file of the staging directory for reading.
fn open(dir: &OpenDir, name: &str) -> io::Result<File> {
    let opened = dir.open_beneath(Path::new(name), OFlag::O_RDONLY, Links::Refused);
    opened.map_err(|errno| explained(Path::new(name), errno))
}

/// Puts what was downloaded into the directory `out`: unpacked, or as it is.
fn deliver(fetch: &Fetch, dir: &OpenDir) -> io::Result<()> {
    let out = dir.make(OUT, OWN_DIR_MODE)?;
    let name = &*fetch.source.file_name;
    let Some(format) = fetch.source.format else {
        if fetch.mode == Mode::Dir {
            return Err(io::Error::other("the source is not an archive, and the mode is dir"));
        }
        open(dir, DOWNLOAD)?.set_permissions(Permissions::from_mode(FILE_MODE))?;
        dir.rename(DOWNLOAD, name)?;
        return dir.move_to(name, &out);
    };
    if matches!(format, Format::Compressed(_)) && fetch.mode == Mode::Dir {
        return Err(io::Error::other("the source is a single file, and the mode is dir"));
    }
    let packed = open(dir, DOWNLOAD)?;
    let budget = Budget::new(fetch.limits.unpacked_bytes, fetch.limits.unpacked_files);
    unpack::unpack(format, packed, format::inner_name(name), &mut Sink::new(&out, budget))?;
    dir.remove_file(DOWNLOAD)
}

#[cfg(test)]
mod tests;
