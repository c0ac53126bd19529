//! The event stream (http-api §26).

use model::Index;

use super::Request;
use crate::Api;
use crate::events::{Topics, stream};
use crate::frame::{Answer, Body, Error};

/// Tells what changes, for as long as the client listens.
pub(crate) async fn follow(api: &Api, request: &Request) -> Result<Answer, Error> {
    let from = match request.query.text("index") {
        "" => Index::ZERO,
        text => Index(text.parse().map_err(|_| {
            let text = model::text::quoted(text);
            Error::bad_request(format!("Unable to parse index: strconv.Atoi: parsing {text}: invalid syntax"))
        })?),
    };
    let wanted = Topics::read(&request.query)?;
    Ok(Answer::ok(Body::Events(stream(api, wanted, from).await)))
}
