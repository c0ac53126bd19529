//! Lists: one page that a client requests, or all items in a stream of pieces (http-api §6).
//!
//! Each list has a function that makes a piece of it, beginning at a token. The token of the next piece is the sort key of
//! its first item. So paging and streaming use the same code, and a long list is never in memory as a whole. A scan that
//! finds few matching items yields regularly, so that other requests of the same thread proceed.

use std::ops::Bound;

use actix_web::web::Bytes;
use futures::stream;
use model::Index;
use serde::Serialize;
use state::{Snapshot, State};

use super::{Body, BodyStream, Content, Page};

/// Maximum number of items in one piece of a streamed list.
const PIECE_ITEMS_MAX: usize = 256;
/// Maximum number of items that are scanned before the task yields.
pub(crate) const SCANNED_MAX: usize = 512;
/// Maximum number of items in a page, whatever the client requests. A page is built in memory as a whole.
const PAGE_ITEMS_MAX: usize = 10_000;

/// Lower and upper bound of a key range.
pub(crate) type Bounds<K> = (Bound<K>, Bound<K>);

/// Consecutive items of a list.
pub(crate) struct Piece<T> {
    /// Items in list order.
    items: Vec<T>,
    next: Next,
}

/// Where a list continues after a piece.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The list ends.
    End,
    /// The next piece begins with the item of this token.
    Item(String),
    /// The scan limit is reached. The scan continues at this token, and may find no further item.
    Continue(String),
}

impl<T> Piece<T> {
    /// An empty piece, for a token that matches no position in the list.
    pub(crate) fn empty() -> Self {
        Self { items: Vec::new(), next: Next::End }
    }
}

/// The first `limit` included items of a sorted sequence, or fewer if [`SCANNED_MAX`] items were scanned.
pub(crate) fn piece<I, T>(
    sorted: impl Iterator<Item = I>,
    limit: usize,
    is_wanted: impl Fn(&I) -> bool,
    token: impl Fn(&I) -> String,
    shape: impl Fn(I) -> T,
) -> Piece<T> {
    let mut items = Vec::new();
    for (scanned, item) in sorted.enumerate() {
        if scanned == SCANNED_MAX {
            return Piece { items, next: Next::Continue(token(&item)) };
        }
        if !is_wanted(&item) {
            continue;
        }
        if items.len() == limit {
            return Piece { items, next: Next::Item(token(&item)) };
        }
        items.push(shape(item));
    }
    Piece { items, next: Next::End }
}

/// The items, in reverse order if `reverse` is set.
pub(crate) fn ordered<'a, T: 'a>(
    items: impl DoubleEndedIterator<Item = T> + 'a,
    reverse: bool,
) -> Box<dyn Iterator<Item = T> + 'a> {
    if reverse { Box::new(items.rev()) } else { Box::new(items) }
}

/// Narrows key bounds to the part that begins at `from`.
pub(crate) fn remaining<K: Ord>((low, high): Bounds<K>, from: Option<K>, reverse: bool) -> Bounds<K> {
    let Some(from) = from else { return (low, high) };
    if reverse {
        let is_beyond = match &high {
            Bound::Included(high) | Bound::Excluded(high) => from >= *high,
            Bound::Unbounded => false,
        };
        (low, if is_beyond { high } else { Bound::Included(from) })
    } else {
        let is_before = match &low {
            Bound::Included(low) | Bound::Excluded(low) => from <= *low,
            Bound::Unbounded => false,
        };
        (if is_before { low } else { Bound::Included(from) }, high)
    }
}

/// Bounds of an id range from a token on; `None` if the token is not an id.
pub(crate) fn id_bounds<T: Ord + std::str::FromStr>(
    (first, last): (T, T),
    from: Option<&str>,
    reverse: bool,
) -> Option<Bounds<T>> {
    let from = from.map(str::parse).transpose().ok()?;
    Some(remaining((Bound::Included(first), Bound::Included(last)), from, reverse))
}

/// Bounds of a list that is sorted by creation, from a token on; `None` if the token is malformed.
pub(crate) fn creation_bounds<T: Ord + std::str::FromStr>(
    from: Option<&str>,
    reverse: bool,
) -> Option<Bounds<(Index, T)>> {
    let from = match from {
        None => None,
        Some(token) => Some(read_creation_token(token)?),
    };
    Some(remaining((Bound::Unbounded, Bound::Unbounded), from, reverse))
}

/// Token of an item in a list that is sorted by creation.
pub(crate) fn creation_token(index: Index, id: impl std::fmt::Display) -> String {
    format!("{index}.{id}")
}

/// Parses a token of [`creation_token`]; `None` if it is malformed.
fn read_creation_token<T: std::str::FromStr>(token: &str) -> Option<(Index, T)> {
    let (index, id) = token.split_once('.')?;
    Some((Index(index.parse().ok()?), id.parse().ok()?))
}

/// Makes a list into a response body, with the token of the next page.
///
/// `make` returns at most the given number of items of a state, beginning at a token. A streamed list is not indented.
pub(crate) async fn body<T: Serialize + 'static>(
    snapshot: Snapshot,
    page: Page<'_>,
    make: impl Fn(&State, Option<&str>, usize) -> Piece<T> + 'static,
) -> Content {
    let limit = page.limit.map_or(PIECE_ITEMS_MAX, |limit| limit.min(PAGE_ITEMS_MAX));
    let (items, next) = collect_items(&snapshot, page.from, limit, &make).await;
    match (page.limit, next) {
        (None, Some(next)) => {
            let rest = Rest { snapshot, next: Some(next), make };
            Body::JsonStream(pieces(&items, rest)).into()
        }
        (_, next_token) => Content { body: Body::json(&items), next_token },
    }
}

/// Up to `limit` items from a token on, and the token of the next item if there is one.
async fn collect_items<T>(
    state: &State,
    from: Option<&str>,
    limit: usize,
    make: &impl Fn(&State, Option<&str>, usize) -> Piece<T>,
) -> (Vec<T>, Option<String>) {
    let Piece { mut items, mut next } = make(state, from, limit);
    loop {
        match next {
            Next::End => return (items, None),
            Next::Item(token) => return (items, Some(token)),
            Next::Continue(token) => {
                tokio::task::yield_now().await;
                let more = make(state, Some(&token), limit - items.len());
                items.extend(more.items);
                next = more.next;
            }
        }
    }
}

/// The part of a list that is not sent yet.
struct Rest<F> {
    snapshot: Snapshot,
    next: Option<String>,
    make: F,
}

fn pieces<T: Serialize, F>(first: &[T], rest: Rest<F>) -> BodyStream
where
    F: Fn(&State, Option<&str>, usize) -> Piece<T> + 'static,
{
    let mut begin = vec![b'['];
    write_items(&mut begin, first);
    let begin = stream::iter([Ok(Bytes::from(begin))]);
    let more = stream::unfold(rest, |mut rest| async move {
        let from = rest.next.take()?;
        let (items, next) = collect_items(&rest.snapshot, Some(&from), PIECE_ITEMS_MAX, &rest.make).await;
        let mut text = Vec::new();
        if !items.is_empty() {
            text.push(b',');
        }
        write_items(&mut text, &items);
        if next.is_none() {
            text.push(b']');
        }
        rest.next = next;
        Some((Ok(Bytes::from(text)), rest))
    });
    Box::pin(futures::StreamExt::chain(begin, more))
}

/// Writes items as JSON, separated by commas.
fn write_items<T: Serialize>(text: &mut Vec<u8>, items: &[T]) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            text.push(b',');
        }
        serde_json::to_writer(&mut *text, item).expect("plain data always serializes to JSON");
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    /// The numbers below `count`. The token of a number is the number itself.
    fn numbers(count: u64) -> impl Fn(&State, Option<&str>, usize) -> Piece<u64> {
        move |_, from, limit| {
            let from = from.map_or(0, |token| token.parse().unwrap());
            piece(from..count, limit, |_| true, u64::to_string, |number| number)
        }
    }

    async fn all(limit: Option<usize>, from: Option<&str>, count: u64) -> (Vec<u64>, Option<String>) {
        let page = Page { limit, from, reverse: false };
        let Content { body, next_token: next } = body(Snapshot::default(), page, numbers(count)).await;
        let text = match body {
            Body::Json(text) => text,
            Body::JsonStream(pieces) => {
                let pieces = pieces.collect::<Vec<_>>().await;
                pieces.into_iter().flat_map(Result::unwrap).collect()
            }
            Body::Empty
            | Body::Shared(_)
            | Body::Events(_)
            | Body::Other { .. }
            | Body::OtherStream { .. } => panic!("a list is JSON or a JSON stream"),
        };
        (serde_json::from_slice(&text).unwrap(), next)
    }

    #[actix_web::test]
    async fn pages_lead_from_one_to_the_next() {
        let some = |token: &str| Some(token.to_owned());
        assert_eq!(all(Some(2), None, 5).await, (vec![0, 1], some("2")));
        assert_eq!(all(Some(2), Some("4"), 5).await, (vec![4], None));
        assert_eq!(all(Some(5), None, 5).await, ((0..5).collect(), None));
        assert_eq!(all(Some(0), None, 5).await, (vec![], some("0")));
        assert_eq!(all(Some(2), Some("9"), 5).await, (vec![], None));
    }

    #[actix_web::test]
    async fn a_list_without_a_limit_is_whole_however_long() {
        for count in [0, 1, 256, 257, 512, 1_000] {
            assert_eq!(all(None, None, count).await, ((0..count).collect(), None), "{count}");
        }
    }

    #[actix_web::test]
    async fn few_among_many_are_found() {
        let thousands = |state: &State, from: Option<&str>, limit: usize| {
            let from = from.map_or(0, |token| token.parse().unwrap());
            let _ = state;
            piece(from..4_500_u64, limit, |number| number % 1_000 == 999, u64::to_string, |number| number)
        };
        let state = State::default();
        let all = collect_items(&state, None, 10, &thousands).await;
        assert_eq!(all, (vec![999, 1_999, 2_999, 3_999], None));
        let page = collect_items(&state, None, 2, &thousands).await;
        assert_eq!(
            page,
            (vec![999, 1_999], Some("2999".to_owned())),
            "the token is that of an item of the next page"
        );
        assert_eq!(collect_items(&state, Some("2999"), 2, &thousands).await, (vec![2_999, 3_999], None));
        assert_eq!(collect_items(&state, None, 0, &thousands).await, (vec![], Some("999".to_owned())));
    }

    #[test]
    fn a_piece_never_leaves_its_bounds() {
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(remaining((Included(3), Excluded(9)), Some(5), false), (Included(5), Excluded(9)));
        assert_eq!(remaining((Included(3), Excluded(9)), Some(1), false), (Included(3), Excluded(9)));
        assert_eq!(remaining((Included(3), Excluded(9)), Some(5), true), (Included(3), Included(5)));
        assert_eq!(remaining((Included(3), Excluded(9)), Some(9), true), (Included(3), Excluded(9)));
        assert_eq!(remaining((Unbounded, Unbounded), Some(5), true), (Unbounded, Included(5)));
        assert_eq!(remaining((Unbounded, Unbounded), None::<u8>, true), (Unbounded, Unbounded));
    }

    #[test]
    fn tokens_of_creation() {
        assert_eq!(read_creation_token::<u8>("12.7"), Some((Index(12), 7)));
        assert_eq!(read_creation_token::<u8>("nonsense"), None);
        assert_eq!(creation_token(Index(12), 7), "12.7");
    }
}
