//! Answers requests for the files and logs of allocations. It reads only from disk and does not depend on the
//! running allocations, so it answers while the rest of the agent is busy.

mod alloc_root;
mod listing;
mod output;
mod sniff;
mod waiting;

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use bus::{Request, Requests};
use bytes::Bytes;
use model::text::quoted;
use model::{AllocId, Text};
use telemetry::chain;
use tokio::sync::Semaphore;
use wire::files::{FILE_BYTES_MAX, FileChunk, ListFiles, Origin, ReadFile, ReadLogs, StatFile};
use wire::{Refusal, RefusalKind};

use crate::context::Context;
use crate::disk::tree;
use crate::disk::watch::Watcher;
use alloc_root::AllocRoot;
use waiting::{WAITING_MAX, Wait};

/// The maximum number of concurrent reads from disk; further ones wait.
const READING_MAX: usize = 256;

/// State that all requests share.
struct Files {
    context: Arc<Context>,
    /// Notices changes. Without it, changes are noticed a little later.
    watcher: Option<Watcher>,
    reading: Semaphore,
    waiting: Semaphore,
}

/// Answers requests until the subscription ends.
pub(crate) async fn serve(context: Arc<Context>, requests: Requests) {
    let files = Arc::new(Files::new(context));
    let watching = files.watcher.clone();
    let watching = async {
        match &watching {
            Some(watcher) => watcher.run().await,
            None => std::future::pending().await,
        }
    };
    // Requests that wait for new data leave enough room for those that do not.
    tokio::select! {
        () = requests.each(READING_MAX + WAITING_MAX, |request| answer(Arc::clone(&files), request)) => {}
        () = watching => {}
    }
}

async fn answer(files: Arc<Files>, request: Request) {
    if request.is::<ListFiles>() {
        request
            .answer_with(async |ask: ListFiles| {
                files
                    .read(move |context| {
                        let root = open(context, ask.alloc, "open", &ask.path)?;
                        listing::list(&root, &ask.path, ask.after.as_deref())
                    })
                    .await
            })
            .await;
    } else if request.is::<StatFile>() {
        request
            .answer_with(async |ask: StatFile| {
                files
                    .read(move |context| {
                        listing::stat(&open(context, ask.alloc, "stat", &ask.path)?, &ask.path)
                    })
                    .await
            })
            .await;
    } else if request.is::<ReadFile>() {
        request.answer_with(async |ask: ReadFile| read_when_there(&files, ask).await).await;
    } else {
        request.answer_with(async |ask: ReadLogs| output::read_when_there(&files, ask).await).await;
    }
}

impl Files {
    fn new(context: Arc<Context>) -> Self {
        let watcher = Watcher::new();
        if let Err(error) = &watcher {
            tracing::warn!(
                error = chain(error),
                "cannot watch files; who follows one gets its changes later"
            );
        }
        Self {
            context,
            watcher: watcher.ok(),
            reading: Semaphore::new(READING_MAX),
            waiting: Semaphore::new(WAITING_MAX),
        }
    }

    /// Reads from disk on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        // Fails only if the semaphore is closed, which does not happen.
        let _permit = self.reading.acquire().await;
        let context = Arc::clone(&self.context);
        match tokio::task::spawn_blocking(move || work(&context)).await {
            Ok(outcome) => outcome,
            Err(error) => Err(not_found(format!("reading files panicked or was cancelled: {error}"))),
        }
    }
}

/// Opens the directory of an allocation, for an action on a path in it. After the allocation was collected, no path in it
/// exists (http-api §13).
fn open(context: &Context, alloc: AllocId, action: &str, path: &str) -> Result<AllocRoot, Refusal> {
    let root = context.dirs(alloc).root;
    AllocRoot::open(&root).map_err(|error| alloc_root::no_root(&root, action, path, &error))
}

async fn read_when_there(files: &Files, ask: ReadFile) -> Result<FileChunk, Refusal> {
    let mut wait = Wait::begin(files, ask.wait_ms);
    let mut from = ask.from;
    loop {
        let (path, watcher) = (Text::clone(&ask.path), wait.watcher());
        let (chunk, watch) = files
            .read(move |context| {
                let alloc_root = open(context, ask.alloc, "stat", &path)?;
                let file = alloc_root.file(&path)?;
                // From here on, nothing is missed.
                let watch = watcher.and_then(|watcher| watcher.watch(&tree::by_descriptor(&file)).ok());
                Ok((read(file, &path, from, ask.bytes_max)?, watch))
            })
            .await?;
        let has_news = !chunk.data.is_empty() || chunk.size < chunk.offset;
        if has_news || !wait.next([watch, None]).await? {
            return Ok(chunk);
        }
        // The position is fixed now, because the end of the file moves.
        from = Origin::Start(chunk.offset);
    }
}

fn read(mut file: std::fs::File, path: &str, from: Origin, bytes_max: u32) -> Result<FileChunk, Refusal> {
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
