//! Answers requests for the files and logs of allocations. It reads only from disk and does not depend on the
//! running allocations, so it answers while the rest of the agent is busy.

mod alloc_root;
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
use alloc_root::AllocRoot;

/// The maximum number of concurrent requests; further ones wait.
const CONCURRENT_MAX: usize = 256;
/// The interval at which a file is checked for new data that a request waits for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Answers requests until the subscription ends.
pub(crate) async fn serve(context: Arc<Context>, requests: Requests) {
    requests.each(CONCURRENT_MAX, |request| answer(Arc::clone(&context), request)).await;
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

/// Runs blocking work on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(not_found(format!("reading files panicked or was cancelled: {error}"))),
    }
}

fn open(context: &Context, alloc: AllocId) -> Result<AllocRoot, Refusal> {
    let unknown = |_| not_found(format!("Unknown allocation {}", quoted(&alloc.to_string())));
    AllocRoot::open(&context.dirs(alloc).root).map_err(unknown)
}

async fn read_when_there(context: Arc<Context>, ask: ReadFile) -> Result<FileChunk, Refusal> {
    let deadline = deadline_after(ask.wait_ms);
    let mut from = ask.from;
    loop {
        let (context, path) = (Arc::clone(&context), Text::clone(&ask.path));
        let chunk = blocking(move || read(&open(&context, ask.alloc)?, &path, from, ask.bytes_max)).await?;
        if !chunk.data.is_empty() || chunk.size < chunk.offset || clock::monotonic() >= deadline {
            return Ok(chunk);
        }
        // The position is fixed now, because the end of the file moves.
        from = Origin::Start(chunk.offset);
        sleep(POLL_INTERVAL).await;
    }
}

fn deadline_after(wait_ms: u32) -> Instant {
    clock::monotonic() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX).into())
}

fn read(alloc_root: &AllocRoot, path: &str, from: Origin, bytes_max: u32) -> Result<FileChunk, Refusal> {
    let mut file = alloc_root.file(path)?;
    let failed = |error: io::Error| io_refusal(path, &error);
    let size = file.metadata().map_err(failed)?.len();
    let offset = match from {
        Origin::Start(offset) => offset,
        Origin::End(before) => size.saturating_sub(before),
    };
    let data =
        if offset < size { read_at(&mut file, offset, bytes_max).map_err(failed)? } else { Bytes::new() };
    Ok(FileChunk { offset, data, size })
}

fn read_at(file: &mut std::fs::File, offset: u64, bytes_max: u32) -> io::Result<Bytes> {
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

fn io_refusal(path: &str, error: &io::Error) -> Refusal {
    let message = format!("cannot read {}: {error}", quoted(path));
    if error.kind() == io::ErrorKind::NotFound { not_found(message) } else { invalid(message) }
}

#[cfg(test)]
mod tests;
