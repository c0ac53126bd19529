//! Attempts to escape from a task, as the default user and as root: all fail.

use std::env;
use std::os::unix::fs::PermissionsExt as _;

use super::attacks::{ATTACKS, HIDDEN, HOST_PID, MARKER};
use super::*;

/// Where the program of the attacks is mounted.
const PROGRAM: &str = "/local/attack";
/// The content of files that no attack may read.
const SECRET: &str = "sesame";

/// Runs all attacks in a task, each in a process of its own. Returns what they say.
async fn attacked(user: &str, config: Value) -> String {
    let scene = Scene::new(user);
    // A file that everybody on the node can read, if they get there.
    let marker = scene.dir.path().join("marker");
    for (path, mode) in [
        (marker.clone(), 0o644),
        (scene.dirs.task("other").secrets.join("key"), 0o644),
        (scene.file("private/token"), 0o644),
    ] {
        fs::write(&path, SECRET).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let arguments = "driver::exec::tests::escapes::attack_process --exact --ignored --nocapture";
    let names: Vec<&str> = ATTACKS.iter().map(|(name, _)| *name).collect();
    let script = format!("for name in {}; do {PROGRAM} {arguments} $name; done", names.join(" "));
    let Value::Object(mut config) = config else { unreachable!() };
    config.extend([("command".to_owned(), json!("sh")), ("args".to_owned(), json!(["-c", script]))]);
    let program = Mount {
        source: env::current_exe().unwrap(),
        target: PROGRAM.into(),
        read_only: true,
        propagation: Propagation::Private,
        selinux_label: String::new(),
    };
    let start = scene.start(Value::Object(config));
    let start = Start {
        user: user.into(),
        mounts: vec![program],
        env: start
            .env
            .into_iter()
            .chain([
                (MARKER.to_owned(), marker.display().to_string()),
                (HIDDEN.to_owned(), scene.dir.path().display().to_string()),
                (HOST_PID.to_owned(), std::process::id().to_string()),
            ])
            .collect(),
        ..start
    };
    let task = scene.driver().start(start).await.unwrap();
    task.wait().await;
    let output = format!("{}{}", scene.output("web.stdout.0"), scene.output("web.stderr.0"));
    task.destroy().await;
    output
}

fn check(output: &str) {
    for (name, _) in ATTACKS {
        let failed = output.lines().any(|line| line.starts_with(&format!("{name}: failed: ")));
        assert!(failed, "{name} did not fail:\n{output}");
    }
}

#[tokio::test]
async fn no_attack_succeeds_as_the_default_user() {
    if is_supported() {
        assert!(ATTACKS.len() >= 30);
        check(&attacked(DEFAULT_USER, json!({})).await);
    }
}

#[tokio::test]
async fn no_attack_succeeds_as_root() {
    if is_supported() {
        check(&attacked("root", json!({})).await);
    }
}

/// Not a test: the program that runs one attack inside a task.
#[test]
#[ignore = "a process inside a task of other tests"]
fn attack_process() {
    let name = env::args().next_back().unwrap();
    let Some((_, attack)) = ATTACKS.iter().find(|(known, _)| *known == name) else { return };
    match attack() {
        Ok(()) => println!("{name}: SUCCEEDED"),
        Err(reason) => println!("{name}: failed: {reason}"),
    }
    std::process::exit(0);
}
