//! Tests of the routes of access control while it is disabled (http-api §2.3, §23).

use super::harness::{Harness, Response};

const DISABLED: &str = "ACL support disabled";

#[actix_web::test]
async fn wrong_methods_bodies_and_names_come_before_that_acls_are_disabled() {
    let harness = Harness::without_applier(Vec::new()).await;
    let empty = "Request body is empty";
    for (method, path, body, status, text) in [
        // http-api §2.3.
        ("GET", "policies", "", 400, DISABLED),
        ("GET", "policy/x", "", 400, DISABLED),
        ("DELETE", "policy/x", "", 400, DISABLED),
        ("PUT", "policy/x", "", 400, empty),
        ("PUT", "policy/x", "{}", 400, "ACL policy name does not match request path"),
        ("PUT", "policy/x", r#"{"Name": "y"}"#, 400, "ACL policy name does not match request path"),
        ("POST", "policy/x", r#"{"Name": "x"}"#, 400, DISABLED),
        ("PATCH", "policy/x", "", 405, "Invalid method"),
        // http-api §23.1: whatever the method.
        ("PATCH", "policy/", "", 400, "Missing Policy Name"),
        // http-api §23.2.
        ("PUT", "bootstrap", "", 400, DISABLED),
        ("PUT", "bootstrap", "null", 400, DISABLED),
        ("GET", "bootstrap", "", 405, "Invalid method"),
        ("PUT", "tokens", "{}", 405, "Invalid method"),
        ("PUT", "token", "", 400, empty),
        ("PUT", "token", "{}", 400, DISABLED),
        ("GET", "token/", "", 400, "Missing Token Accessor"),
        ("PUT", "token/x", "{}", 400, "ACL token accessor does not match request path"),
        ("PUT", "token/x", r#"{"AccessorID": "x"}"#, 400, DISABLED),
        ("PUT", "token/onetime", "", 400, DISABLED),
        ("PUT", "token/onetime/exchange", "", 400, empty),
        ("PUT", "token/onetime/exchange", "{}", 400, DISABLED),
        // http-api §23.3.
        ("DELETE", "role", "", 405, "Invalid method"),
        ("GET", "role/", "", 400, "missing ACL role ID"),
        ("GET", "role/name/", "", 400, "missing ACL role name"),
        ("GET", "role/name/x", "", 400, DISABLED),
        ("PUT", "role/x", r#"{"Name": "x"}"#, 400, "ACL role ID does not match request path"),
        // http-api §23.4.
        ("PUT", "auth-method/x", r#"{"Name": "y"}"#, 400, "ACL auth-method name does not match request path"),
        ("GET", "auth-method/", "", 400, "missing ACL auth-method name"),
        ("PUT", "binding-rule/x", "{}", 400, DISABLED),
        ("PUT", "binding-rule/x", r#"{"ID": "y"}"#, 400, "ACL binding rule ID does not match request path"),
        // http-api §23.5.
        ("GET", "login", "", 405, "Invalid method"),
        ("PUT", "login", "", 400, empty),
        ("PUT", "oidc/auth-url", "{}", 400, DISABLED),
        ("GET", "policies?region=x", "", 500, "No path to region"),
        ("GET", "nope", "", 404, ""),
    ] {
        let request = harness.builder(method, &format!("/v1/acl/{path}")).body(body);
        assert_eq!(Response::new(request).await.error(), (status, text), "{method} {path} {body}");
    }
    let undecodable = Response::new(harness.builder("PUT", "/v1/acl/bootstrap").body("{")).await;
    assert_eq!(undecodable.status, 400);
    assert!(undecodable.text.starts_with("failed to decode request body: "), "{}", undecodable.text);
    assert_eq!(harness.put("/v1/acl/role", "[]").await.error().0, 400);
}
