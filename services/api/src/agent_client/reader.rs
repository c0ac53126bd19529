//! Streams of a file or of a task's logs, read to the end or followed beyond it.

use std::time::Duration;

use bus::RequestError;
use futures::stream;
use model::Text;
use tokio_util::sync::CancellationToken;
use wire::RefusalKind;
use wire::files::{
    FileChunk, LogChunk, LogCursor, LogPosition, LogStream, Origin, ReadFile, ReadLogs, WAIT_MS_MAX,
};

use super::AllocAgent;
use crate::Api;
use crate::http::{BodyStream, Error, Framing, Permit, PermitKind, StreamItem};

/// Maximum size of one piece, in bytes (http-api §13.1).
const CHUNK_BYTES_MAX: u32 = 64 << 10;
/// Time without data after which a heartbeat frame is sent.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Number of consecutive failed requests to an agent after which the stream fails.
const FAILURES_MAX: u32 = 5;
/// Pause before a failed request is repeated.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What a stream reads, and its position.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file.
    File {
        /// Path.
        path: Text,
        /// Position of the next piece.
        from: Origin,
    },
    /// Output of a task.
    Logs {
        /// Task.
        task: Text,
        /// Output stream of the task.
        stream: LogStream,
        /// Position of the next piece.
        from: LogPosition,
    },
}

/// Reads a [`Source`] piece by piece.
#[derive(Debug)]
pub(crate) struct StreamReader {
    agent: AllocAgent,
    source: Source,
    follow: bool,
    framing: Framing,
    stop: CancellationToken,
    failures: u32,
    has_started: bool,
    is_finished: bool,
    _permit: Permit,
}

impl StreamReader {
    /// Starts a stream. The first piece is read before this returns, so that an error becomes an error response. `None` if
    /// there is nothing to read, and nothing is awaited.
    ///
    /// # Errors
    /// If the agent refuses or does not answer, or there are too many streams.
    pub(crate) async fn start(
        api: &Api,
        agent: AllocAgent,
        source: Source,
        follow: bool,
        framing: Framing,
    ) -> Result<Option<BodyStream>, Error> {
        let mut reader = Self {
            agent,
            source,
            follow,
            framing,
            stop: api.stop.clone(),
            failures: 0,
            has_started: false,
            is_finished: false,
            _permit: api.permits.take(PermitKind::FileStream)?,
        };
        let first = reader.request(Duration::ZERO).await.map_err(|error| reader.agent.agent_error(&error))?;
        let first = reader.accept(first);
        if reader.is_finished {
            return Ok(None);
        }
        let pieces: BodyStream =
            Box::pin(stream::unfold((reader, Some(first)), |(mut reader, first)| async move {
                let mut item = first.map(Ok);
                loop {
                    let next = match item.take() {
                        Some(item) => item,
                        None if reader.is_finished => return None,
                        None => reader.next().await?,
                    };
                    match next {
                        Ok(next) => {
                            if let Some(bytes) = reader.framing.frame(&next) {
                                return Some((Ok(bytes), (reader, None)));
                            }
                        }
                        Err(error) => {
                            reader.is_finished = true;
                            return Some((Err(error), (reader, None)));
                        }
                    }
                }
            }));
        Ok(Some(pieces))
    }

    /// The next item; `None` at the end of the stream.
    async fn next(&mut self) -> Option<std::io::Result<StreamItem>> {
        let wait = match (self.follow, self.framing) {
            (false, _) => Duration::ZERO,
            (true, Framing::Frames) => HEARTBEAT,
            (true, Framing::Plain) => Duration::from_millis(WAIT_MS_MAX.into()),
        };
        let stop = self.stop.clone();
        loop {
            let response = tokio::select! {
                response = self.request(wait) => response,
                () = stop.cancelled() => return None,
            };
            let error = match response {
                Ok(chunk) => {
                    self.failures = 0;
                    return Some(Ok(self.accept(chunk))).filter(|_| !self.is_finished);
                }
                Err(error) => error,
            };
            match error {
                RequestError::Refused(refusal) if refusal.kind == RefusalKind::NotFound => {
                    self.is_finished = true;
                    // The file was deleted, or the allocation and its files are gone.
                    return match &self.source {
                        Source::File { path, .. } => {
                            Some(Ok(StreamItem::Event { file: path.clone(), event: "file deleted" }))
                        }
                        Source::Logs { .. } => None,
                    };
                }
                RequestError::NoResponders | RequestError::TimedOut | RequestError::Disconnected
                    if self.failures < FAILURES_MAX =>
                {
                    self.failures += 1;
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                error @ (RequestError::Refused(_)
                | RequestError::NoResponders
                | RequestError::TimedOut
                | RequestError::Disconnected
                | RequestError::Unreadable(_)
                | RequestError::TooLarge { .. }) => return Some(Err(std::io::Error::other(error))),
            }
        }
    }

    async fn request(&self, wait: Duration) -> Result<Chunk, RequestError> {
        let alloc = self.agent.alloc();
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(WAIT_MS_MAX);
        match &self.source {
            Source::File { path, from } => {
                let message =
                    ReadFile { alloc, path: path.clone(), from: *from, bytes_max: CHUNK_BYTES_MAX, wait_ms };
                self.agent.request_waiting(&message, wait).await.map(Chunk::File)
            }
            Source::Logs { task, stream, from } => {
                let (task, stream, from) = (task.clone(), *stream, *from);
                let message = ReadLogs { alloc, task, stream, from, bytes_max: CHUNK_BYTES_MAX, wait_ms };
                self.agent.request_waiting(&message, wait).await.map(Chunk::Log)
            }
        }
    }

    /// Advances past a response. The stream is finished if the response was empty and no more is awaited.
    fn accept(&mut self, chunk: Chunk) -> StreamItem {
        let may_be_truncated = self.follow && self.has_started;
        self.has_started = true;
        let awaits_more = self.follow && !chunk.is_of_ended_task();
        let item = self.source.advance(chunk, may_be_truncated);
        if item == StreamItem::Nothing && !awaits_more {
            self.is_finished = true;
        }
        item
    }
}

/// Response of an agent.
#[derive(Debug)]
enum Chunk {
    File(FileChunk),
    Log(LogChunk),
}

impl Chunk {
    /// Whether it is output of a task that had ended, so that nothing follows an empty response.
    fn is_of_ended_task(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Log(chunk) => chunk.ended,
        }
    }
}

impl Source {
    /// Moves the position past the data. Only a followed file can have become shorter than the position.
    fn advance(&mut self, chunk: Chunk, may_be_truncated: bool) -> StreamItem {
        match (self, chunk) {
            (Self::File { path, from }, Chunk::File(FileChunk { offset, data, size })) => {
                if size < offset && may_be_truncated {
                    *from = Origin::Start(0);
                    return StreamItem::Event { file: path.clone(), event: "file truncated" };
                }
                let end = offset.saturating_add(data.len() as u64);
                *from = Origin::Start(end);
                if data.is_empty() {
                    return StreamItem::Nothing;
                }
                StreamItem::Data { file: path.clone(), end, data }
            }
            (Self::Logs { from, .. }, Chunk::Log(LogChunk { path, data, next, ended: _ })) => {
                *from = LogPosition::Cursor(next);
                let LogCursor { offset: end, .. } = next;
                if data.is_empty() {
                    return StreamItem::Nothing;
                }
                StreamItem::Data { file: path, end, data }
            }
            (Self::File { .. }, Chunk::Log(_)) | (Self::Logs { .. }, Chunk::File(_)) => {
                unreachable!("each request type has its own response type")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::web::Bytes;

    use super::*;

    fn chunk(offset: u64, data: &'static [u8], size: u64) -> Chunk {
        Chunk::File(FileChunk { offset, data: Bytes::from_static(data), size })
    }

    #[test]
    fn reading_goes_on_behind_what_came() {
        let mut source = Source::File { path: "x".into(), from: Origin::End(3) };
        let data = |end, data: &'static [u8]| StreamItem::Data {
            file: "x".into(),
            end,
            data: Bytes::from_static(data),
        };
        assert_eq!(source.advance(chunk(7, b"hij", 10), false), data(10, b"hij"));
        assert_eq!(source.advance(chunk(10, b"", 10), true), StreamItem::Nothing);
        let Source::File { from, .. } = &source else { unreachable!() };
        assert_eq!(*from, Origin::Start(10));
        assert_eq!(
            source.advance(chunk(10, b"", 2), true),
            StreamItem::Event { file: "x".into(), event: "file truncated" }
        );
        let Source::File { from, .. } = &source else { unreachable!() };
        assert_eq!(*from, Origin::Start(0), "the new content is read from the start");
    }

    #[test]
    fn beyond_the_end_there_is_nothing() {
        let mut source = Source::File { path: "x".into(), from: Origin::Start(100) };
        assert_eq!(source.advance(chunk(100, b"", 16), false), StreamItem::Nothing);
    }

    #[test]
    fn logs_go_on_at_the_cursor() {
        let from = LogPosition::Origin(Origin::Start(0));
        let mut source = Source::Logs { task: "t".into(), stream: LogStream::Stdout, from };
        let next = LogCursor { file: 1, offset: 2 };
        let data = Bytes::from_static(b"hi");
        let chunk = LogChunk { path: "alloc/logs/t.stdout.1".into(), data, next, ended: false };
        let item = source.advance(Chunk::Log(chunk), true);
        assert_eq!(
            item,
            StreamItem::Data {
                file: "alloc/logs/t.stdout.1".into(),
                end: 2,
                data: Bytes::from_static(b"hi")
            }
        );
        let Source::Logs { from, .. } = source else { unreachable!() };
        assert_eq!(from, LogPosition::Cursor(next));
    }
}
