//! The event stream (http-api §26): changed objects, by topic.
//!
//! `topics` parses and matches the topics of a request. `shape` makes events of a change set, but only those that match.
//! `recent` keeps the newest change sets for streams that begin at an earlier index. Each stream follows the replica
//! independently. A stream ends if it is too slow or if its replica was reloaded; the client then connects again.

mod recent;
mod shape;
mod topics;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use actix_web::web::Bytes;
use futures::stream;
use model::Index;
use serde::Serialize;
use state::{FollowEvent, Follower, SingleSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Api;
use crate::http::BodyStream;

pub(crate) use self::recent::RecentChanges;
use self::shape::Event;
pub(crate) use self::topics::Topics;

/// Interval of heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Events of one index.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Events {
    index: Index,
    events: Vec<Event>,
}

/// A stream of events: from an index on if it is set, as far back as [`RecentChanges`] reaches, otherwise from now on.
pub(crate) async fn stream(api: &Api, topics: Topics, from: Index) -> BodyStream {
    let mut follower = api.replica.follow();
    let mut begin = b"{}\n".to_vec();
    if let FollowEvent::Reset(now) = follower.next().await
        && from.is_set()
    {
        for one in api.recent_changes.between(from, now.index()).await {
            begin.extend(line(&one, &topics).unwrap_or_default());
        }
    }
    let next_heartbeat = Instant::now() + HEARTBEAT;
    let event_stream =
        EventStream { follower, pending: VecDeque::new(), topics, next_heartbeat, stop: api.stop.clone() };
    let begin = stream::iter([Ok(Bytes::from(begin))]);
    let more = stream::unfold(event_stream, |mut event_stream| async move {
        let piece = event_stream.next().await?;
        Some((Ok(Bytes::from(piece)), event_stream))
    });
    Box::pin(futures::StreamExt::chain(begin, more))
}

struct EventStream {
    follower: Follower,
    /// Received change sets whose events are not sent yet.
    pending: VecDeque<SingleSet>,
    topics: Topics,
    next_heartbeat: Instant,
    stop: CancellationToken,
}

impl EventStream {
    /// The next line; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            while let Some(one) = self.pending.pop_front() {
                if let Some(line) = line(&one, &self.topics) {
                    return Some(line);
                }
            }
            tokio::select! {
                followed = self.follower.next() => match followed {
                    FollowEvent::Reset(_) => return None,
                    FollowEvent::Step(step) => self.pending.extend(step.one_by_one().iter().cloned()),
                },
                () = sleep_until(self.next_heartbeat) => {
                    self.next_heartbeat += HEARTBEAT;
                    return Some(b"{}\n".to_vec());
                }
                () = self.stop.cancelled() => return None,
            }
        }
    }
}

/// The matching events of a change set as a line of JSON; `None` if there are none.
fn line(one: &SingleSet, topics: &Topics) -> Option<Vec<u8>> {
    let events = shape::events(one, topics);
    if events.is_empty() {
        return None;
    }
    let events = Events { index: one.set.index, events };
    let mut line = serde_json::to_vec(&events).expect("plain data always serializes to JSON");
    line.push(b'\n');
    Some(line)
}
