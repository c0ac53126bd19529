//! Checks the image alone: its contents, its privileges, and how its services shut down.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use private_servers::{Nats, NatsAccess, NatsOptions, Postgres};
use tests::containers::engine::{Engine, Network};
use tests::containers::images::{self, Binary};
use tests::harness::free_address;
use tests::skips::skip;

use crate::timeline::Timeline;
use crate::{DOCKER, release_binary};

/// The largest size of the image, in bytes.
const BYTES_MAX: u64 = 90_000_000;
/// The longest time that a service may take to shut down.
const END_WITHIN: Duration = Duration::from_secs(5);
/// The first service of a cluster, on which the readiness of the others depends, and the others.
const FIRST: &str = "plan-applier";
const OTHERS: [&str; 5] = ["eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
/// The user of the services.
const USER: &str = "65532:65532";

/// Uses the binary that `make test` tests, which is larger than a release.
#[tokio::test]
async fn a_service_in_its_image_has_no_rights_and_ends_in_order() {
    let name = "a_service_in_its_image_has_no_rights_and_ends_in_order";
    if let Some(cause) = tests::containers::unavailable() {
        return skip(name, DOCKER, &cause);
    }
    let engine = Engine::start(Network::Host);
    images::debian(&engine);
    let binary = Binary::Prebuilt(env!("CARGO_BIN_EXE_drover-under-test").into());
    images::drover(&engine, &binary, "server", "drover:test");
    images::drover(&engine, &binary, "agent", "drover-agent:test");
    assert_image(&engine, "drover:test");
    assert_agent_image(&engine, "drover-agent:test");
    assert_end_in_order(&engine, "drover:test", &[FIRST]).await;
}

/// Uses the release, or the binary that the Dockerfile compiles (`FULL=1`).
#[tokio::test]
#[ignore = "needs the release: make drill"]
async fn the_released_image_is_small() {
    let name = "the_released_image_is_small";
    if let Some(cause) = tests::containers::unavailable() {
        return skip(name, DOCKER, &cause);
    }
    let engine = Engine::start(Network::Host);
    images::debian(&engine);
    let binary = release_binary();
    let timeline = Timeline::begin();
    if matches!(binary, Binary::Compiled) {
        images::rust(&engine);
        timeline.note("the image with the toolchain is built");
    }
    images::drover(&engine, &binary, "server", "drover:dev");
    images::drover(&engine, &binary, "agent", "drover-agent:dev");
    timeline.note("the images are built");
    let bytes: u64 = engine.inspect("drover:dev", "{{.Size}}").parse().expect("a size is a number");
    timeline.note(&format!("the image has {:.1} MB", bytes as f64 / 1e6));
    assert!(bytes <= BYTES_MAX, "the image has {bytes} bytes, which is more than {BYTES_MAX}");
    assert_image(&engine, "drover:dev");
    assert_agent_image(&engine, "drover-agent:dev");
    assert_end_in_order(&engine, "drover:dev", &[&[FIRST], &OTHERS[..]].concat()).await;
    timeline.note("all services ended in order");
}

/// Checks the settings and the contents of the services' image.
fn assert_image(engine: &Engine, image: &str) {
    assert_eq!(engine.inspect(image, "{{.Config.User}}"), USER);
    assert_eq!(engine.inspect(image, "{{.Config.StopSignal}}"), "SIGTERM");
    assert_eq!(engine.inspect(image, "{{json .Config.Entrypoint}}"), r#"["drover"]"#);
    assert_eq!(engine.inspect(image, "{{json .Config.Healthcheck.Test}}"), r#"["CMD","drover","health"]"#);
    let labels = engine.inspect(image, "{{json .Config.Labels}}");
    for label in ["title", "description", "licenses", "source", "revision", "version", "created"] {
        assert!(labels.contains(&format!("org.opencontainers.image.{label}")), "{label} is not in {labels}");
    }

    let files = files_of(engine, image);
    for file in [
        "usr/local/bin/drover",
        "usr/share/drover/sbom.cdx.json",
        "usr/share/zoneinfo/Europe/Vienna",
        "etc/ssl/certs/ca-certificates.crt",
    ] {
        assert!(files.contains(file), "{file} is not in the image");
    }
    // A binary that is not static also needs its libraries. The engine adds files to etc and dev.
    let expected = |file: &str| {
        let etc = ["passwd", "group", "nsswitch.conf", "hostname", "hosts", "resolv.conf", "mtab"];
        file.ends_with('/')
            || file == ".dockerenv"
            || ["dev/", "usr/share/zoneinfo/", "lib/", "lib64/"].iter().any(|start| file.starts_with(start))
            || file
                .strip_prefix("etc/")
                .is_some_and(|name| etc.contains(&name) || name.starts_with("ssl/certs/"))
            || ["usr/local/bin/drover", "usr/share/drover/sbom.cdx.json"].contains(&file)
    };
    let unexpected: Vec<&String> = files.iter().filter(|file| !expected(file)).collect();
    assert!(unexpected.is_empty(), "the image has unexpected files: {unexpected:?}");

    let parts = engine.run(&["run", "--rm", "--network", "none", image, "version"]);
    assert!(parts.contains("Drover") || parts.contains("drover"), "{parts}");
}

/// Checks that the agent's image has what tasks need.
fn assert_agent_image(engine: &Engine, image: &str) {
    let script = "command -v sh tini && test -s /etc/ssl/certs/ca-certificates.crt && date && drover version";
    engine.run(&[
        "run",
        "--rm",
        "--network",
        "none",
        "--read-only",
        "--entrypoint",
        "sh",
        image,
        "-c",
        script,
    ]);
}

/// Runs services as compose does until they are healthy, and stops them.
async fn assert_end_in_order(engine: &Engine, image: &str, services: &[&str]) {
    // With a password, because files with credentials would have to be mounted into containers.
    let options = NatsOptions { access: NatsAccess::Password, ..NatsOptions::default() };
    let (postgres, nats) = tokio::join!(Postgres::temporary(), Nats::temporary_with(options));
    let (postgres, nats) = (postgres.expect("PostgreSQL starts"), nats.expect("nats-server starts"));
    let environment = [
        ("DROVER_DATABASE_URL", postgres.url()),
        ("DROVER_ALLOW_UNSAFE_DATABASE", "true".to_owned()),
        ("DROVER_NATS_URL", nats.url()),
    ];
    for service in services {
        start(engine, image, service, &environment);
        let status =
            async || (engine.inspect(service, "{{.State.Health.Status}}") == "healthy").then_some(());
        tests::harness::wait_until(&format!("{service} is healthy"), status, || {
            engine.log_tails(20) + &engine.inspect(service, "{{json .State.Health}}")
        })
        .await;
    }
    for service in services {
        let timeline = Timeline::begin();
        engine.run(&["stop", "--time", "30", service]);
        let took = timeline.elapsed();
        timeline.note(&format!("{service} exited"));
        assert!(took < END_WITHIN, "{service} took {took:?} to exit");
        let code = engine.inspect(service, "{{.State.ExitCode}}");
        assert_eq!(code, "0", "{service} did not shut down cleanly: {}", engine.log_tails(20));
        engine.run(&["rm", "--volumes", service]);
    }
}

/// Starts a service in a container of the same name, without unnecessary privileges.
fn start(engine: &Engine, image: &str, service: &str, environment: &[(&str, String)]) {
    // The container uses the machine's network, so its ports must be free there.
    let addresses = [("DROVER_HEALTH_ADDR", free_address()), ("DROVER_HTTP_ADDR", free_address())];
    let variables: Vec<String> =
        environment.iter().chain(&addresses).map(|(name, value)| format!("--env={name}={value}")).collect();
    let mut arguments = vec!["run", "--detach", "--name", service, "--network=host"];
    arguments.extend(["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--memory=1g"]);
    arguments.push("--health-interval=1s");
    arguments.extend(variables.iter().map(String::as_str));
    arguments.extend([image, service]);
    engine.run(&arguments);
}

/// The paths of all files in an image. Those of directories end with a slash.
fn files_of(engine: &Engine, image: &str) -> BTreeSet<String> {
    let container = engine.run(&["create", image]);
    let mut export = engine.docker(&["export", &container]);
    let mut export = export.stdout(Stdio::piped()).spawn().expect("the client can be started");
    let archive = export.stdout.take().expect("the standard output is piped");
    let listed = Command::new("tar").arg("--list").stdin(archive).output().expect("tar can be started");
    assert!(export.wait().is_ok_and(|status| status.success()), "the image cannot be read");
    engine.run(&["rm", "--volumes", &container]);
    String::from_utf8_lossy(&listed.stdout)
        .lines()
        .map(|path| path.trim_start_matches("./").to_owned())
        .collect()
}
