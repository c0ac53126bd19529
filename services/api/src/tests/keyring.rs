//! Tests of the public keys that verify the cluster's signatures.

use model::alloc::{Allocation, ReportNumber};
use model::change::Change;
use model::keyring::RootKey;
use model::{Index, RootKeyId, Timestamp};
use serde_json::{Value, json};

use super::files::{ALLOC, cluster};
use super::harness::{Harness, Response};
use crate::testing::state_of;

const ID: &str = "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b";

fn key() -> Change {
    Change::RootKey(Box::new(RootKey {
        id: RootKeyId::from_bytes([0x0b; 16]),
        modulus: "3q0".into(),
        exponent: "AQAB".into(),
        create_time: Timestamp::from_secs(7),
        create_index: Index(1),
        modify_index: Index(1),
    }))
}

#[actix_web::test]
async fn keys_are_told_once_there_are_any() {
    // The answer waits for the first key, and never says that there are none (departs from http-api §31).
    let harness = Harness::with(Vec::new()).await;
    let none = harness.get("/.well-known/jwks.json").await;
    assert_eq!(none.error(), (500, "the cluster has no signing key yet"));
    assert_eq!(harness.get("/v1/operator/keyring/keys").await.json(), json!([]));
    let (answer, ()) = tokio::join!(harness.get("/.well-known/jwks.json"), async {
        tokio::task::yield_now().await;
        harness.change(vec![key()]);
    });
    assert_eq!(answer.header("x-nomad-knownleader"), "true");
    let keys = answer.json();
    let web_key = json!({ "use": "sig", "kty": "RSA", "kid": ID, "alg": "RS256", "n": "3q0", "e": "AQAB" });
    assert_eq!(keys, json!({ "keys": [web_key] }));
    let listed = harness.get("/v1/operator/keyring/keys").await.json();
    assert_eq!((&listed[0]["KeyID"], &listed[0]["State"]), (&json!(ID), &json!("active")));
    assert_eq!(listed[0]["CreateTime"], json!(7_000_000_000_u64));
    // http-api §29: the key that signs cannot be deleted.
    let path = format!("/v1/operator/keyring/key/{ID}?force=true");
    let refused = Response::new(harness.builder("DELETE", &path)).await;
    assert_eq!(refused.error(), (500, "active root key cannot be deleted - call rotate first"));
}

/// http-api A.4.
#[actix_web::test]
async fn an_allocation_names_the_key_and_once_it_is_reported_its_network() {
    let changes = [cluster(), vec![key()]].concat();
    let placed = state_of(changes.clone()).alloc(ALLOC).unwrap().to_allocation();
    let harness = Harness::with(changes).await;
    let path = format!("/v1/allocation/{ALLOC}");
    let shown = harness.get(&path).await.json();
    assert_eq!((&shown["SigningKeyID"], &shown["NetworkStatus"]), (&json!(ID), &Value::Null));
    let reported = Allocation { report: ReportNumber::new(1, 1), ..placed };
    harness.change(vec![Change::Alloc(Box::new(reported))]);
    assert_eq!(
        harness.get(&path).await.json()["NetworkStatus"],
        json!({ "InterfaceName": "", "Address": "", "AddressIPv6": "", "DNS": null })
    );
}

#[actix_web::test]
async fn where_the_keys_are_is_told_by_issuers_only() {
    // Discovery is disabled unless an issuer is configured (http-api §31).
    let path = "/.well-known/openid-configuration";
    let harness = Harness::with(Vec::new()).await;
    assert_eq!(harness.get(path).await.error(), (404, "OIDC Discovery endpoint disabled"));
    let issuer = Harness::with_flags(&["--oidc-issuer", "https://drover.example/"]).await;
    assert_eq!(
        issuer.get(path).await.json(),
        json!({
            "issuer": "https://drover.example/",
            "jwks_uri": "https://drover.example/.well-known/jwks.json",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "EdDSA"],
        })
    );
}
