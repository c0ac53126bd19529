//! The agent's side of the fetcher: starts the process, and ends it when nobody waits for it any more.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, fchown};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::time::timeout;

use super::Places;
use super::plan::Plan;
use crate::artifacts::source::Kind;
use crate::artifacts::{self, Limits, OUT, Sandbox, WORK};
use crate::disk::tree::OpenDir;
use crate::driver::process::ExecutorCommand;

/// Permissions of the directory that agent and fetcher communicate by.
const TALK_MODE: u32 = 0o700;
/// Permissions of the directory that the fetcher writes to, and of its root.
const WORK_MODE: u32 = 0o700;
const ROOT_MODE: u32 = 0o755;
/// How long an archive may take to be unpacked, after the time for the download.
const UNPACK_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// What a fetcher has delivered.
pub(super) struct Delivered {
    /// The directory with it.
    pub(super) out: OpenDir,
}

/// Downloads and unpacks an artifact. A future that is dropped ends the process.
pub(super) async fn fetch(
    command: &ExecutorCommand,
    places: &Places,
    plan: &Plan,
    limits: Limits,
    sandbox: Sandbox,
) -> Result<Delivered, String> {
    let time = match &plan.source.kind {
        Kind::Git(_) => limits.git_time,
        Kind::Http(_) => limits.http_time,
    };
    let staging = prepare(places, plan, limits, sandbox)
        .map_err(|error| format!("cannot prepare the download: {error}"))?;
    run(command, &places.talk, time.saturating_add(UNPACK_TIME_MAX)).await?;
    let outcome = artifacts::outcome(&places.talk).ok_or("the process that downloads has died")?;
    match outcome.error {
        Some(error) => Err(error),
        None => {
            let work = staging.dir(WORK).and_then(|work| work.dir(OUT));
            let out = work.map_err(|error| format!("cannot open what was downloaded: {error}"))?;
            Ok(Delivered { out })
        }
    }
}

/// Makes the directories, and says in one of them what to fetch.
fn prepare(places: &Places, plan: &Plan, limits: Limits, sandbox: Sandbox) -> std::io::Result<OpenDir> {
    let staging = places.make_staging()?;
    // The root of an isolated fetcher, which is another user. The directories above are not open to others.
    nix::sys::stat::fchmod(&staging, nix::sys::stat::Mode::from_bits_truncate(ROOT_MODE))?;
    let work = staging.make(WORK, WORK_MODE)?;
    if let Some((uid, gid)) = sandbox.owner() {
        fchown(&work, Some(uid), Some(gid))?;
    }
    DirBuilder::new().recursive(true).mode(TALK_MODE).create(&places.talk)?;
    let fetch = plan.fetch(limits, places.alloc.join(&places.staging), sandbox);
    artifacts::describe(&places.talk, &fetch)?;
    Ok(staging)
}

/// Runs the process until it ends.
async fn run(command: &ExecutorCommand, dir: &Path, time: Duration) -> Result<(), String> {
    let mut command = command.command(dir);
    // The process ends when the pipe closes, which also happens when the agent is killed.
    command.stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("cannot start the download: {error}"))?;
    let pipe = child.stdin.take();
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
    let ended = timeout(time, child.wait()).await;
    let status = ended.map_err(|_| format!("it took longer than {} seconds", time.as_secs()))?;
    status.map_err(|error| format!("cannot wait for the download: {error}"))?;
    // The process has ended, and its id may be another one's.
    group.0 = None;
    drop(pipe);
    Ok(())
}

/// The processes of a fetcher. Dropping it kills them.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails if all have ended.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
