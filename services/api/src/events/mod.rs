//! The event stream (http-api §26): changed objects, by topic.
//!
//! `recent` keeps the newest change sets, from which all streams read. `topics` parses and matches the topics of a request.
//! `shape` makes the event of a changed object, and `line` writes the events of a change set, piece by piece. So a stream
//! keeps the change set that it is sending, and nothing else. A stream ends with a last word if its client is too slow or if
//! the replica was reloaded; the client then connects again.

mod line;
mod recent;
mod shape;
mod topics;

#[cfg(test)]
mod tests;

use std::time::Duration;

use actix_web::web::Bytes;
use futures::{StreamExt as _, stream};
use model::Index;
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Api;
use crate::http::{BodyStream, Error, Permit, PermitKind};

use self::line::Line;
pub(crate) use self::recent::RecentChanges;
use self::recent::{Lost, Reader};
pub(crate) use self::topics::Topics;

/// Interval of heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// A line without events.
const EMPTY: &[u8] = b"{}\n";

/// A stream of events: from an index on if it is set, as far back as [`RecentChanges`] reaches, otherwise from now on.
///
/// # Errors
/// If there are too many streams.
pub(crate) async fn stream(api: &Api, topics: Topics, from: Index) -> Result<BodyStream, Error> {
    let permit = api.permits.take(PermitKind::EventStream)?;
    let now = api.replica.snapshot().index();
    let reader = api.recent_changes.reader(from, now).await;
    let event_stream = EventStream {
        reader,
        line: None,
        topics,
        next_heartbeat: Instant::now() + HEARTBEAT,
        stop: api.stop.clone(),
        has_ended: false,
        _permit: permit,
    };
    let begin = stream::iter([Ok(Bytes::from_static(EMPTY))]);
    let more = stream::unfold(event_stream, |mut event_stream| async move {
        let piece = event_stream.next().await?;
        Some((Ok(piece), event_stream))
    });
    Ok(Box::pin(begin.chain(more)))
}

struct EventStream {
    reader: Reader,
    /// The line that is being sent.
    line: Option<Line>,
    topics: Topics,
    next_heartbeat: Instant,
    stop: CancellationToken,
    has_ended: bool,
    _permit: Permit,
}

impl EventStream {
    /// The next line or piece of a line; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = &mut self.line {
                // Other requests of the thread run between two pieces.
                tokio::task::yield_now().await;
                match line.next_piece(&self.topics) {
                    Some(piece) if piece.is_empty() => {}
                    Some(piece) => return Some(piece.into()),
                    None => self.line = None,
                }
                continue;
            }
            if self.has_ended {
                return None;
            }
            tokio::select! {
                changed = self.reader.next() => match changed {
                    Ok(changed) => self.line = Some(Line::new(changed)),
                    Err(lost) => {
                        self.has_ended = true;
                        return Some(last_word(lost));
                    }
                },
                () = sleep_until(self.next_heartbeat) => {
                    self.next_heartbeat += HEARTBEAT;
                    return Some(Bytes::from_static(EMPTY));
                }
                () = self.stop.cancelled() => return None,
            }
        }
    }
}

/// The last line of a stream that cannot go on. Clients that do not know it take it for a heartbeat.
fn last_word(lost: Lost) -> Bytes {
    let error = match lost {
        Lost::Behind => {
            "the stream ends: its client was too slow, and the next events are not kept any more; connect again"
        }
        Lost::Reloaded => "the stream ends: this server has loaded its state again; connect again",
    };
    format!("{}\n", json!({ "Error": error })).into()
}
