//! Cache of response bodies: equal requests get the same body for as long as the state does not change. Ten thousand
//! clients that wait for one job, or a dashboard that requests a long list repeatedly, cost one body.
//!
//! Every body that [`Api::read`](crate::Api) and [`Api::list`](crate::Api) make is a function of the state and of the
//! request. Anything else that a body comes to depend on, such as the caller's identity, must become a part of the key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt as _, stream};
use model::{HistoryId, Index};
use state::State;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::content::SharedBody;
use super::memory::{Memory, Reservation};
use super::{Body, BodyStream, Content};

/// Maximum total size of the cached bodies, their compressed forms and their keys, in bytes.
const BYTES_MAX: usize = 128 << 20;
/// Memory that an entry takes beside its body and its key, in bytes.
const ENTRY_BYTES: usize = 512;
/// Maximum length of a key, in bytes. Clients that look at the same thing send short requests.
const KEY_BYTES_MAX: usize = 4 << 10;
/// Maximum size of a cached body, in bytes. A list of 20,000 allocations takes about 48 MB.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Maximum number of streamed bodies that are collected for the cache at the same time.
const COLLECTED_MAX: usize = 2;

/// Identifies a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct StateVersion {
    history: HistoryId,
    index: Index,
}

/// Key of a body: the state and the requested content.
#[derive(Debug, Clone)]
pub(crate) struct CacheKey {
    version: StateVersion,
    request: String,
}

impl CacheKey {
    pub(crate) fn new(state: &State, request: String) -> Self {
        Self { version: StateVersion { history: state.history(), index: state.index() }, request }
    }
}

/// Bodies made from the newest state.
#[derive(Debug)]
pub(crate) struct ResponseCache {
    newest: Mutex<Newest>,
    permits: Arc<Semaphore>,
    memory: Memory,
}

#[derive(Debug, Default)]
struct Newest {
    version: StateVersion,
    bytes: usize,
    bodies: HashMap<String, Arc<SharedBody>>,
}

impl ResponseCache {
    /// An empty cache, whose bodies take their memory from `memory`.
    pub(crate) fn new(memory: Memory) -> Self {
        Self { newest: Mutex::default(), permits: Arc::new(Semaphore::new(COLLECTED_MAX)), memory }
    }

    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached response, if there is one.
    pub(crate) fn get(&self, key: &CacheKey) -> Option<Content> {
        let newest = self.newest();
        let shared = newest.bodies.get(&key.request).filter(|_| newest.version == key.version);
        shared.map(|shared| Arc::clone(shared).content())
    }

    /// Caches a response and returns it. A body that is too long, of an older state, or of a request that is too long, is
    /// returned without being cached.
    pub(crate) fn insert(self: &Arc<Self>, key: CacheKey, Content { body, next_token }: Content) -> Content {
        if key.request.len() > KEY_BYTES_MAX {
            return Content { body, next_token };
        }
        match body {
            Body::Json(json) if json.len() <= BODY_BYTES_MAX => {
                match SharedBody::new(json, next_token, &self.memory) {
                    Ok(shared) => {
                        self.store(key, &shared);
                        shared.content()
                    }
                    Err((json, next_token)) => Content { body: Body::Json(json), next_token },
                }
            }
            Body::JsonStream(pieces) => {
                let permit = Arc::clone(&self.permits).try_acquire_owned();
                let body = Body::JsonStream(match permit {
                    Ok(permit) => self.cache_when_sent(key, pieces, permit),
                    Err(_) => pieces,
                });
                Content { body, next_token }
            }
            body @ (Body::Json(_)
            | Body::Empty
            | Body::Shared(_)
            | Body::Events(_)
            | Body::Unsniffed(_)
            | Body::Socket { .. }
            | Body::Other { .. }
            | Body::OtherStream { .. }) => Content { body, next_token },
        }
    }

    fn store(&self, CacheKey { version, request }: CacheKey, shared: &Arc<SharedBody>) {
        let mut newest = self.newest();
        if newest.version != version {
            if newest.version.history == version.history && newest.version.index > version.index {
                return;
            }
            *newest = Newest { version, ..Newest::default() };
        }
        let bytes = SharedBody::bytes(shared.json.len()) + request.len() + ENTRY_BYTES;
        if newest.bytes + bytes <= BYTES_MAX && newest.bodies.insert(request, Arc::clone(shared)).is_none() {
            newest.bytes += bytes;
        }
    }

    /// Passes a streamed body through, and caches it once all of it has been sent.
    fn cache_when_sent(
        self: &Arc<Self>,
        key: CacheKey,
        pieces: BodyStream,
        permit: OwnedSemaphorePermit,
    ) -> BodyStream {
        struct PartialBody {
            cache: Arc<ResponseCache>,
            key: CacheKey,
            text: Vec<u8>,
            memory: Reservation,
            _permit: OwnedSemaphorePermit,
        }
        let (text, memory) = (Vec::new(), Reservation::default());
        let partial = PartialBody { cache: Arc::clone(self), key, text, memory, _permit: permit };
        let pieces = stream::unfold((pieces, Some(partial)), |(mut pieces, partial)| async move {
            let Some(piece) = pieces.next().await else {
                if let Some(PartialBody { cache, key, text, memory, .. }) = partial {
                    // The shared body takes the same memory.
                    drop(memory);
                    if let Ok(shared) = SharedBody::new(text, None, &cache.memory) {
                        cache.store(key, &shared);
                    }
                }
                return None;
            };
            let partial = partial.and_then(|mut partial| {
                let bytes = piece.as_ref().ok()?;
                let length = partial.text.len() + bytes.len();
                let memory = &partial.cache.memory;
                let is_kept = length <= BODY_BYTES_MAX && memory.extend(&mut partial.memory, length);
                is_kept.then(|| {
                    partial.text.extend_from_slice(bytes);
                    partial
                })
            });
            Some((piece, (pieces, partial)))
        });
        Box::pin(pieces)
    }
}

#[cfg(test)]
mod tests {
    use actix_web::web::Bytes;

    use super::*;

    fn cache() -> Arc<ResponseCache> {
        Arc::new(ResponseCache::new(Memory::new(4 * BYTES_MAX)))
    }

    fn key(index: u64, request: &str) -> CacheKey {
        let version = StateVersion { index: Index(index), ..StateVersion::default() };
        CacheKey { version, request: request.to_owned() }
    }

    fn json(content: &Content) -> &[u8] {
        match &content.body {
            Body::Shared(shared) => &shared.json,
            Body::Json(json) => json,
            Body::Empty
            | Body::JsonStream(_)
            | Body::Events(_)
            | Body::Unsniffed(_)
            | Body::Socket { .. }
            | Body::Other { .. }
            | Body::OtherStream { .. } => panic!("the body is not in memory"),
        }
    }

    #[test]
    fn the_same_question_of_the_same_state_is_answered_once() {
        let cache = cache();
        assert!(cache.get(&key(7, "/v1/jobs")).is_none());
        let content = Content { body: Body::Json(b"[1]".to_vec()), next_token: Some("next".to_owned()) };
        assert_eq!(json(&cache.insert(key(7, "/v1/jobs"), content)), b"[1]");
        let found = cache.get(&key(7, "/v1/jobs")).unwrap();
        assert_eq!((json(&found), found.next_token.as_deref()), (&b"[1]"[..], Some("next")));
        assert!(cache.get(&key(7, "/v1/nodes")).is_none());
        assert!(cache.get(&key(8, "/v1/jobs")).is_none());
        assert!(cache.get(&key(6, "/v1/jobs")).is_none());
    }

    #[test]
    fn only_the_newest_state_counts() {
        let cache = cache();
        let content = |text: &str| Content::from(Body::Json(text.as_bytes().to_vec()));
        cache.insert(key(7, "a"), content("new"));
        assert_eq!(json(&cache.insert(key(6, "a"), content("old"))), b"old", "it is returned nevertheless");
        assert_eq!(json(&cache.get(&key(7, "a")).unwrap()), b"new");
        cache.insert(key(8, "b"), content("newer"));
        assert!(cache.get(&key(7, "a")).is_none());
        assert!(cache.get(&key(8, "b")).is_some());
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = cache();
        let long = |bytes| Content::from(Body::Json(vec![b' '; bytes]));
        cache.insert(key(1, "too long"), long(BODY_BYTES_MAX + 1));
        assert!(cache.get(&key(1, "too long")).is_none());
        let names: Vec<String> = (0..8).map(|number| number.to_string()).collect();
        names.iter().for_each(|name| drop(cache.insert(key(1, name), long(BODY_BYTES_MAX))));
        let found = names.iter().filter(|name| cache.get(&key(1, name)).is_some()).count();
        assert_eq!(found, 1, "the compressed forms and the keys count, too");
    }

    #[test]
    fn many_short_bodies_count_with_all_that_they_take() {
        let cache = cache();
        for number in 0..1_000 {
            cache.insert(key(1, &format!("{number}")), Content::from(Body::Json(b"[]".to_vec())));
        }
        assert!(cache.newest().bytes >= 1_000 * ENTRY_BYTES);
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        let content = cache.insert(key(1, &long), Content::from(Body::Json(b"[]".to_vec())));
        assert_eq!(json(&content), b"[]");
        assert!(cache.get(&key(1, &long)).is_none(), "a long request is not kept");
    }

    #[test]
    fn without_memory_nothing_is_kept() {
        let cache = Arc::new(ResponseCache::new(Memory::new(1 << 10)));
        let content = cache.insert(key(1, "a"), Content::from(Body::Json(vec![b' '; 1 << 20])));
        assert_eq!(json(&content).len(), 1 << 20);
        assert!(cache.get(&key(1, "a")).is_none());
    }

    #[actix_web::test]
    async fn a_body_in_pieces_is_kept_when_it_has_been_sent() {
        let cache = cache();
        let pieces = |texts: [&'static str; 2]| {
            let pieces = stream::iter(texts).map(|text| Ok(Bytes::from(text)));
            Content::from(Body::JsonStream(Box::pin(pieces)))
        };
        let Body::JsonStream(mut sent) = cache.insert(key(1, "a"), pieces(["[1,", "2]"])).body else {
            panic!("it is still a stream")
        };
        assert_eq!(sent.next().await.unwrap().unwrap(), "[1,");
        assert!(cache.get(&key(1, "a")).is_none(), "the stream has not ended");
        assert_eq!(sent.next().await.unwrap().unwrap(), "2]");
        assert!(sent.next().await.is_none());
        assert_eq!(json(&cache.get(&key(1, "a")).unwrap()), b"[1,2]");
    }
}
