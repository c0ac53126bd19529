//! Answers requests for the files and logs of allocations. It reads what is on disk and knows no allocation from
//! elsewhere, so that it answers while everything else is busy.

mod inside;
mod listing;
mod output;

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Request, Requests};
use bytes::Bytes;
use model::text::quoted;
use model::{AllocId, Text};
use telemetry::clock;
use tokio::time::sleep;
use wire::files::{FILE_BYTES_MAX, FileChunk, ListFiles, Origin, ReadFile, ReadLogs, StatFile, WAIT_MS_MAX};
use wire::{Refusal, RefusalKind};

use crate::context::Context;
use inside::Inside;

/// How many requests are answered at once; more wait.
const AT_ONCE_MAX: usize = 256;
/// How often it is looked whether there is more of a file that somebody waits for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Answers requests until there are no more.
pub(crate) async fn serve(context: Arc<Context>, requests: Requests) {
    requests.each(AT_ONCE_MAX, |request| answer(Arc::clone(&context), request)).await;
}

async fn answer(context: Arc<Context>, request: Request) {
    if request.is::<ListFiles>() {
        request
            .answer_with(async |ask: ListFiles| {
                blocking(move || listing::list(&open(&context, ask.alloc)?, &ask.path, ask.after.as_ref()))
                    .await
            })
            .await;
    } else if request.is::<StatFile>() {
        request
            .answer_with(async |ask: StatFile| {
                blocking(move || listing::stat(&open(&context, ask.alloc)?, &ask.path)).await
            })
            .await;
    } else if request.is::<ReadFile>() {
        request.answer_with(async |ask: ReadFile| read_when_there(context, ask).await).await;
    } else {
        request.answer_with(async |ask: ReadLogs| output::read_when_there(context, ask).await).await;
    }
}

/// Disks are waited for by threads that may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(not_found(format!("cannot read files: {error}"))),
    }
}

fn open(context: &Context, alloc: AllocId) -> Result<Inside, Refusal> {
    let unknown = |_| not_found(format!("Unknown allocation {}", quoted(&alloc.to_string())));
    Inside::open(&context.dirs(alloc).root).map_err(unknown)
}

async fn read_when_there(context: Arc<Context>, ask: ReadFile) -> Result<FileChunk, Refusal> {
    let deadline = wait_until(ask.wait_ms);
    let mut from = ask.from;
    loop {
        let (context, path) = (Arc::clone(&context), Text::clone(&ask.path));
        let chunk = blocking(move || read(&open(&context, ask.alloc)?, &path, from, ask.bytes_max)).await?;
        if !chunk.data.is_empty() || chunk.size < chunk.offset || clock::monotonic() >= deadline {
            return Ok(chunk);
        }
        // What is at the end now is not what is at the end later.
        from = Origin::Start(chunk.offset);
        sleep(LOOK_EVERY).await;
    }
}

fn wait_until(wait_ms: u32) -> Instant {
    clock::monotonic() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX).into())
}

fn read(inside: &Inside, path: &str, from: Origin, bytes_max: u32) -> Result<FileChunk, Refusal> {
    let mut file = inside.file(path)?;
    let failed = |error: io::Error| broken(path, &error);
    let size = file.metadata().map_err(failed)?.len();
    let offset = match from {
        Origin::Start(offset) => offset,
        Origin::End(before) => size.saturating_sub(before),
    };
    let data = if offset < size { take(&mut file, offset, bytes_max).map_err(failed)? } else { Bytes::new() };
    Ok(FileChunk { offset, data, size })
}

fn take(file: &mut std::fs::File, offset: u64, bytes_max: u32) -> io::Result<Bytes> {
    file.seek(SeekFrom::Start(offset))?;
    let mut data = Vec::new();
    file.take(bytes_max.min(FILE_BYTES_MAX).into()).read_to_end(&mut data)?;
    Ok(data.into())
}

fn not_found(message: impl Into<Text>) -> Refusal {
    Refusal { kind: RefusalKind::NotFound, message: message.into() }
}

fn invalid(message: impl Into<Text>) -> Refusal {
    Refusal { kind: RefusalKind::Invalid, message: message.into() }
}

fn broken(path: &str, error: &io::Error) -> Refusal {
    let message = format!("cannot read {}: {error}", quoted(path));
    if error.kind() == io::ErrorKind::NotFound { not_found(message) } else { invalid(message) }
}

#[cfg(test)]
mod tests;
