//! Routes of the public keys that verify the cluster's signatures (http-api §29, §31).

use actix_web::http::StatusCode;
use model::features::Feature;
use model::keyring::{ALGORITHM, RootKey};
use model::text::quoted;
use serde::Serialize;
use state::{Table, WatchKey};

use super::{Request, small_objects};
use crate::Api;
use crate::http::{Body, Effort, Error, Response, Watched, integer};

/// Algorithms that clients are told to expect (http-api §31). Only the first is used now.
const VERIFIABLE: [&str; 2] = [ALGORITHM, "EdDSA"];
const JWKS: &str = "/.well-known/jwks.json";

/// Keys as JSON Web Keys (RFC 7517).
#[derive(Debug, Serialize)]
struct KeySet<'a> {
    keys: Vec<WebKey<'a>>,
}

#[derive(Debug, Serialize)]
struct WebKey<'a> {
    #[serde(rename = "use")]
    used_for: &'static str,
    kty: &'static str,
    kid: String,
    alg: &'static str,
    n: &'a str,
    e: &'a str,
}

/// OpenID Connect Discovery document. Members are in the order of their names, as clients see them.
#[derive(Debug, Serialize)]
struct Discovery {
    id_token_signing_alg_values_supported: [&'static str; 2],
    issuer: String,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
}

/// The public keys of all signing keys. A new cluster gets its first key after its first plan applier has become active;
/// until then the answer waits. An empty set would tell a client that nothing can be verified, and the client may keep it.
pub(crate) async fn web_keys(api: &Api, request: &Request) -> Result<Response, Error> {
    request.query.read_options()?;
    api.check_region(&request.query)?;
    let mut watch = api.replica.watch([WatchKey::Table(Table::RootKeys)]);
    let first_key = async {
        while api.replica.snapshot().root_keys().next().is_none() {
            watch.changed().await;
        }
    };
    let waited = tokio::time::timeout(api.limits.leader_timeout, first_key).await;
    waited.map_err(|_| Error::unavailable("the cluster has no signing key yet"))?;
    api.read(&request.query, Watched::table(Table::RootKeys), |snapshot| {
        Ok(Body::json(&KeySet { keys: snapshot.root_keys().map(|key| web_key(key)).collect() }).into())
    })
    .await
}

/// OpenID Connect Discovery, which leads clients to the keys.
pub(crate) fn discovery(api: &Api, request: &Request) -> Result<Response, Error> {
    api.check_region(&request.query)?;
    let Some(issuer) = api.args.oidc_issuer.as_deref().filter(|issuer| !issuer.is_empty()) else {
        return Err(Error::not_found("OIDC Discovery endpoint disabled"));
    };
    Ok(Response::json(&Discovery {
        issuer: issuer.to_owned(),
        jwks_uri: format!("{}{JWKS}", issuer.trim_end_matches('/')),
        response_types_supported: ["code"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: VERIFIABLE,
    }))
}

/// Lists keys by id.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    small_objects::list(api, &request.query, "", request.query.page()?, Effort::Cheap, |_: &RootKey| Ok(true))
        .await
}

/// Deletes a key that is not used for signing. There is none: keys are not rotated yet, so all are used.
pub(crate) async fn delete(api: &Api, request: &Request) -> Result<Response, Error> {
    let force = request.query.flag("force", false);
    force.map_err(|_| Error::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid force parameter"))?;
    if request.id().is_empty() {
        return Err(Error::failed("root key ID is required"));
    }
    api.check_region(&request.query)?;
    let state = api.fresh_snapshot(false).await?;
    let is_key = state.root_keys().any(|key| key.id.to_string() == request.id());
    Err(Error::failed(match is_key {
        true => "active root key cannot be deleted - call rotate first",
        false => "root key not found",
    }))
}

/// Checks a request to make a new key the active one, which is not built yet.
pub(crate) fn rotate(api: &Api, request: &Request) -> Result<Response, Error> {
    let publish_time = request.query.text("publish_time");
    if !publish_time.is_empty() {
        integer(publish_time).map_err(|problem| {
            let text = quoted(publish_time);
            Error::failed(format!("invalid publish_time: strconv.ParseInt: parsing {text}: {problem}"))
        })?;
        if request.query.get("full").is_some() {
            return Err(Error::failed("keyring cannot be prepublished and full rotated at the same time"));
        }
    }
    api.check_region(&request.query)?;
    Err(Error::not_built(Feature::KeyRotation.refusal_of("PUT /v1/operator/keyring/rotate")))
}

fn web_key(key: &RootKey) -> WebKey<'_> {
    WebKey {
        used_for: "sig",
        kty: "RSA",
        kid: key.id.to_string(),
        alg: ALGORITHM,
        n: &key.modulus,
        e: &key.exponent,
    }
}
