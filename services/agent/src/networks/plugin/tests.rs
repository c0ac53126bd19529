//! Tests of running plugins, with scripts as plugins.

use std::fs;

use serde_json::json;

use super::*;

/// A directory with one plugin, which is a script.
fn plugins(name: &str, script: &str) -> (tempfile::TempDir, Plugins) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let plugins = Plugins::new(vec![dir.path().join("missing"), dir.path().to_owned()]);
    (dir, plugins)
}

fn target() -> Target {
    Target {
        container: "c1".into(),
        namespace: Some("/netns/a".into()),
        interface: "eth0",
        args: "A=b".into(),
    }
}

async fn run_script(script: &str) -> Result<Option<Value>, String> {
    let (_dir, plugins) = plugins("fake", script);
    let input = json!({ "name": "lan" });
    plugins.run("fake", Action::Add, &target(), &input).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_plugin_gets_its_input_and_environment_and_nothing_else() {
    let script = r#"input=$(cat); printf '{"input":%s,"env":"%s"}' "$input" "$(env | grep -c CNI_)/$CNI_COMMAND/$CNI_CONTAINERID/$CNI_NETNS/$CNI_IFNAME/$CNI_ARGS/$HOME""#;
    let answer = run_script(script).await.unwrap().unwrap();
    assert_eq!(answer, json!({ "input": { "name": "lan" }, "env": "6/ADD/c1//netns/a/eth0/A=b/" }));
    assert_eq!(run_script("exit 0").await, Ok(None));
}

#[tokio::test]
async fn an_error_says_which_plugin_failed_at_what() {
    let error = run_script(r#"echo '{"code":7,"msg":"no address is left"}'; exit 1"#).await.unwrap_err();
    assert!(error.ends_with("/fake failed at ADD: no address is left"), "{error}");
    let error = run_script("echo broken").await.unwrap_err();
    assert!(error.contains("/fake failed at ADD: its result is not JSON"), "{error}");
    let error = run_script("head -c 3000000 /dev/zero; sleep 1000").await.unwrap_err();
    assert!(error.ends_with("/fake wrote more than 1048576 bytes at ADD"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_is_killed() {
    // The clock of the test advances while the plugin does nothing.
    let error = run_script("sleep 1000").await.unwrap_err();
    assert!(error.ends_with("/fake did not finish ADD within 60 seconds"), "{error}");
}

#[test]
fn a_plugin_that_is_missing_is_named_with_its_package() {
    let (dir, plugins) = plugins("fake", "");
    let error = plugins.find("portmap").unwrap_err().to_string();
    let dir = dir.path().display();
    assert_eq!(
        error,
        format!(
            "the CNI plugin \"portmap\" was not found in {dir}/missing:{dir}; the package containernetworking-plugins \
             has it, and --cni-path (cni_path) says where plugins are"
        )
    );
    for name in ["..", "", "../fake", "/bin/sh"] {
        assert!(plugins.find(name).is_err(), "{name}");
    }
    let names: Vec<_> = plugins.all().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["fake"]);
}

#[tokio::test]
async fn versions_are_those_of_the_plugin_or_of_what_it_understands() {
    for (script, expected) in [
        ("echo 'CNI fake plugin v1.5.1' >&2", Some("1.5.1")),
        (
            r#"if [ "$CNI_COMMAND" ]; then echo '{"supportedVersions":["0.4.0","1.0.0"]}'; else echo 'CNI fake plugin version unknown'; fi"#,
            Some("1.0.0"),
        ),
        ("exit 1", None),
    ] {
        let (dir, plugins) = plugins("fake", script);
        assert_eq!(plugins.version(&dir.path().join("fake")).await.as_deref(), expected, "{script}");
    }
}
