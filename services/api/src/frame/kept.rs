//! Answers that many ask for at once are made once: the same question has the same answer for as long as the state has not
//! moved. Ten thousand who wait for one job, or a dashboard that asks for a long list again and again, cost one answer.
//!
//! Every body that [`Api::read`](crate::Api) and [`Api::list`](crate::Api) make is a function of the state and of what
//! the client asked for. Whatever else it may depend on one day, such as who asks, belongs into the question.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use actix_web::web::Bytes;
use futures::{StreamExt as _, stream};
use model::{HistoryId, Index};
use state::State;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::Pieces;
use super::{Body, Part, gzip};

/// The most bytes of bodies that are kept.
const BYTES_MAX: usize = 128 << 20;
/// The longest body that is kept, in bytes: a list of 20,000 allocations takes some 48 MB.
const BODY_BYTES_MAX: usize = 64 << 20;
/// The longest body that is compressed at once, in bytes, which takes some milliseconds.
const COMPRESSED_INLINE_BYTES_MAX: usize = 1 << 20;
/// How many bodies are gathered at once while they are sent in pieces.
const GATHERED_MAX: usize = 2;

/// A body in JSON that several answers share.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) json: Bytes,
    next_token: Option<String>,
    gzipped: OnceLock<Option<Bytes>>,
    /// Whether that is done beside.
    is_compressing: AtomicBool,
}

impl Made {
    fn new(json: impl Into<Bytes>, next_token: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            json: json.into(),
            next_token,
            gzipped: OnceLock::new(),
            is_compressing: AtomicBool::new(false),
        })
    }

    /// The body compressed, which is done once; `None` if it is not worth it. A long one is compressed beside, and until
    /// that is done it goes out as it is: nobody waits for it, least of all others that are served by the same thread.
    pub(crate) fn gzipped(self: &Arc<Self>) -> Option<Bytes> {
        if self.json.len() <= COMPRESSED_INLINE_BYTES_MAX {
            return self.compress();
        }
        if !self.is_compressing.swap(true, Ordering::Relaxed) {
            let made = Arc::clone(self);
            tokio::task::spawn_blocking(move || made.compress());
        }
        self.gzipped.get().cloned().flatten()
    }

    fn compress(&self) -> Option<Bytes> {
        self.gzipped.get_or_init(|| gzip(&self.json).map(Bytes::from)).clone()
    }

    fn part(self: Arc<Self>) -> Part {
        Part { next_token: self.next_token.clone(), body: Body::Shared(self) }
    }
}

/// A state, as far as answers are concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct At {
    history: HistoryId,
    index: Index,
}

/// What was asked, and of which state.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    at: At,
    asked: String,
}

impl Question {
    pub(crate) fn new(state: &State, asked: String) -> Self {
        Self { at: At { history: state.history(), index: state.index() }, asked }
    }
}

/// Answers to what was asked of the newest state.
#[derive(Debug)]
pub(crate) struct Kept {
    newest: Mutex<Newest>,
    gathering: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Newest {
    at: At,
    bytes: usize,
    bodies: HashMap<String, Arc<Made>>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { newest: Mutex::default(), gathering: Arc::new(Semaphore::new(GATHERED_MAX)) }
    }
}

impl Kept {
    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer, if it has been made.
    pub(crate) fn find(&self, question: &Question) -> Option<Part> {
        let newest = self.newest();
        let made = newest.bodies.get(&question.asked).filter(|_| newest.at == question.at);
        made.map(|made| Arc::clone(made).part())
    }

    /// Keeps an answer for those who ask the same, unless it is too long or of a state that is past. Returns it.
    pub(crate) fn keep(self: &Arc<Self>, question: Question, Part { body, next_token }: Part) -> Part {
        match body {
            Body::Json(json) if json.len() <= BODY_BYTES_MAX => {
                let made = Made::new(json, next_token);
                self.put(question, &made);
                made.part()
            }
            Body::JsonPieces(pieces) => {
                let gathering = Arc::clone(&self.gathering).try_acquire_owned();
                let body = Body::JsonPieces(match gathering {
                    Ok(permit) => self.gather(question, pieces, permit),
                    Err(_) => pieces,
                });
                Part { body, next_token }
            }
            body @ (Body::Json(_)
            | Body::Empty
            | Body::Shared(_)
            | Body::Events(_)
            | Body::Other { .. }
            | Body::OtherPieces { .. }) => Part { body, next_token },
        }
    }

    fn put(&self, Question { at, asked }: Question, made: &Arc<Made>) {
        let mut newest = self.newest();
        if newest.at != at {
            if newest.at.history == at.history && newest.at.index > at.index {
                return;
            }
            *newest = Newest { at, ..Newest::default() };
        }
        let bytes = made.json.len() + asked.len();
        if newest.bytes + bytes <= BYTES_MAX && newest.bodies.insert(asked, Arc::clone(made)).is_none() {
            newest.bytes += bytes;
        }
    }

    /// Keeps a body once all of its pieces have been sent.
    fn gather(self: &Arc<Self>, question: Question, pieces: Pieces, permit: OwnedSemaphorePermit) -> Pieces {
        struct Gathering {
            kept: Arc<Kept>,
            question: Question,
            text: Vec<u8>,
            _permit: OwnedSemaphorePermit,
        }
        let gathering = Gathering { kept: Arc::clone(self), question, text: Vec::new(), _permit: permit };
        let pieces = stream::unfold((pieces, Some(gathering)), |(mut pieces, gathering)| async move {
            let Some(piece) = pieces.next().await else {
                if let Some(Gathering { kept, question, text, .. }) = gathering {
                    kept.put(question, &Made::new(text, None));
                }
                return None;
            };
            let gathering = gathering.and_then(|mut gathering| {
                let bytes = piece.as_ref().ok()?;
                gathering.text.extend_from_slice(bytes);
                (gathering.text.len() <= BODY_BYTES_MAX).then_some(gathering)
            });
            Some((piece, (pieces, gathering)))
        });
        Box::pin(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(index: u64, asked: &str) -> Question {
        let at = At { index: Index(index), ..At::default() };
        Question { at, asked: asked.to_owned() }
    }

    fn json(part: &Part) -> &[u8] {
        match &part.body {
            Body::Shared(made) => &made.json,
            Body::Json(json) => json,
            Body::Empty
            | Body::JsonPieces(_)
            | Body::Events(_)
            | Body::Other { .. }
            | Body::OtherPieces { .. } => panic!("it is in memory"),
        }
    }

    #[test]
    fn the_same_question_of_the_same_state_is_answered_once() {
        let kept = Arc::<Kept>::default();
        assert!(kept.find(&question(7, "/v1/jobs")).is_none());
        let part = Part { body: Body::Json(b"[1]".to_vec()), next_token: Some("next".to_owned()) };
        assert_eq!(json(&kept.keep(question(7, "/v1/jobs"), part)), b"[1]");
        let found = kept.find(&question(7, "/v1/jobs")).unwrap();
        assert_eq!((json(&found), found.next_token.as_deref()), (&b"[1]"[..], Some("next")));
        assert!(kept.find(&question(7, "/v1/nodes")).is_none());
        assert!(kept.find(&question(8, "/v1/jobs")).is_none());
        assert!(kept.find(&question(6, "/v1/jobs")).is_none());
    }

    #[test]
    fn only_the_newest_state_counts() {
        let kept = Arc::<Kept>::default();
        let part = |text: &str| Part::from(Body::Json(text.as_bytes().to_vec()));
        kept.keep(question(7, "a"), part("new"));
        assert_eq!(json(&kept.keep(question(6, "a"), part("old"))), b"old", "it is answered all the same");
        assert_eq!(json(&kept.find(&question(7, "a")).unwrap()), b"new");
        kept.keep(question(8, "b"), part("newer"));
        assert!(kept.find(&question(7, "a")).is_none());
        assert!(kept.find(&question(8, "b")).is_some());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let kept = Arc::<Kept>::default();
        let long = |bytes| Part::from(Body::Json(vec![b' '; bytes]));
        kept.keep(question(1, "too long"), long(BODY_BYTES_MAX + 1));
        assert!(kept.find(&question(1, "too long")).is_none());
        let names: Vec<String> = (0..8).map(|number| number.to_string()).collect();
        names.iter().for_each(|name| drop(kept.keep(question(1, name), long(BODY_BYTES_MAX))));
        let found = names.iter().filter(|name| kept.find(&question(1, name)).is_some()).count();
        assert_eq!(found, BYTES_MAX / BODY_BYTES_MAX - 1, "their names count, too");
    }

    #[actix_web::test]
    async fn a_long_body_is_compressed_beside() {
        let made = Made::new(vec![b' '; COMPRESSED_INLINE_BYTES_MAX + 1], None);
        assert_eq!(made.gzipped(), None, "it goes out as it is meanwhile");
        while made.gzipped().is_none() {
            tokio::task::yield_now().await;
        }
        assert!(made.gzipped().is_some_and(|smaller| smaller.len() < COMPRESSED_INLINE_BYTES_MAX / 100));
        let short = Made::new(vec![b' '; COMPRESSED_INLINE_BYTES_MAX], None);
        assert!(short.gzipped().is_some());
    }

    #[actix_web::test]
    async fn a_body_in_pieces_is_kept_when_it_has_been_sent() {
        let kept = Arc::<Kept>::default();
        let pieces = |texts: [&'static str; 2]| {
            let pieces = stream::iter(texts).map(|text| Ok(Bytes::from(text)));
            Part::from(Body::JsonPieces(Box::pin(pieces)))
        };
        let Body::JsonPieces(mut sent) = kept.keep(question(1, "a"), pieces(["[1,", "2]"])).body else {
            panic!("it is still sent in pieces")
        };
        assert_eq!(sent.next().await.unwrap().unwrap(), "[1,");
        assert!(kept.find(&question(1, "a")).is_none(), "not all of it is there");
        assert_eq!(sent.next().await.unwrap().unwrap(), "2]");
        assert!(sent.next().await.is_none());
        assert_eq!(json(&kept.find(&question(1, "a")).unwrap()), b"[1,2]");
    }
}
