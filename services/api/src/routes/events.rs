//! Route of the event stream (http-api §26).

use model::Index;

use super::Request;
use crate::Api;
use crate::events::{Topics, stream};
use crate::http::{Body, Error, Response};

/// Streams events until the client disconnects.
pub(crate) async fn follow(api: &Api, request: &Request) -> Result<Response, Error> {
    let from = match request.query.text("index") {
        "" => Index::ZERO,
        text => Index(text.parse().map_err(|_| {
            let text = model::text::quoted(text);
            Error::bad_request(format!("Unable to parse index: strconv.Atoi: parsing {text}: invalid syntax"))
        })?),
    };
    let topics = Topics::read(&request.query)?;
    Ok(Response::ok(Body::Events(stream(api, topics, from).await?)))
}
