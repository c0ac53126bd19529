//! Positions in lists: the token of an item, and the part of a list that begins at a token (http-api §6).

use std::cmp::Ordering;
use std::ops::Bound;
use std::str::FromStr;

use model::Index;

/// Number of characters of an id, and the positions of its hyphens.
const ID_CHARS: usize = 36;
const ID_HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Lower and upper bound of a key range.
pub(crate) type Bounds<K> = (Bound<K>, Bound<K>);

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

/// Bounds of the ids from `first` to `last`, from a token on; `None` if no id is left.
pub(crate) fn id_bounds<T: Ord + FromStr>(
    (first, last): (T, T),
    from: Option<&str>,
    reverse: bool,
) -> Option<Bounds<T>> {
    let Some(token) = from else { return Some((Bound::Included(first), Bound::Included(last))) };
    let from = first_id(token, reverse)?;
    let (Bound::Included(id) | Bound::Excluded(id)) = &from else { return None };
    let (is_before, is_beyond) = (*id < first, *id > last);
    let (first, last) = (Bound::Included(first), Bound::Included(last));
    match (reverse, is_before, is_beyond) {
        (false, _, true) | (true, true, _) => None,
        (false, true, false) | (true, false, true) => Some((first, last)),
        (false, false, false) => Some((from, last)),
        (true, false, false) => Some((first, from)),
    }
}

/// Bounds of a list that is sorted by creation, from a token on; `None` if no key is left. A token without an index is
/// compared with the keys as text (http-api §6.1): all of them begin with a digit.
pub(crate) fn creation_bounds<T: FromStr>(from: Option<&str>, reverse: bool) -> Option<Bounds<(Index, T)>> {
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let Some(token) = from else { return Some(everything) };
    let (index, id) = token.split_once('.').unwrap_or((token, ""));
    let Ok(index) = index.parse() else {
        let is_before_all = token.starts_with(|first: char| first < '0');
        return (is_before_all != reverse).then_some(everything);
    };
    let from = first_id(id, reverse)?.map(|id| (Index(index), id));
    Some(if reverse { (Bound::Unbounded, from) } else { (from, Bound::Unbounded) })
}

/// Where a page of ids begins: at the first id that is not before the token, or if `reverse` at the last one that is not
/// after it. The token need not be an id, and is compared as text (http-api §6.1).
fn first_id<T: FromStr>(token: &str, reverse: bool) -> Option<Bound<T>> {
    let mut id = String::with_capacity(ID_CHARS);
    let mut rest = token.chars();
    // How the id compares with the token. If they differ, there is no other id between them.
    let order = loop {
        if id.len() == ID_CHARS {
            break if rest.next().is_none() { Ordering::Equal } else { Ordering::Less };
        }
        let is_hyphen = ID_HYPHENS.contains(&id.len());
        match (is_hyphen, rest.next()) {
            (true, Some('-')) => id.push('-'),
            (false, Some(digit @ ('0'..='9' | 'a'..='f'))) => id.push(digit),
            (true, Some(letter)) if letter > '-' => break fill(&mut id, 'f', Ordering::Less),
            (false, Some(letter)) if letter > 'f' => break fill(&mut id, 'f', Ordering::Less),
            (false, Some(letter)) if letter > '9' => {
                id.push('a');
                break fill(&mut id, '0', Ordering::Greater);
            }
            _ => break fill(&mut id, '0', Ordering::Greater),
        }
    };
    let id = id.parse().ok()?;
    let is_listed = match order {
        Ordering::Equal => true,
        Ordering::Greater => !reverse,
        Ordering::Less => reverse,
    };
    Some(if is_listed { Bound::Included(id) } else { Bound::Excluded(id) })
}

/// Completes an id with one digit. Returns `order`.
fn fill(id: &mut String, digit: char, order: Ordering) -> Ordering {
    while id.len() < ID_CHARS {
        id.push(if ID_HYPHENS.contains(&id.len()) { '-' } else { digit });
    }
    order
}

/// Token of an item in a list that is sorted by creation.
pub(crate) fn creation_token(index: Index, id: impl std::fmt::Display) -> String {
    format!("{index}.{id}")
}

#[cfg(test)]
mod tests {
    use model::AllocId;

    use super::*;

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

    fn id(text: &str) -> AllocId {
        text.parse().unwrap()
    }

    // http-api §6.1
    #[test]
    fn tokens_of_ids_are_compared_as_text() {
        use Bound::{Excluded, Included};
        const WHOLE: &str = "12ab0000-0000-4000-8000-00000000000f";
        for (token, forward, backward) in [
            (WHOLE, Included(id(WHOLE)), Included(id(WHOLE))),
            ("", Included(id(LOWEST)), Excluded(id(LOWEST))),
            (
                "12ab",
                Included(id("12ab0000-0000-0000-0000-000000000000")),
                Excluded(id("12ab0000-0000-0000-0000-000000000000")),
            ),
            (
                "12A",
                Included(id("12a00000-0000-0000-0000-000000000000")),
                Excluded(id("12a00000-0000-0000-0000-000000000000")),
            ),
            ("x", Excluded(id(HIGHEST)), Included(id(HIGHEST))),
            (
                "12x",
                Excluded(id("12ffffff-ffff-ffff-ffff-ffffffffffff")),
                Included(id("12ffffff-ffff-ffff-ffff-ffffffffffff")),
            ),
            ("!", Included(id(LOWEST)), Excluded(id(LOWEST))),
            (
                "12ab000000",
                Excluded(id("12ab0000-ffff-ffff-ffff-ffffffffffff")),
                Included(id("12ab0000-ffff-ffff-ffff-ffffffffffff")),
            ),
            ("12ab0000-0000-4000-8000-00000000000f0", Excluded(id(WHOLE)), Included(id(WHOLE))),
        ] {
            assert_eq!(first_id(token, false), Some(forward), "{token}");
            assert_eq!(first_id(token, true), Some(backward), "{token} in reverse");
        }
    }

    const LOWEST: &str = "00000000-0000-0000-0000-000000000000";
    const HIGHEST: &str = "ffffffff-ffff-ffff-ffff-ffffffffffff";

    // http-api §6.1
    #[test]
    fn a_page_of_ids_stays_in_the_range_of_its_prefix() {
        use Bound::{Excluded, Included};
        let (first, last) =
            (id("22000000-0000-0000-0000-000000000000"), id("22ffffff-ffff-ffff-ffff-ffffffffffff"));
        let bounds = |token, reverse| id_bounds((first, last), token, reverse);
        let all = Some((Included(first), Included(last)));
        assert_eq!((bounds(None, false), bounds(None, true)), (all, all));
        assert_eq!((bounds(Some("1"), false), bounds(Some("1"), true)), (all, None));
        assert_eq!((bounds(Some("x"), false), bounds(Some("x"), true)), (None, all));
        let middle = id("22800000-0000-0000-0000-000000000000");
        assert_eq!(bounds(Some("228"), false), Some((Included(middle), Included(last))));
        assert_eq!(bounds(Some("228"), true), Some((Included(first), Excluded(middle))));
    }

    // http-api §6.1
    #[test]
    fn tokens_of_creation() {
        use Bound::{Excluded, Included, Unbounded};
        let bounds = |token: &str, reverse: bool| creation_bounds::<AllocId>(Some(token), reverse);
        let (whole, lowest) = (format!("12.{HIGHEST}"), (Index(12), id(LOWEST)));
        assert_eq!(bounds(&whole, false), Some((Included((Index(12), id(HIGHEST))), Unbounded)));
        assert_eq!(bounds(&whole, true), Some((Unbounded, Included((Index(12), id(HIGHEST))))));
        assert_eq!(bounds("12", false), Some((Included(lowest), Unbounded)));
        assert_eq!(bounds("12.", true), Some((Unbounded, Excluded(lowest))));
        let all = Some((Unbounded, Unbounded));
        assert_eq!((bounds("nonsense", false), bounds("nonsense", true)), (None, all));
        assert_eq!((bounds("-1", false), bounds("-1", true)), (all, None));
        assert_eq!(creation_bounds::<AllocId>(None, false), all);
        assert_eq!(creation_token(Index(12), 7), "12.7");
    }
}
