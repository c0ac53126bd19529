//! Tests of routing, redirects, compression and CORS.

use super::harness::{Harness, Response};

#[actix_web::test]
async fn unknown_paths_crooked_ones_and_wrong_methods() {
    let harness = Harness::without_applier(Vec::new()).await;
    for path in ["/v1/nonsense", "/v1/", "/v1", "/nonsense", "/v2/jobs", "/v1/jobs/nonsense", "/v1/jobs/"] {
        let got = harness.get(path).await;
        assert_eq!((got.error(), got.header("content-type")), ((404, ""), ""), "{path}");
    }
    for (path, location) in [
        ("/v1//jobs", "/v1/jobs"),
        ("/v1/job", "/v1/job/"),
        ("/?a=b&c=d", "/ui/?a=b&c=d"),
        ("/ui", "/ui/"),
        ("/v1//job/a%2F..%2Fb", "/v1/job/a%2F..%2Fb"),
    ] {
        let got = harness.get(path).await;
        assert_eq!((got.status.as_u16(), got.header("location")), (307, location), "{path}");
    }
    let got = Response::new(harness.builder("DELETE", "/v1//job/a")).await;
    assert_eq!((got.status.as_u16(), got.header("location")), (307, "/v1/job/a"));
    assert_eq!((got.text.as_str(), got.header("content-type")), ("", ""));
    let got = harness.get("/v1//jobs").await;
    assert_eq!(got.text, "<a href=\"/v1/jobs\">Temporary Redirect</a>.\n\n");
    for (method, path) in [
        ("OPTIONS", "/v1/jobs"),
        ("FOO", "/v1/jobs"),
        ("DELETE", "/v1/jobs"),
        ("PATCH", "/v1/job/x"),
        ("POST", "/v1/job/x/allocations"),
        ("GET", "/v1/job/x/evaluate"),
        ("GET", "/v1/jobs/parse"),
        ("PUT", "/v1/status/leader"),
        ("POST", "/v1/system/gc"),
    ] {
        let got = Response::new(harness.builder(method, path)).await;
        assert_eq!(got.error(), (405, "Invalid method"), "{method} {path}");
        assert_eq!(got.header("content-type"), "text/plain; charset=utf-8");
    }
    assert_eq!(Response::new(harness.builder("HEAD", "/v1/status/leader")).await.status, 405);
    assert_eq!(harness.get("/v1/job/%ff").await.error().0, 400, "it is no text");
    assert_eq!(harness.get("/v1/status/leader?region=nowhere").await.error(), (500, "No path to region"));
}

#[actix_web::test]
async fn unbuilt_routes_name_their_feature() {
    let harness = Harness::without_applier(Vec::new()).await;
    for (method, path, name) in [
        ("GET", "/v1/plugins", "GET /v1/plugins is not built yet"),
        ("GET", "/v1/quotas", "Nomad Enterprise only endpoint"),
        ("PUT", "/v1/operator/license", "Nomad Enterprise only endpoint"),
    ] {
        assert_eq!(Response::new(harness.builder(method, path)).await.error(), (501, name), "{path}");
    }
    // http-api §33.
    for (method, path) in [
        ("POST", "/v1/operator/license"),
        ("DELETE", "/v1/operator/license"),
        ("PUT", "/v1/operator/utilization"),
    ] {
        let got = Response::new(harness.builder(method, path)).await;
        assert_eq!(got.error(), (405, "Invalid method"), "{method} {path}");
    }
    let got = harness.get("/v1/operator/license").await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (204, ""));
}

#[actix_web::test]
async fn answers_are_indented_and_compressed_on_request() {
    let harness = Harness::without_applier(Vec::new()).await;
    assert_eq!(harness.get("/v1/regions").await.text, r#"["global"]"#);
    assert_eq!(harness.get("/v1/regions?pretty").await.text, "[\n    \"global\"\n]\n");
    assert_eq!(harness.get("/v1/regions?pretty=0").await.text, r#"["global"]"#);
    let gzip = |path| Response::new(harness.builder("GET", path).header("accept-encoding", "gzip"));
    let large =
        harness.builder("GET", "/v1/agent/self").header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(large.headers()["content-encoding"], "gzip");
    assert_eq!(large.headers()["vary"], "Accept-Encoding");
    assert_eq!(large.bytes().await.unwrap()[..2], [0x1f, 0x8b]);
    let small = gzip("/v1/regions").await;
    assert_eq!((small.header("content-encoding"), small.header("vary")), ("", "Accept-Encoding"));
    assert_eq!(harness.get("/v1/agent/self").await.header("content-encoding"), "");
}

#[actix_web::test]
async fn browsers_may_ask_for_what_is_open_to_pages() {
    let harness = Harness::without_applier(Vec::new()).await;
    let ask = |method, path, wanted: &'static str| {
        let request = harness.builder(method, path).header("origin", "https://ui.example");
        Response::new(
            request
                .header("access-control-request-method", wanted)
                .header("access-control-request-headers", "X-Nomad-Token"),
        )
    };
    let got = ask("OPTIONS", "/v1/client/fs/ls/x", "GET").await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (204, ""));
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET"),
        ("access-control-allow-headers", "X-Nomad-Token"),
        ("access-control-allow-credentials", "true"),
    ] {
        assert_eq!(got.header(name), value);
    }
    let got = ask("OPTIONS", "/v1/vars", "PUT").await;
    assert_eq!((got.status.as_u16(), got.header("access-control-allow-origin")), (204, ""));
    assert_eq!(ask("OPTIONS", "/v1/jobs", "GET").await.error(), (405, "Invalid method"));
    let got = ask("GET", "/v1/client/fs/ls/x", "").await;
    assert_eq!(got.header("access-control-allow-origin"), "*", "an error is seen as well");
    assert_eq!(ask("GET", "/v1/regions", "").await.header("access-control-allow-origin"), "");
}
