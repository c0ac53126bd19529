//! Lists in pieces: a page that a client asks for, or one after the other until all is sent (http-api §6).
//!
//! A list knows how to make a piece from a token on; the token of the next piece is the sort key of its first item. So
//! paging and streaming are the same thing, and a long list is never in memory as a whole.

use std::ops::Bound;

use actix_web::web::Bytes;
use futures::stream;
use model::Index;
use serde::Serialize;
use state::{Snapshot, State};

use super::answer::Pieces;
use super::{Body, Page, Part};

/// The most items that are made at once for an answer without a limit; longer lists are sent in such pieces.
const PIECE_ITEMS_MAX: usize = 256;
/// The most items of a page, whatever a client asks for: a page is made as a whole.
const PAGE_ITEMS_MAX: usize = 10_000;

/// The lowest and the highest key of a range.
pub(crate) type Bounds<K> = (Bound<K>, Bound<K>);

/// Some items of a list, in its order.
pub(crate) struct Piece<T> {
    /// The items.
    pub(crate) items: Vec<T>,
    /// Where the next piece begins; `None` at the end.
    pub(crate) next: Option<String>,
}

impl<T> Piece<T> {
    /// The piece that begins at a token that nothing has.
    pub(crate) fn empty() -> Self {
        Self { items: Vec::new(), next: None }
    }
}

/// The first items of what is sorted already.
pub(crate) fn piece<I, T>(
    mut sorted: impl Iterator<Item = I>,
    limit: usize,
    token: impl Fn(&I) -> String,
    shape: impl Fn(I) -> T,
) -> Piece<T> {
    let items = sorted.by_ref().take(limit).map(shape).collect();
    Piece { items, next: sorted.next().map(|item| token(&item)) }
}

/// The same items, or in the opposite order.
pub(crate) fn ordered<'a, T: 'a>(
    items: impl DoubleEndedIterator<Item = T> + 'a,
    reverse: bool,
) -> Box<dyn Iterator<Item = T> + 'a> {
    if reverse { Box::new(items.rev()) } else { Box::new(items) }
}

/// The keys between two bounds that are still to come when a piece begins at `from`.
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

/// The ids from the first to the last that are still to come when a piece begins at a token; `None` if that is no id.
pub(crate) fn id_bounds<T: Ord + std::str::FromStr>(
    (first, last): (T, T),
    from: Option<&str>,
    reverse: bool,
) -> Option<Bounds<T>> {
    let from = from.map(str::parse).transpose().ok()?;
    Some(remaining((Bound::Included(first), Bound::Included(last)), from, reverse))
}

/// The same of what is sorted by when it was made.
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

/// The token of something sorted by when it was made.
pub(crate) fn creation_token(index: Index, id: impl std::fmt::Display) -> String {
    format!("{index}.{id}")
}

/// Reads such a token; `None` if it is none.
fn read_creation_token<T: std::str::FromStr>(token: &str) -> Option<(Index, T)> {
    let (index, id) = token.split_once('.')?;
    Some((Index(index.parse().ok()?), id.parse().ok()?))
}

/// A list as the body of an answer, with the token of its next page.
///
/// `make` makes at most so many items of a state from a token on. Indentation is only for what is sent as a whole.
pub(crate) fn body<T: Serialize + 'static>(
    snapshot: &Snapshot,
    page: Page<'_>,
    make: impl Fn(&State, Option<&str>, usize) -> Piece<T> + 'static,
) -> Part {
    let limit = page.limit.map_or(PIECE_ITEMS_MAX, |limit| limit.min(PAGE_ITEMS_MAX));
    let first = make(snapshot, page.from, limit);
    match (page.limit, first.next) {
        (None, Some(next)) => {
            let rest = Rest { snapshot: Snapshot::clone(snapshot), next: Some(next), make };
            Body::JsonPieces(pieces(&first.items, rest)).into()
        }
        (_, next_token) => Part { body: Body::json(&first.items), next_token },
    }
}

/// What of a list is still to be sent.
struct Rest<F> {
    snapshot: Snapshot,
    next: Option<String>,
    make: F,
}

fn pieces<T: Serialize, F>(first: &[T], rest: Rest<F>) -> Pieces
where
    F: Fn(&State, Option<&str>, usize) -> Piece<T> + 'static,
{
    let mut begin = vec![b'['];
    write_items(&mut begin, first);
    let begin = stream::iter([Ok(Bytes::from(begin))]);
    let more = stream::unfold(rest, |mut rest| async move {
        let from = rest.next.take()?;
        let piece = (rest.make)(&rest.snapshot, Some(&from), PIECE_ITEMS_MAX);
        let mut text = Vec::new();
        if !piece.items.is_empty() {
            text.push(b',');
        }
        write_items(&mut text, &piece.items);
        if piece.next.is_none() {
            text.push(b']');
        }
        rest.next = piece.next;
        Some((Ok(Bytes::from(text)), rest))
    });
    Box::pin(futures::StreamExt::chain(begin, more))
}

/// Items with commas between them.
fn write_items<T: Serialize>(text: &mut Vec<u8>, items: &[T]) {
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            text.push(b',');
        }
        serde_json::to_writer(&mut *text, item).expect("plain data in memory always has a JSON form");
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    /// The numbers below `count`, whose tokens are themselves.
    fn numbers(count: u64) -> impl Fn(&State, Option<&str>, usize) -> Piece<u64> {
        move |_, from, limit| {
            let from = from.map_or(0, |token| token.parse().unwrap());
            piece(from..count, limit, u64::to_string, |number| number)
        }
    }

    async fn all(limit: Option<usize>, from: Option<&str>, count: u64) -> (Vec<u64>, Option<String>) {
        let page = Page { limit, from, reverse: false };
        let Part { body, next_token: next } = body(&Snapshot::default(), page, numbers(count));
        let text = match body {
            Body::Json(text) => text,
            Body::JsonPieces(pieces) => {
                let pieces = pieces.collect::<Vec<_>>().await;
                pieces.into_iter().flat_map(Result::unwrap).collect()
            }
            Body::Empty | Body::Other { .. } | Body::OtherPieces { .. } => panic!("a list is JSON"),
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
