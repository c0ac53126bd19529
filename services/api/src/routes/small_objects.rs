//! Listing and reading of small objects, for every kind alike. The routes of a kind say which of its parameters count.

use std::borrow::Borrow;
use std::sync::Arc;

use state::{State, Stored, WatchKey};

use super::Request;
use crate::Api;
use crate::filter::FilterError;
use crate::http::{Body, Effort, Error, Page, Query, Response, Watched, ordered, piece};

/// Lists a page of the wanted objects whose name or id begins with `prefix`, by name or id. Names or ids must be unique,
/// because they are the tokens of pages.
pub(super) async fn list<T: Stored>(
    api: &Api,
    query: &Query,
    prefix: &str,
    page: Page<'_>,
    effort: Effort,
    is_wanted: impl Fn(&T) -> Result<bool, FilterError> + Send + 'static,
) -> Result<Response, Error> {
    let (start, reverse) = (prefix.to_owned(), page.reverse);
    let make = move |state: &State, from: Option<&str>, limit: usize| {
        let is_before = |text: &str| from.is_some_and(|from| if reverse { text > from } else { text < from });
        let objects = ordered(state.small_objects::<T>(), reverse)
            .filter(|object| T::search_text(object.key()).starts_with(&*start))
            .skip_while(|object| is_before(&T::search_text(object.key())));
        let wanted = |object: &&Arc<T>| is_wanted(&***object);
        let token = |object: &&Arc<T>| T::search_text(object.key()).into_owned();
        piece(objects, limit, wanted, token, |object| object.shape())
    };
    api.list(query, Watched::prefix(T::TABLE, prefix), page, effort, make).await
}

/// Reads the object that the path names. `missing` is the text of the 404 if there is none.
pub(super) async fn read<T>(api: &Api, request: &Request, missing: &str) -> Result<Response, Error>
where
    T: Stored,
    T::Key: Borrow<str>,
{
    let name = request.id();
    let index = |state: &State| match state.small_object::<T, str>(name) {
        Some(object) => object.modify_index(),
        None => state.table_index(T::TABLE),
    };
    let watched = Watched::new([WatchKey::Prefix(T::TABLE, name.into())], index);
    api.read(&request.query, watched, |snapshot| {
        let object = snapshot.small_object::<T, str>(name).ok_or_else(|| Error::not_found(missing))?;
        Ok(Body::json(&object.shape()).into())
    })
    .await
}
