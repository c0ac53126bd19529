//! Routes of access control (http-api §2.3, §23). They respond like a server with access control disabled, because access
//! control is not built yet.

use actix_web::http::StatusCode;
use model::Index;
use serde_json::json;

use super::Request;
use crate::Api;
use crate::http::{Error, Response};

/// Response of most routes while access control is disabled.
pub(crate) fn disabled(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error::bad_request("ACL support disabled"))
}

/// The policies of the caller's token. Without a token there are none.
pub(crate) fn own_policy(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error::new(StatusCode::FORBIDDEN, "Permission denied"))
}

/// The anonymous token.
pub(crate) async fn own_token(api: &Api, request: &Request) -> Result<Response, Error> {
    let stale = request.query.read_options()?.stale;
    api.check_region(&request.query)?;
    let index = api.fresh_snapshot(stale).await?.index().max(Index(1));
    let token = json!({
        "AccessorID": "acls-disabled",
        "SecretID": "",
        "Name": "ACLs disabled token",
        "Type": "client",
        "Policies": null,
        "Roles": null,
        "Global": false,
        "Hash": null,
        "CreateTime": "0001-01-01T00:00:00Z",
        "ExpirationTime": null,
        "ExpirationTTL": "",
        "CreateIndex": 0,
        "ModifyIndex": 0,
    });
    Ok(Response::json(&token).with(api.meta(index, stale)))
}
