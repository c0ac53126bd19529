//! Runs the program of a check in its task. Its output is kept to a small limit, and a program that takes too long
//! is ended.

use std::time::Duration;

use model::text::quoted;
use model::{AllocId, Text};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::check::Script;
use super::core::ConsulStatus;
use crate::driver::Running;
use crate::driver::exec_session::{ExecError, ExecRequest, ExecSession};
use crate::driver::running::RunningTasks;

/// How much of a program's output is kept, in bytes.
const OUTPUT_BYTES_MAX: usize = 4_096;
/// How much is read at a time, in bytes.
const READ_BYTES: usize = 1_024;
/// How long output is read after the end of the program: others may hold its end open.
const REST_MAX: Duration = Duration::from_millis(500);

/// What a program has written, as far as it is kept.
#[derive(Default)]
struct Kept {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Kept {
    /// The output and then the error output, within the limit, and a last line that the agent adds.
    fn text(mut self, last: Option<String>) -> Text {
        self.stdout.append(&mut self.stderr);
        self.stdout.truncate(OUTPUT_BYTES_MAX);
        let mut text = String::from_utf8_lossy(&self.stdout).into_owned();
        if let Some(last) = last {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str("nomad: ");
            text.push_str(&last);
        }
        text.into()
    }
}

/// Runs the program once. Its session ends it when the time is over.
pub(super) async fn run(
    tasks: &RunningTasks,
    alloc: AllocId,
    script: &Script,
    limit: Duration,
) -> (ConsulStatus, Text) {
    let mut kept = Kept::default();
    let Some(task) = tasks.get(alloc, &script.task) else {
        let reason = format!("the task {} is not running", quoted(&script.task));
        return (ConsulStatus::Critical, kept.text(Some(reason)));
    };
    match timeout(limit, exit_code(&*task, script, &mut kept)).await {
        Ok(Ok(code)) => (ConsulStatus::of_exit_code(code), kept.text(None)),
        Ok(Err(error)) => (ConsulStatus::Critical, kept.text(Some(error.to_string()))),
        Err(_) => {
            let reason = format!("the program took longer than {limit:?} and was ended");
            (ConsulStatus::Critical, kept.text(Some(reason)))
        }
    }
}

async fn exit_code(task: &dyn Running, script: &Script, kept: &mut Kept) -> Result<i64, ExecError> {
    let request = ExecRequest { command: script.command.clone(), tty: false, size: None };
    let ExecSession { stdin, mut stdout, mut stderr, resize: _resize, mut exit } = task.exec(request).await?;
    drop(stdin);
    let Kept { stdout: kept_stdout, stderr: kept_stderr } = kept;
    let reading = async {
        let errors = async {
            if let Some(stderr) = &mut stderr {
                keep(stderr, kept_stderr).await;
            }
        };
        tokio::join!(keep(&mut stdout, kept_stdout), errors);
    };
    tokio::pin!(reading);
    let (ended, is_read) = tokio::select! {
        ended = &mut exit => (ended, false),
        () = &mut reading => ((&mut exit).await, true),
    };
    if !is_read {
        // Whatever was read is kept.
        let _ = timeout(REST_MAX, reading).await;
    }
    ended.unwrap_or_else(|_| Err(ExecError("its session was lost".to_owned())))
}

/// Reads a stream to its end, and keeps its beginning.
async fn keep(stream: &mut (impl AsyncRead + Unpin), kept: &mut Vec<u8>) {
    let mut buffer = [0; READ_BYTES];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let room = OUTPUT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend(buffer.iter().take(count.min(room)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_to_a_limit() {
        let kept = |stdout: &str, stderr: &str| Kept { stdout: stdout.into(), stderr: stderr.into() };
        assert_eq!(&*kept("a\n", "b").text(None), "a\nb");
        assert_eq!(&*kept("a", "").text(Some("it broke".into())), "a\nnomad: it broke");
        assert_eq!(&*kept("", "").text(Some("it broke".into())), "nomad: it broke");
        let long = "x".repeat(OUTPUT_BYTES_MAX);
        assert_eq!(kept(&long, &long).text(None).len(), OUTPUT_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_stream_is_read_to_its_end_and_its_beginning_is_kept() {
        let long = vec![b'x'; OUTPUT_BYTES_MAX * 3];
        let (mut stream, mut kept) = (long.as_slice(), Vec::new());
        keep(&mut stream, &mut kept).await;
        assert_eq!((kept.len(), stream.len()), (OUTPUT_BYTES_MAX, 0));
    }
}
