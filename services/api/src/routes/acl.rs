//! Routes of access control (http-api §2.3, §23). They respond like a server with access control disabled, because access
//! control is not built yet. A wrong method, a body that is missing or cannot be decoded, and one that names another object
//! than the path are reported before that.

use actix_web::http::{Method, StatusCode};
use model::Index;
use serde::Deserialize;
use serde_json::json;

use super::Request;
use crate::Api;
use crate::http::{Error, Response, decode};

/// What most routes answer in the end while access control is disabled. An unknown region comes before that.
fn disabled(api: &Api, request: &Request) -> Result<Response, Error> {
    api.check_region(&request.query)?;
    Err(Error::bad_request("ACL support disabled"))
}

/// The members of a body by which an object is found.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Named {
    name: Option<String>,
    #[serde(rename = "ID")]
    id: Option<String>,
    #[serde(rename = "AccessorID")]
    accessor_id: Option<String>,
}

/// How the object of a route is named: by its path, and once more by the body of a write.
struct Naming {
    /// The text of the error when the path names nothing.
    missing: &'static str,
    /// The text of the error when the body names another object.
    other: &'static str,
    /// The member of the body.
    member: fn(Named) -> Option<String>,
    /// Whether a body that names nothing means the object of the path.
    may_be_absent: bool,
}

fn is_write(method: &Method) -> bool {
    matches!(*method, Method::PUT | Method::POST)
}

/// A list, or an object that is only read.
pub(crate) fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.method != Method::GET {
        return Err(Error::wrong_method());
    }
    request.query.read_options()?;
    disabled(api, request)
}

/// A write with a body that does not name an object of the path.
pub(crate) fn write(api: &Api, request: &Request) -> Result<Response, Error> {
    if !is_write(&request.method) {
        return Err(Error::wrong_method());
    }
    decode::<Named>(&request.body, &api.limits)?;
    disabled(api, request)
}

/// A write that does not look at its body.
pub(crate) fn write_without_body(api: &Api, request: &Request) -> Result<Response, Error> {
    if !is_write(&request.method) {
        return Err(Error::wrong_method());
    }
    disabled(api, request)
}

/// The making of the first token, whose body may be left out.
pub(crate) fn bootstrap(api: &Api, request: &Request) -> Result<Response, Error> {
    if is_write(&request.method) && !request.body.is_empty() {
        let failed =
            |error: Error| Error::bad_request(format!("failed to decode request body: {}", error.text));
        decode::<Named>(&request.body, &api.limits).map_err(failed)?;
    }
    write_without_body(api, request)
}

/// One object: reading, writing and deleting it.
fn object(api: &Api, request: &Request, naming: &Naming) -> Result<Response, Error> {
    if request.id().is_empty() {
        return Err(Error::bad_request(naming.missing));
    }
    match request.method {
        Method::GET => request.query.read_options().map(drop)?,
        Method::DELETE => {}
        Method::PUT | Method::POST => {
            let body: Named = decode(&request.body, &api.limits)?;
            let named = (naming.member)(body).unwrap_or_default();
            let is_same = named == request.id() || (naming.may_be_absent && named.is_empty());
            if !is_same {
                return Err(Error::bad_request(naming.other));
            }
        }
        _ => return Err(Error::wrong_method()),
    }
    disabled(api, request)
}

/// A policy.
pub(crate) fn policy(api: &Api, request: &Request) -> Result<Response, Error> {
    let naming = Naming {
        missing: "Missing Policy Name",
        other: "ACL policy name does not match request path",
        member: |body| body.name,
        may_be_absent: false,
    };
    object(api, request, &naming)
}

/// A token.
pub(crate) fn token(api: &Api, request: &Request) -> Result<Response, Error> {
    let naming = Naming {
        missing: "Missing Token Accessor",
        other: "ACL token accessor does not match request path",
        member: |body| body.accessor_id,
        may_be_absent: false,
    };
    object(api, request, &naming)
}

/// A role.
pub(crate) fn role(api: &Api, request: &Request) -> Result<Response, Error> {
    let naming = Naming {
        missing: "missing ACL role ID",
        other: "ACL role ID does not match request path",
        member: |body| body.id,
        may_be_absent: false,
    };
    object(api, request, &naming)
}

/// A role by its name.
pub(crate) fn role_by_name(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.id().is_empty() {
        return Err(Error::bad_request("missing ACL role name"));
    }
    list(api, request)
}

/// An authentication method.
pub(crate) fn auth_method(api: &Api, request: &Request) -> Result<Response, Error> {
    let naming = Naming {
        missing: "missing ACL auth-method name",
        other: "ACL auth-method name does not match request path",
        member: |body| body.name,
        may_be_absent: false,
    };
    object(api, request, &naming)
}

/// A binding rule. The id of the path counts where the body has none (http-api §23.4).
pub(crate) fn binding_rule(api: &Api, request: &Request) -> Result<Response, Error> {
    let naming = Naming {
        missing: "missing ACL binding rule ID",
        other: "ACL binding rule ID does not match request path",
        member: |body| body.id,
        may_be_absent: true,
    };
    object(api, request, &naming)
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
