//! Repositories of Git, by the system's program. It gets an environment of its own and no configuration of the machine, runs
//! no hooks, and may use the protocols of a list only, also in submodules.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::source::Git;
use super::{Fetch, Mode, OUT, http};

/// Where the program, and those that it starts, are found.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The protocols that repositories and their submodules may use.
pub(super) const PROTOCOLS: &str = "http:https:ssh";
/// The most files and directories of a repository, with those of Git itself.
pub(crate) const ENTRIES_MAX: u64 = 262_144;
/// The interval at which the size of a repository is measured while it is fetched.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
/// The messages of the program, and their end that is looked at, in bytes.
const MESSAGES: &str = "messages";
const MESSAGES_BYTES_MAX: u64 = 8 << 10;
/// The file with the private key, and its permissions.
const KEY: &str = "key";
const KEY_MODE: u32 = 0o600;
/// The file by which a repository has submodules.
const SUBMODULES: &str = ".gitmodules";
/// The beginning of a message that says why the program ended.
const FATAL: &str = "fatal: ";

/// Clones a repository into the directory `out` of a directory. The error is a text for people.
pub(super) async fn clone(git: &Git, fetch: &Fetch, work: &Path, protocols: &str) -> Result<(), String> {
    if fetch.mode == Mode::File {
        return Err("the source is a repository, and the mode is file".to_owned());
    }
    let limit = fetch.limits.git_time;
    let late = |_| Err(format!("the download took longer than {} seconds", limit.as_secs()));
    timeout(limit, clone_all(git, fetch, work, protocols)).await.unwrap_or_else(late)
}

async fn clone_all(git: &Git, fetch: &Fetch, work: &Path, protocols: &str) -> Result<(), String> {
    let url: Url = git.url.parse().map_err(|_| "the source is not a URL".to_owned())?;
    if let Some(host) = url.host_str().filter(|host| !host.is_empty()) {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        http::addresses(host, url.port_or_known_default().unwrap_or_default()).await?;
    }
    let work = std::path::absolute(work).map_err(|error| error.to_string())?;
    let program = Program::new(git, fetch, &work, &url, protocols)?;
    let mut clone = vec!["clone".to_owned(), "--quiet".to_owned(), "--no-hardlinks".to_owned()];
    if let Some(depth) = git.depth {
        clone.push(format!("--depth={depth}"));
        clone.extend(git.reference.iter().map(|reference| format!("--branch={reference}")));
    }
    clone.extend(["--".to_owned(), program.url.clone(), OUT.to_owned()]);
    program.run(&clone).await?;
    if let Some(reference) = git.reference.as_ref().filter(|_| git.depth.is_none()) {
        program.run(&in_out(&["checkout", "--quiet", reference, "--"])).await?;
    }
    if fs::symlink_metadata(work.join(OUT).join(SUBMODULES)).is_ok_and(|found| found.is_file()) {
        program
            .run(&in_out(&["submodule", "--quiet", "update", "--init", "--recursive", "--jobs=1"]))
            .await?;
    }
    Ok(())
}

/// The arguments of a command in the cloned repository.
fn in_out(args: &[&str]) -> Vec<String> {
    ["-C", OUT].iter().chain(args).map(|arg| (*arg).to_owned()).collect()
}

/// How the program is started.
struct Program {
    work: PathBuf,
    /// The URL without user and password.
    url: String,
    env: Vec<(String, String)>,
    bytes_max: u64,
}

impl Program {
    fn new(git: &Git, fetch: &Fetch, work: &Path, url: &Url, protocols: &str) -> Result<Self, String> {
        let mut config = vec![
            ("core.hooksPath".to_owned(), "/dev/null".to_owned()),
            ("core.fsmonitor".to_owned(), "false".to_owned()),
            // A redirect would not be checked.
            ("http.followRedirects".to_owned(), "false".to_owned()),
        ];
        if fetch.insecure {
            config.push(("http.sslVerify".to_owned(), "false".to_owned()));
        }
        let mut plain = url.clone();
        if url.scheme() != "ssh" && (!url.username().is_empty() || url.password().is_some()) {
            // In the environment only this user sees them, and they are not kept in the repository.
            let cannot = |()| "the source is not a URL".to_owned();
            plain.set_username("").and_then(|()| plain.set_password(None)).map_err(cannot)?;
            config.push((format!("url.{url}.insteadOf"), plain.to_string()));
        }
        let mut env: Vec<(String, String)> = [
            ("PATH", PATH),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "true"),
            ("GIT_TEMPLATE_DIR", ""),
            ("GIT_LFS_SKIP_SMUDGE", "1"),
            ("GIT_ALLOW_PROTOCOL", protocols),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        env.push(("HOME".to_owned(), work.display().to_string()));
        env.push(("GIT_CONFIG_COUNT".to_owned(), config.len().to_string()));
        for (number, (key, value)) in config.into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{number}"), key));
            env.push((format!("GIT_CONFIG_VALUE_{number}"), value));
        }
        env.push(("GIT_SSH_COMMAND".to_owned(), ssh(git, work)?));
        let bytes_max = fetch.limits.download_bytes;
        Ok(Self { work: work.to_owned(), url: plain.into(), env, bytes_max })
    }

    /// Runs the program, and ends it if the repository becomes too large.
    async fn run(&self, args: &[String]) -> Result<(), String> {
        let messages = self.work.join(MESSAGES);
        let file = File::create(&messages).map_err(|error| format!("cannot make a file: {error}"))?;
        let mut command = Command::new("git");
        command
            .args(args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("cannot run git: {error}"))?;
        let status = loop {
            tokio::select! {
                biased;
                status = child.wait() => break status.map_err(|error| error.to_string())?,
                () = sleep(MEASURE_INTERVAL) => self.check_size()?,
            }
        };
        self.check_size()?;
        if status.success() {
            return Ok(());
        }
        let text = end_of(&messages).unwrap_or_default();
        let reason = text.lines().rfind(|line| line.starts_with(FATAL)).or_else(|| text.lines().next_back());
        Err(format!("git has failed: {}", reason.unwrap_or("it says nothing").trim_start_matches(FATAL)))
    }

    fn check_size(&self) -> Result<(), String> {
        let (bytes, entries) = measure(&self.work.join(OUT));
        if bytes > self.bytes_max {
            return Err(format!("the repository is larger than {} bytes", self.bytes_max));
        }
        if entries > ENTRIES_MAX {
            return Err(format!("the repository has more than {ENTRIES_MAX} files"));
        }
        Ok(())
    }
}

/// The command for SSH. Hosts must be known to the node.
fn ssh(git: &Git, work: &Path) -> Result<String, String> {
    let options =
        "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/dev/null";
    let Some(key) = &git.ssh_key else { return Ok(options.to_owned()) };
    let key = STANDARD.decode(key).map_err(|_| "option sshkey is not Base64".to_owned())?;
    // Relative to the directory that Git runs in is not enough: submodules have other ones.
    let path = work.join(KEY);
    let made = OpenOptions::new().write(true).create_new(true).mode(KEY_MODE).open(&path);
    made.and_then(|mut file| file.write_all(&key))
        .map_err(|error| format!("cannot write the key: {error}"))?;
    let path = path.to_str().filter(|path| !path.contains('\''));
    let path = path.ok_or("the staging directory has no plain name")?;
    Ok(format!("{options} -o IdentitiesOnly=yes -i '{path}'"))
}

/// The end of a text file.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MESSAGES_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(MESSAGES_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes and the entries below a directory. What vanishes meanwhile is left out.
fn measure(dir: &Path) -> (u64, u64) {
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            // What is on disk: a sparse file is not larger than what it holds.
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
            entries = entries.saturating_add(1);
            if metadata.is_dir() {
                open.push(entry.path());
            }
            if entries > ENTRIES_MAX {
                return (bytes, entries);
            }
        }
    }
    (bytes, entries)
}
