//! Tests of the configuration of drivers.

use serde_json::json;

use super::*;

fn values(config: &Value) -> impl Iterator<Item = (&str, &Value)> {
    config.as_object().unwrap().iter().map(|(key, value)| (key.as_str(), value))
}

fn found(driver: &str, config: Value) -> Vec<String> {
    mistakes(driver, values(&config))
}

fn read(driver: &str, config: Value) -> Result<Value, String> {
    in_one_form(driver, values(&config)).map(Value::Object)
}

fn check_order(keys: &'static [Key]) {
    assert!(keys.is_sorted_by(|first, second| first.name < second.name), "{keys:?}");
    for key in keys {
        match key.kind {
            Kind::Block(inner) | Kind::Blocks(inner) => check_order(inner),
            Kind::Text | Kind::Flag | Kind::Number | Kind::Duration => {}
            Kind::Texts | Kind::TextOrTexts | Kind::Map => {}
        }
    }
}

#[test]
fn keys_are_sorted_and_given_once() {
    for (_, keys) in DRIVERS {
        check_order(keys);
    }
    assert_eq!(keys_of_driver("exec").unwrap().next(), Some("args"));
    assert!(keys_of_driver("qemu").is_none());
}

//
#[test]
fn mistakes_name_the_driver_the_key_and_what_would_be_right() {
    assert_eq!(
        found("exec", json!({ "cmd": "/bin/true" })),
        [
            "driver exec: config: unknown key \"cmd\"; the keys are args, cap_add, cap_drop, command, ipc_mode, pid_mode, \
          work_dir"
        ]
    );
    assert_eq!(
        found("raw_exec", json!({ "command": ["a"], "args": "secret" })),
        [
            "driver raw_exec: config: args: expected a list of strings, not a string",
            "driver raw_exec: config: command: expected a string, not a list",
        ]
    );
    let mount = json!({ "image": "a", "mount": [{ "type": "bind", "src": "/a", "readonly": "maybe" }] });
    assert_eq!(
        found("docker", mount),
        [
            "driver docker: config: mount.readonly: expected true or false, not a string",
            "driver docker: config: unknown key \"mount.src\"; the keys are bind_options, readonly, source, target, \
             tmpfs_options, type, volume_options",
        ]
    );
    assert_eq!(
        found("docker", json!({ "auth": [{}, {}], "logging": "x", "image_pull_timeout": "soon" })),
        [
            "driver docker: config: auth: the block is given more than once",
            "driver docker: config: image_pull_timeout: expected a duration, such as \"5m\", not a string",
            "driver docker: config: logging: expected a block, not a string",
        ]
    );
}

#[test]
fn the_text_of_mistakes_is_bounded() {
    let config: Map<String, Value> =
        (0..100).map(|n| (format!("{n}{}", "x".repeat(1_000)), json!(1))).collect();
    let found = found("exec", Value::Object(config));
    assert_eq!(found.len(), MISTAKES_MAX);
    assert!(found.iter().all(|mistake| mistake.len() < 300), "{found:?}");
}

#[test]
fn what_can_be_right_is_no_mistake() {
    let names = json!({
        "image": "${NOMAD_META_image}", "force_pull": "${NOMAD_META_pull}", "shm_size": "${x}", "auth": null,
        "ports": ["http", 8080], "labels": [{ "a": 1 }, { "b": true }], "entrypoint": "/run",
    });
    assert!(found("docker", names).is_empty());
    assert!(found("qemu", json!({ "anything": 1 })).is_empty());
    assert!(found("mock_driver", json!({ "run_for": "", "exec_command": [{ "run_for": "1s" }] })).is_empty());
}

#[test]
fn every_way_to_write_a_value_comes_into_one_form() {
    let config = json!({
        "command": 5, "args": ["a", 1, true], "oom_score_adj": "7", "cgroup_v1_override": [{ "cpu": "/a" }],
        "work_dir": null, "mine": [1],
    });
    assert_eq!(
        read("raw_exec", config),
        Ok(json!({
            "command": "5", "args": ["a", "1", "true"], "oom_score_adj": 7, "cgroup_v1_override": { "cpu": "/a" },
            "mine": [1],
        }))
    );
    let commands = json!({ "exec_command": [{ "exit_code": 3.0 }], "start_error_recoverable": "true" });
    assert_eq!(
        read("mock_driver", commands),
        Ok(json!({ "exec_command": { "exit_code": 3 }, "start_error_recoverable": true }))
    );
    assert_eq!(read("mine", json!({ "x": null })), Ok(json!({ "x": null })));
}

#[test]
fn a_name_that_was_not_replaced_is_no_number() {
    let error = read("raw_exec", json!({ "command": "a", "oom_score_adj": "${x}" })).unwrap_err();
    assert_eq!(error, "oom_score_adj: expected a whole number, not a string");
}
