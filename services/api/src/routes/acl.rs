//! Access control (http-api §2.3, §23), as servers answer that have it disabled; there is none yet that could be enabled.

use actix_web::http::StatusCode;
use model::Index;
use serde_json::json;

use super::Request;
use crate::Api;
use crate::http::{Error, Response};

/// Whatever is asked about access control.
pub(crate) fn disabled(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error::bad_request("ACL support disabled"))
}

/// The policies of whoever asks: who has no token, has none.
pub(crate) fn own_policy(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error { status: StatusCode::FORBIDDEN, text: "Permission denied".to_owned() })
}

/// The token that stands for everybody.
pub(crate) async fn own_token(api: &Api, request: &Request) -> Result<Response, Error> {
    let stale = request.query.read_options()?.stale;
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
