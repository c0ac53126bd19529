//! What all routes share: parameters, bodies, consistency, blocking, pages, headers and errors. Handlers stand on it and
//! stay a few lines each.

mod answer;
mod body;
mod compress;
pub(crate) mod cors;
mod error;
mod ids;
mod kept;
pub(crate) mod list;
mod params;
mod path;
mod read;
mod span;

pub(crate) use answer::{Answer, Body, Meta, Pieces};
pub(crate) use body::{decode, receive};
pub(crate) use compress::{gzip, is_understood};
pub(crate) use error::{Error, NO_LEADER};
pub(crate) use ids::{parse_id, prefix_range};
pub(crate) use kept::{Kept, Made, Question};
pub(crate) use list::{Piece, creation_token, ordered, piece, remaining};
pub(crate) use params::{Namespace, Page, Query, Reading, unescape};
pub(crate) use path::{Cleaned, clean, escape};
pub(crate) use read::{Heads, Part, Shown, Sight, heads};
pub(crate) use span::{Spans, responded};
