//! The agent's side of the log collector: starts one for each container whose output goes to log files, and another one if
//! it dies.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use telemetry::chain;
use tokio::time::sleep;

use crate::collector::{self, Collect};
use crate::driver::process::ExecutorCommand;

/// The messages of the collector.
const LOG: &str = "collector.out";
const LOG_MODE: u32 = 0o600;
/// Permissions of the directory that agent and collector share.
const DIR_MODE: u32 = 0o700;
/// The pause before another collector is started in place of one that died.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The pause before a collector that somebody else has started is looked for again.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);

/// Creates the directory of a container's collector.
pub(super) fn describe(dir: &Path, collect: &Collect) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
    collector::describe(dir, collect)
}

/// Keeps a collector at work in a directory until it has collected everything, or the directory is gone.
pub(super) async fn keep(command: ExecutorCommand, dir: PathBuf) {
    while collector::is_described(&dir) {
        if let Some(collected) = collector::collected(&dir) {
            if let Some(error) = collected.error {
                tracing::warn!(dir = %dir.display(), error, "some output of a container was not collected");
            }
            return;
        }
        if collector::is_active(&dir) {
            // An earlier agent has started it.
            sleep(PROBE_INTERVAL).await;
            continue;
        }
        match run(&command, &dir).await {
            Ok(()) if collector::collected(&dir).is_some() => {}
            // Another one was faster.
            Ok(()) => sleep(PROBE_INTERVAL).await,
            Err(error) => {
                tracing::warn!(dir = %dir.display(), error = chain(&error), "a log collector has failed; starting another");
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// Runs a collector until it ends.
async fn run(command: &ExecutorCommand, dir: &Path) -> io::Result<()> {
    let log = File::options().create(true).append(true).mode(LOG_MODE).open(dir.join(LOG))?;
    let status = command.command(dir).stderr(log).spawn()?.wait().await?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended with {status}"))) }
}
