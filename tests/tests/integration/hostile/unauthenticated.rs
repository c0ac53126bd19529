//! An attacker without credentials, or with credentials that the account did not issue in that form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::NodeId;
use nats_auth::claims::Claims;
use nats_auth::{Credentials, Issuer, Key, KeyKind};
use serde_json::{Value, json};
use tests::harness::raw_nats::RawNats;
use wire::Role;
use wire::permissions::Purpose;

use super::scene::{Scene, connect, issuer, now_secs, of_role, scene};

const NODE: NodeId = NodeId::from_bytes([7; 16]);

fn assert_rejected(scene: &Scene, what: &str, login: Option<(&str, &Key)>) {
    match RawNats::connect_as(&scene.cluster.nats.url(), login) {
        Err(error) => {
            let error = error.to_lowercase();
            assert!(
                error.contains("authorization violation") || error.contains("expired"),
                "{what}: {error}"
            );
        }
        Ok(_) => panic!("{what} was accepted"),
    }
}

/// Makes a user's JWT with these claims, signed by `signer`.
fn user(issuer: &Issuer, signer: &Key, name: &str, claims: Value) -> Credentials {
    let key = Key::new(KeyKind::User, &mut rand::random);
    let mut nats = json!({ "type": "user", "version": 2, "issuer_account": issuer.account.public() });
    nats.as_object_mut()
        .expect("the value is an object")
        .extend(claims.as_object().expect("the claims are an object").clone());
    let claims = Claims::new(signer, &key.public(), name, now_secs(), nats);
    Credentials { jwt: claims.clone().sign(signer), claims, key }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_that_the_account_did_not_sign_are_refused() {
    let mut scene = scene().await;
    let issuer = issuer(&scene.cluster).clone();
    assert_rejected(&scene, "a client without credentials", None);

    let api = of_role(&scene.cluster, Role::Api);
    let stranger = Key::new(KeyKind::User, &mut rand::random);
    assert_rejected(&scene, "the JWT of another user with a foreign key", Some((&api.jwt, &stranger)));

    let foreign = Issuer::new(Purpose::Cluster, &mut rand::random);
    let forged = foreign.service(Role::Api, &mut rand::random, now_secs()).expect("the role has credentials");
    assert_rejected(&scene, "a user of another account", Some((&forged.jwt, &forged.key)));
    let everything = json!({ "pub": { "allow": [">"] }, "sub": { "allow": [">"] } });
    let forged = user(&issuer, &foreign.service_signer, "api", everything.clone());
    assert_rejected(&scene, "a user signed by another account's key", Some((&forged.jwt, &forged.key)));
    let forged = user(&issuer, &stranger, "api", everything.clone());
    assert_rejected(&scene, "a user that signed itself", Some((&forged.jwt, &forged.key)));

    let mut parts: Vec<String> = api.jwt.split('.').map(str::to_owned).collect();
    let body = URL_SAFE_NO_PAD.decode(&parts[1]).expect("the JWT's part can be decoded");
    let body = String::from_utf8(body).expect("the claims are UTF-8").replace("inbox.api.>", ">");
    parts[1] = URL_SAFE_NO_PAD.encode(body);
    assert_rejected(&scene, "an altered JWT", Some((&parts.join("."), &api.key)));

    let node = issuer.node_key();
    let hour_ago = now_secs() - 3_600;
    let expired = node.sign("late", NODE, &mut rand::random, hour_ago, Some(60));
    assert_rejected(&scene, "an expired JWT", Some((&expired.jwt, &expired.key)));
    scene.assert_job_runs().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_key_signs_only_for_nodes() {
    let mut scene = scene().await;
    let issuer = issuer(&scene.cluster).clone();
    let signer = &issuer.node_signer;
    let tag = format!("node:{NODE}");
    for (what, claims) in [
        (
            "permissions of its own",
            json!({ "tags": [tag], "pub": { "allow": [">"] }, "sub": { "allow": [">"] } }),
        ),
        ("wider limits", json!({ "tags": [tag], "subs": -1, "data": -1, "payload": -1 })),
        ("a bearer token", json!({ "tags": [tag], "bearer_token": true })),
    ] {
        let forged = user(&issuer, signer, "scheduler", claims);
        assert_rejected(&scene, what, Some((&forged.jwt, &forged.key)));
    }
    // A user has only the permissions of a node, whichever id the JWT names.
    let tags = ["*", "api", "node-tracker", "a.b", ">", ""].map(|id| json!([format!("node:{id}")]));
    for tags in tags.into_iter().chain([json!([]), json!(["other:x"])]) {
        let forged = user(&issuer, signer, "scheduler", json!({ "tags": tags }));
        let Ok(mut attacker) = RawNats::connect(&scene.cluster.nats.url(), Some(&forged)) else { continue };
        for subject in
            ["feed.changes", "applier.command.api", "inbox.api.token", "inbox.node-tracker.x", "agent.x.wake"]
        {
            scene.assert_cannot_publish(&mut attacker, subject);
        }
        for subject in
            ["feed.>", "inbox.api.>", "inbox.plan-applier.>", "applier.command.*", "node.*.register", ">"]
        {
            scene.assert_cannot_subscribe(&mut attacker, subject, "");
        }
    }
    // Genuine credentials of a node are accepted.
    connect(&scene.cluster, &issuer.node("worker", NODE, &mut rand::random, now_secs()));
    scene.assert_job_runs().await;
}
