//! Routes of the public keys that verify the cluster's signatures (http-api §29, §31).

use model::keyring::{ALGORITHM, RootKey};
use serde::Serialize;
use state::{Table, WatchKey};

use super::{Request, small_objects};
use crate::Api;
use crate::http::{Body, Effort, Error, Response, Watched};

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
