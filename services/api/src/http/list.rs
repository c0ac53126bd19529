//! Lists: one page that a client requests, or all items in a stream of pieces (http-api §6).
//!
//! Each list has a function that renders a piece of it, beginning at a token. The token of the next piece is the sort key of
//! its first item. So paging and streaming use the same code, and a long list is never in memory as a whole. Only the first
//! piece of a cheap list is rendered on the serving thread; everything else is rendered in the background.

use std::io;
use std::sync::Arc;

use actix_web::web::Bytes;
use futures::{StreamExt as _, stream};
use serde::Serialize;
use state::{Snapshot, State};

use super::background::{Background, Work};
use super::permits::{Permit, PermitKind, Permits};
pub(crate) use super::positions::{Bounds, creation_bounds, id_bounds};
use super::{Body, BodyStream, Content, Error, Page};
use crate::filter::FilterError;

/// Maximum number of items in one piece of a streamed list.
const PIECE_ITEMS_MAX: usize = 256;
/// Size from which a piece is not extended, in bytes. Its last item may exceed it.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// Maximum number of items that are scanned for one piece.
const SCANNED_MAX: usize = 512;
/// Maximum number of pieces that a background thread renders in one turn. Between turns, other requests get the thread, and
/// a request whose client has left ends.
const TURN_PIECES_MAX: usize = 32;
/// Maximum number of items in a page, whatever the client requests. A page is built in memory as a whole.
const PAGE_ITEMS_MAX: usize = 10_000;
/// Size from which a page is not extended, in bytes. The next page begins there.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// Size up to which an expensive list is rendered before its response begins, in bytes. Until then, an error becomes an
/// error response; after that, it cuts the response off.
const BUFFERED_BYTES_MAX: usize = 1 << 20;

/// Consecutive items of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The items in list order, as JSON that is separated by commas.
    text: Vec<u8>,
    /// Number of items.
    items: usize,
    next: Next,
}

/// Where a list continues after a piece.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The list ends.
    End,
    /// The next piece begins with the item of this token.
    Item(String),
    /// The scan or the piece has become long enough. The scan continues at this token, and may find no further item.
    Continue(String),
}

impl Piece {
    /// An empty piece, for a token that matches no position in the list.
    pub(crate) fn empty() -> Self {
        Self { text: Vec::new(), items: 0, next: Next::End }
    }

    /// Appends the piece that continues this one.
    fn append(&mut self, more: Self) {
        if self.items > 0 && more.items > 0 {
            self.text.push(b',');
        }
        self.text.extend(more.text);
        self.items += more.items;
        self.next = more.next;
    }
}

/// Renders at most the given number of items of a state, beginning at a token.
pub(crate) trait Render:
    Fn(&State, Option<&str>, usize) -> Result<Piece, FilterError> + Send + 'static
{
}

impl<F: Fn(&State, Option<&str>, usize) -> Result<Piece, FilterError> + Send + 'static> Render for F {}

/// How much work a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// A piece takes some milliseconds at most.
    Cheap,
    /// A piece may take longer, because a filter decides, or because the items are large.
    Expensive,
}

impl Effort {
    /// Of a list that may have a filter.
    pub(crate) fn of<T>(filter: Option<&T>) -> Self {
        if filter.is_some() { Self::Expensive } else { Self::Cheap }
    }
}

/// The first `limit` wanted items of a sorted sequence, or fewer if [`SCANNED_MAX`] items were scanned or the piece has
/// become large.
///
/// # Errors
/// Those of `is_wanted`.
pub(crate) fn piece<I, T: Serialize>(
    sorted: impl Iterator<Item = I>,
    limit: usize,
    is_wanted: impl Fn(&I) -> Result<bool, FilterError>,
    token: impl Fn(&I) -> String,
    shape: impl Fn(I) -> T,
) -> Result<Piece, FilterError> {
    let mut piece = Piece::empty();
    for (scanned, item) in sorted.enumerate() {
        if scanned == SCANNED_MAX || piece.text.len() >= PIECE_BYTES_MAX {
            return Ok(Piece { next: Next::Continue(token(&item)), ..piece });
        }
        if !is_wanted(&item)? {
            continue;
        }
        if piece.items == limit {
            return Ok(Piece { next: Next::Item(token(&item)), ..piece });
        }
        if piece.items > 0 {
            piece.text.push(b',');
        }
        serde_json::to_writer(&mut piece.text, &shape(item)).expect("plain data always serializes to JSON");
        piece.items += 1;
    }
    Ok(piece)
}

/// The items, in reverse order if `reverse` is set.
pub(crate) fn ordered<'a, T: 'a>(
    items: impl DoubleEndedIterator<Item = T> + 'a,
    reverse: bool,
) -> Box<dyn Iterator<Item = T> + 'a> {
    if reverse { Box::new(items.rev()) } else { Box::new(items) }
}

/// Makes a list into a response body, with the token of the next page.
///
/// # Errors
/// Those of `render`, or if this server has no threads for the list.
pub(crate) async fn body(
    (background, permits): (&Arc<Background>, &Permits),
    snapshot: Snapshot,
    page: Page<'_>,
    effort: Effort,
    render: impl Render,
) -> Result<Content, Error> {
    let (limit, bytes_max) = match (page.limit, effort) {
        (Some(limit), _) => (limit.min(PAGE_ITEMS_MAX), PAGE_BYTES_MAX),
        (None, Effort::Expensive) => (usize::MAX, BUFFERED_BYTES_MAX),
        (None, Effort::Cheap) => (PIECE_ITEMS_MAX, 0),
    };
    let mut list = List { snapshot, render };
    let is_begun_here = effort == Effort::Cheap && limit <= PIECE_ITEMS_MAX;
    let mut all = if is_begun_here {
        list.piece(page.from, limit)?
    } else {
        let from = page.from.map(str::to_owned);
        let (same, turn) = background.run(Work::List, move || list.turn(from, limit)).await?;
        list = same;
        turn?
    };
    while let Next::Continue(from) = &all.next {
        if all.text.len() >= bytes_max {
            break;
        }
        let (from, left) = (Some(from.clone()), limit - all.items);
        let (same, turn) = background.run_further(Work::List, move || list.turn(from, left)).await?;
        list = same;
        all.append(turn?);
    }
    let Piece { text, items, next } = all;
    let next_token = match next {
        Next::End => None,
        Next::Item(token) | Next::Continue(token) => Some(token),
    };
    match (page.limit, next_token) {
        (None, Some(from)) => {
            let (background, permit) = (Arc::clone(background), permits.take(PermitKind::ListStream)?);
            let rest = Rest { list, from, has_items: items > 0, background, permit };
            Ok(Body::JsonStream(streamed(&text, rest)).into())
        }
        (_, next_token) => {
            let body = Body::Json([&b"["[..], &text[..], &b"]"[..]].concat());
            Ok(Content { body, next_token })
        }
    }
}

/// A list, from one state.
struct List<F> {
    snapshot: Snapshot,
    render: F,
}

impl<F: Render> List<F> {
    fn piece(&self, from: Option<&str>, limit: usize) -> Result<Piece, FilterError> {
        let state: &State = &self.snapshot;
        (self.render)(state, from, limit)
    }

    /// Renders up to `limit` items in one turn of a background thread.
    fn turn(self, from: Option<String>, limit: usize) -> (Self, Result<Piece, FilterError>) {
        let turn = self.pieces(from.as_deref(), limit);
        (self, turn)
    }

    fn pieces(&self, from: Option<&str>, limit: usize) -> Result<Piece, FilterError> {
        let mut all = self.piece(from, limit)?;
        for _ in 1..TURN_PIECES_MAX {
            let Next::Continue(from) = &all.next else { break };
            if all.text.len() >= PIECE_BYTES_MAX {
                break;
            }
            let more = self.piece(Some(from), limit - all.items)?;
            all.append(more);
        }
        Ok(all)
    }
}

/// The part of a list that is not sent yet.
struct Rest<F> {
    list: List<F>,
    from: String,
    /// Whether an item is sent already.
    has_items: bool,
    background: Arc<Background>,
    permit: Permit,
}

/// A list whose first items are rendered already. The others are rendered as the client takes them.
fn streamed<F: Render>(first: &[u8], rest: Rest<F>) -> BodyStream {
    let begin = stream::iter([Ok(Bytes::from([&b"["[..], first].concat()))]);
    let more = stream::unfold(Some(rest), |rest| async move {
        let Rest { list, from, has_items, background, permit } = rest?;
        let turn = background.run_further(Work::List, move || list.turn(Some(from), PIECE_ITEMS_MAX)).await;
        let (list, Piece { text, items, next }) = match turn {
            Ok((list, Ok(piece))) => (list, piece),
            Ok((_, Err(limit))) => return Some((Err(io::Error::other(limit)), None)),
            Err(error) => return Some((Err(io::Error::other(error.text)), None)),
        };
        let mut bytes = Vec::with_capacity(text.len() + 2);
        if has_items && items > 0 {
            bytes.push(b',');
        }
        bytes.extend(text);
        let rest = match next {
            Next::End => {
                bytes.push(b']');
                None
            }
            Next::Item(from) | Next::Continue(from) => {
                Some(Rest { list, from, has_items: has_items || items > 0, background, permit })
            }
        };
        Some((Ok(Bytes::from(bytes)), rest))
    });
    Box::pin(begin.chain(more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::LimitExceeded;

    /// The numbers below `count` that are wanted. The token of a number is the number itself.
    fn numbers(count: u64, is_wanted: impl Fn(u64) -> bool + Copy + Send + 'static) -> impl Render {
        move |_: &State, from: Option<&str>, limit: usize| {
            let from = from.map_or(0, |token| token.parse().unwrap());
            piece(from..count, limit, |number| Ok(is_wanted(*number)), u64::to_string, |number| number)
        }
    }

    async fn content(page: Page<'_>, effort: Effort, render: impl Render) -> Result<Content, Error> {
        let (background, permits) = (Arc::default(), Permits::default());
        body((&background, &permits), Snapshot::default(), page, effort, render).await
    }

    async fn read(content: Content) -> (Vec<u64>, Option<String>) {
        let text = match content.body {
            Body::Json(text) => text,
            Body::JsonStream(pieces) => {
                let pieces = pieces.collect::<Vec<_>>().await;
                pieces.into_iter().flat_map(Result::unwrap).collect()
            }
            Body::Empty
            | Body::Shared(_)
            | Body::Events(_)
            | Body::Unsniffed(_)
            | Body::Socket { .. }
            | Body::Other { .. }
            | Body::OtherStream { .. } => panic!("a list is JSON or a JSON stream"),
        };
        (serde_json::from_slice(&text).unwrap(), content.next_token)
    }

    /// The list by either effort, which must make no difference.
    async fn all(
        limit: Option<usize>,
        from: Option<&str>,
        count: u64,
        is_wanted: impl Fn(u64) -> bool + Copy + Send + 'static,
    ) -> (Vec<u64>, Option<String>) {
        let page = Page { limit, from, reverse: false };
        let cheap = content(page, Effort::Cheap, numbers(count, is_wanted)).await.unwrap();
        let expensive = content(page, Effort::Expensive, numbers(count, is_wanted)).await.unwrap();
        let (cheap, expensive) = (read(cheap).await, read(expensive).await);
        assert_eq!(cheap, expensive);
        cheap
    }

    fn some(token: &str) -> Option<String> {
        Some(token.to_owned())
    }

    #[actix_web::test]
    async fn pages_lead_from_one_to_the_next() {
        assert_eq!(all(Some(2), None, 5, |_| true).await, (vec![0, 1], some("2")));
        assert_eq!(all(Some(2), Some("4"), 5, |_| true).await, (vec![4], None));
        assert_eq!(all(Some(5), None, 5, |_| true).await, ((0..5).collect(), None));
        assert_eq!(all(Some(0), None, 5, |_| true).await, (vec![], some("0")));
        assert_eq!(all(Some(2), Some("9"), 5, |_| true).await, (vec![], None));
        assert_eq!(all(Some(1_000), None, 9_999, |_| true).await, ((0..1_000).collect(), some("1000")));
    }

    #[actix_web::test]
    async fn a_list_without_a_limit_is_whole_however_long() {
        for count in [0, 1, 256, 257, 512, 1_000, 40_000] {
            assert_eq!(all(None, None, count, |_| true).await, ((0..count).collect(), None), "{count}");
        }
    }

    #[actix_web::test]
    async fn few_among_many_are_found() {
        let wanted = |number: u64| number % 1_000 == 999;
        assert_eq!(all(Some(10), None, 4_500, wanted).await, (vec![999, 1_999, 2_999, 3_999], None));
        assert_eq!(all(None, None, 4_500, wanted).await, (vec![999, 1_999, 2_999, 3_999], None));
        assert_eq!(
            all(Some(2), None, 4_500, wanted).await,
            (vec![999, 1_999], some("2999")),
            "the token is that of an item of the next page"
        );
        assert_eq!(all(Some(2), Some("2999"), 4_500, wanted).await, (vec![2_999, 3_999], None));
        assert_eq!(all(Some(0), None, 4_500, wanted).await, (vec![], some("999")));
        assert_eq!(all(None, None, 100_000, |_| false).await, (vec![], None));
    }

    #[actix_web::test]
    async fn large_items_make_short_pieces_and_pages() {
        const ITEM_BYTES: usize = 1 << 20;
        let large = |_: &State, from: Option<&str>, limit: usize| {
            let from = from.map_or(0, |token| token.parse().unwrap());
            piece(from..40_u64, limit, |_| Ok(true), u64::to_string, |_| "x".repeat(ITEM_BYTES))
        };
        let page = Page { limit: Some(40), from: None, reverse: false };
        let content = content(page, Effort::Cheap, large).await.unwrap();
        let Body::Json(text) = content.body else { panic!("a page is in memory as a whole") };
        assert!((PAGE_BYTES_MAX..PAGE_BYTES_MAX + 2 * ITEM_BYTES).contains(&text.len()), "{}", text.len());
        assert_eq!(content.next_token, some("16"));
    }

    #[actix_web::test]
    async fn a_filter_that_exceeds_its_limits_fails_before_anything_is_sent() {
        let exceeded = LimitExceeded::Steps { max: 7 };
        let failing = move |_: &State, from: Option<&str>, limit: usize| {
            let from = from.map_or(0, |token| token.parse().unwrap());
            let wanted = |number: &u64| match *number {
                ..20_000 => Ok(number.is_multiple_of(2)),
                _ => Err(FilterError::from(exceeded)),
            };
            piece(from..100_000_u64, limit, wanted, u64::to_string, |number| number)
        };
        for limit in [None, Some(10_000)] {
            let page = Page { limit, from: None, reverse: false };
            let error = content(page, Effort::Expensive, failing).await.err();
            assert_eq!(error, Some(Error::from(FilterError::from(exceeded))));
        }
    }
}
