//! Tests of the routes for operators: Raft, autopilot, keys, checks before upgrades (http-api §29).

use serde_json::json;

use super::harness::{Harness, Response};

const CONFIGURATION: &str = "/v1/operator/raft/configuration";

/// http-api §29.
#[actix_web::test]
async fn the_only_peer_is_the_server_that_is_asked() {
    let harness = Harness::with(Vec::new()).await;
    let got = harness.get(CONFIGURATION).await;
    assert_eq!(got.header("x-nomad-index"), "", "(http-api §4.1)");
    let peers = got.json();
    let id = peers["Servers"][0]["ID"].as_str().unwrap().to_owned();
    let expected = json!({
        "ID": id, "Node": "drover.global", "Address": "127.0.0.1:4647", "Leader": true, "Voter": true,
        "RaftProtocol": "3",
    });
    assert_eq!(peers, json!({ "Servers": [expected], "Index": 0 }));
    for method in ["PUT", "DELETE"] {
        let got = Response::new(harness.builder(method, CONFIGURATION)).await;
        assert_eq!((got.error(), got.header("content-type")), ((405, ""), ""), "{method}");
    }
    let unknown = "00000000-0000-4000-8000-000000000000";
    let not_found = format!("id \"{unknown}\" was not found in the Raft configuration");
    for (method, path, status, text) in [
        ("GET", "configuration?region=x", 500, "No path to region"),
        ("GET", "configuration?stale=x", 400, "Expect `true` or `false` for `stale` query string parameter"),
        ("GET", "nope", 404, "Invalid method"),
        ("GET", "peer", 404, "Invalid method"),
        ("DELETE", "peer", 400, "Must specify the peer's ID to remove"),
        (
            "DELETE",
            "peer?id=a&address=b",
            400,
            "Removing a peer by address is not supported in the current raft protocol version",
        ),
        ("DELETE", "peer?id=none", 500, "id \"none\" was not found in the Raft configuration"),
        ("GET", "transfer-leadership", 405, "Invalid method"),
        ("PUT", "transfer-leadership", 400, "must specify id or address"),
        ("PUT", "transfer-leadership?id=a&address=b", 400, "must specify either id or address"),
        ("PUT", "transfer-leadership?id=", 400, "id must be non-empty"),
        ("PUT", "transfer-leadership?id=none", 400, "id must be a uuid: uuid string is wrong length"),
        (
            "POST",
            "transfer-leadership?address=127.0.0.1:1",
            400,
            "address \"127.0.0.1:1\" was not found in the Raft configuration",
        ),
        ("PUT", &*format!("transfer-leadership?id={unknown}"), 400, &*not_found),
    ] {
        let got = Response::new(harness.builder(method, &format!("/v1/operator/raft/{path}"))).await;
        assert_eq!(got.error(), (status, text), "{method} {path}");
    }
    let got = harness.put(&format!("/v1/operator/raft/transfer-leadership?id={id}"), "").await.json();
    let server = json!({ "ID": id, "Address": "127.0.0.1:4647" });
    assert_eq!(got, json!({ "From": server, "To": server, "Noop": true, "Err": null }));
    let got = Response::new(harness.builder("DELETE", &format!("/v1/operator/raft/peer?id={id}"))).await;
    assert_eq!(got.error().0, 501);
}

/// http-api §29.
#[actix_web::test]
async fn what_is_not_built_still_says_what_is_wrong() {
    let harness = Harness::with(Vec::new()).await;
    let key = "keyring/key/00000000-0000-4000-8000-000000000000";
    for (method, path, body, status, text) in [
        ("GET", "autopilot/configuration?region=x", "", 500, "No path to region"),
        ("PUT", "autopilot/configuration", "", 400, "Error parsing autopilot config: Request body is empty"),
        (
            "PUT",
            "autopilot/configuration",
            r#"{"LastContactThreshold": "x"}"#,
            400,
            "Error parsing autopilot config: time: invalid duration \"x\"",
        ),
        (
            "PUT",
            "autopilot/configuration?cas=x",
            "{}",
            400,
            "Error parsing cas value: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        ("POST", "autopilot/configuration", "{}", 404, "Invalid method"),
        ("PUT", "autopilot/health", "", 404, "Invalid method"),
        ("GET", "snapshot?region=x", "", 500, "No path to region"),
        ("DELETE", "snapshot", "", 405, "Invalid method"),
        ("GET", "keyring/rotate", "", 405, "Invalid method"),
        (
            "PUT",
            "keyring/rotate?publish_time=x",
            "",
            500,
            "invalid publish_time: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "PUT",
            "keyring/rotate?publish_time=1&full",
            "",
            500,
            "keyring cannot be prepublished and full rotated at the same time",
        ),
        ("GET", key, "", 405, "Invalid method"),
        ("DELETE", key, "", 500, "root key not found"),
        ("DELETE", &*format!("{key}?force=x"), "", 422, "invalid force parameter"),
        ("DELETE", "keyring/key/x", "", 500, "root key not found"),
        ("DELETE", "keyring/key/", "", 500, "root key ID is required"),
    ] {
        let request = harness.builder(method, &format!("/v1/operator/{path}")).body(body);
        assert_eq!(Response::new(request).await.error(), (status, text), "{method} {path}");
    }
    let got = harness.put("/v1/operator/autopilot/configuration?cas=99", "{}").await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (200, "false"));
    for (method, path) in [
        ("GET", "autopilot/configuration"),
        ("GET", "autopilot/health"),
        ("GET", "snapshot"),
        ("PUT", "keyring/rotate"),
    ] {
        let got = Response::new(harness.builder(method, &format!("/v1/operator/{path}"))).await;
        let begin = format!("{method} /v1/operator/{path} is not built yet");
        assert_eq!(got.status, 501, "{path}");
        assert!(got.text.starts_with(&begin), "{}", got.text);
    }
}

/// http-api §29: no job has access to Vault.
#[actix_web::test]
async fn nothing_hinders_an_upgrade() {
    let harness = Harness::with(Vec::new()).await;
    let path = "/v1/operator/upgrade-check/vault-workload-identity";
    let got = harness.get(path).await;
    let index: u64 = got.header("x-nomad-index").parse().unwrap();
    assert!(index > 0);
    let expected = json!({
        "JobsWithoutVaultIdentity": [], "OutdatedNodes": [], "VaultTokens": null,
        "Index": index, "LastContact": got.json()["LastContact"], "KnownLeader": true, "NextToken": "",
    });
    assert_eq!(got.json(), expected);
    let got = harness.get("/v1/operator/upgrade-check/nope").await;
    assert_eq!(got.error(), (404, "Path /v1/operator/upgrade-check/nope not found"));
}
