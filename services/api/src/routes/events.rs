//! Route of the event stream (http-api §26).

use actix_web::http::StatusCode;
use model::Index;

use super::Request;
use crate::Api;
use crate::events::{Topics, stream};
use crate::http::{Body, Error, Response, integer};

/// Streams events until the client disconnects.
pub(crate) async fn follow(api: &Api, request: &Request) -> Result<Response, Error> {
    let from = match request.query.text("index") {
        "" => 0,
        text => integer(text).map_err(|problem| {
            let text = model::text::quoted(text);
            Error::bad_request(format!("Unable to parse index: strconv.Atoi: parsing {text}: {problem}"))
        })?,
    };
    let topics = Topics::read(&request.query)?;
    let Ok(from) = u64::try_from(from).map(Index) else {
        // The reference refuses a negative index only once the stream has begun, without a text.
        return Ok(Response::ok(Body::text("")).status(StatusCode::BAD_REQUEST).uncached());
    };
    Ok(Response::ok(Body::Events(stream(api, topics, from).await?)))
}
