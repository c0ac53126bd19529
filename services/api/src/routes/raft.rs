//! Routes about Raft, autopilot and snapshots (http-api §29). Drover has no Raft, because PostgreSQL holds the state. The
//! only peer that clients see is the server that they ask, as in the list of members. It can neither be removed nor give
//! its leadership away. Autopilot and snapshots are not built: what is wrong with a request is reported all the same.

use actix_web::http::{Method, StatusCode};
use api_types::{AutopilotConfiguration, duration};
use model::features::Feature;
use model::text::quoted;
use serde_json::json;

use super::Request;
use crate::Api;
use crate::http::{Body, Error, Response, decode, unsigned};

/// Number of characters of a UUID.
const UUID_CHARS: usize = 36;

fn not_found(kind: &str, name: &str) -> String {
    format!("{kind} {} was not found in the Raft configuration", quoted(name))
}

/// The peers: this server. A wrong method is a 405 without a text.
pub(crate) fn configuration(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.method != Method::GET {
        return Ok(Response::ok(Body::Empty).status(StatusCode::METHOD_NOT_ALLOWED));
    }
    request.query.read_options()?;
    api.check_region(&request.query)?;
    let server = json!({
        "ID": api.process.to_string(),
        "Node": api.member_name(),
        "Address": api.rpc_addr(),
        "Leader": api.has_leader(),
        "Voter": true,
        "RaftProtocol": "3",
    });
    Ok(Response::json(&json!({ "Servers": [server], "Index": 0 })))
}

/// Removing a peer. A wrong method is a 404.
pub(crate) fn peer(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.method != Method::DELETE {
        return Err(Error::not_found("Invalid method"));
    }
    let (id, address) = (request.query.text("id"), request.query.text("address"));
    if !address.is_empty() {
        return Err(Error::bad_request(
            "Removing a peer by address is not supported in the current raft protocol version",
        ));
    }
    if id.is_empty() {
        return Err(Error::bad_request("Must specify the peer's ID to remove"));
    }
    api.check_region(&request.query)?;
    if *id != api.process.to_string() {
        return Err(Error::failed(not_found("id", id)));
    }
    Err(Error::not_built(Feature::RaftCommands.refusal_of("removing the only peer")))
}

/// Transferring the leadership, which only leads to the server that has it.
pub(crate) fn transfer_leadership(api: &Api, request: &Request) -> Result<Response, Error> {
    let ids: Vec<&str> = request.query.all("id").collect();
    let addresses: Vec<&str> = request.query.all("address").collect();
    let (id, address) = (api.process.to_string(), api.rpc_addr());
    match (ids.as_slice(), addresses.as_slice()) {
        ([], []) => return Err(Error::bad_request("must specify id or address")),
        ([""], []) => return Err(Error::bad_request("id must be non-empty")),
        ([], [""]) => return Err(Error::bad_request("address must be non-empty")),
        ([named], []) if named.len() != UUID_CHARS => {
            return Err(Error::bad_request("id must be a uuid: uuid string is wrong length"));
        }
        ([named], []) if **named != id => return Err(Error::bad_request(not_found("id", named))),
        ([], [named]) if **named != address => {
            return Err(Error::bad_request(not_found("address", named)));
        }
        ([_], []) | ([], [_]) => {}
        _ => return Err(Error::bad_request("must specify either id or address")),
    }
    api.check_region(&request.query)?;
    let server = json!({ "Address": address, "ID": id });
    Ok(Response::json(&json!({ "From": server, "To": server, "Noop": true, "Err": null })))
}

/// The settings of autopilot. A wrong method is a 404.
pub(crate) fn autopilot(api: &Api, request: &Request) -> Result<Response, Error> {
    match request.method {
        Method::GET => {
            request.query.read_options()?;
            api.check_region(&request.query)?;
        }
        Method::PUT => {
            let is_conditional = check_autopilot(api, request)?;
            api.check_region(&request.query)?;
            // No settings are stored, so they do not have the index that the request expects.
            if is_conditional {
                return Ok(Response::json(&false));
            }
        }
        _ => return Err(Error::not_found("Invalid method")),
    }
    let what = format!("{} /v1/operator/autopilot/configuration", request.method);
    Err(Error::not_built(Feature::RaftCommands.refusal_of(what)))
}

/// Checks new settings of autopilot. Returns whether the request expects an index.
fn check_autopilot(api: &Api, request: &Request) -> Result<bool, Error> {
    let unreadable = |text: &str| Error::bad_request(format!("Error parsing autopilot config: {text}"));
    let body: AutopilotConfiguration =
        decode(&request.body, &api.limits).map_err(|error| unreadable(&error.text))?;
    for text in [body.server_stabilization_time, body.last_contact_threshold].into_iter().flatten() {
        if !text.is_empty() && duration::parse(&text).is_err() {
            return Err(unreadable(&format!("time: invalid duration {}", quoted(&text))));
        }
    }
    let Some(text) = request.query.get("cas") else { return Ok(false) };
    unsigned(text).map(|_| true).map_err(|problem| {
        let text = quoted(text);
        Error::bad_request(format!("Error parsing cas value: strconv.ParseUint: parsing {text}: {problem}"))
    })
}

/// The health of servers as autopilot sees it. A wrong method is a 404.
pub(crate) fn autopilot_health(api: &Api, request: &Request) -> Result<Response, Error> {
    if request.method != Method::GET {
        return Err(Error::not_found("Invalid method"));
    }
    request.query.read_options()?;
    api.check_region(&request.query)?;
    Err(Error::not_built(Feature::RaftCommands.refusal_of("GET /v1/operator/autopilot/health")))
}

/// Saving and restoring the state.
pub(crate) fn snapshot(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    let what = format!("{} /v1/operator/snapshot", request.method);
    Err(Error::not_built(Feature::Snapshots.refusal_of(what)))
}
