//! Agents for scenes. Scenes that may share an agent get one together: a server and a client in one process, with a
//! private database and nats-server.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::features::Feature;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::play::play;
use super::{Scene, Verdict};
use crate::harness::api::Api;
use crate::harness::free_address;

/// How long an agent may take until its node is ready.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often the agent is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Plays scenes to agents that are started for them, and reports the outcome of each.
///
/// # Panics
/// If an agent does not start, except because its configuration needs something that is not built.
pub async fn replay(binary: &Path, scenes: &[Scene], mut report: impl FnMut(&Scene, Verdict)) {
    let mut groups: BTreeMap<String, Vec<&Scene>> = BTreeMap::new();
    for scene in scenes {
        groups.entry(scene.agent_key()).or_default().push(scene);
    }
    for scenes in groups.values() {
        if let Some(missing) = Feature::first_missing([(Feature::Acls, scenes[0].needs_acl())]) {
            scenes.iter().for_each(|scene| report(scene, Verdict::NotBuilt(missing.name().to_owned())));
            continue;
        }
        match Agent::start(binary, scenes[0].config()).await {
            Ok(agent) => {
                for scene in scenes {
                    report(scene, play(agent.api.host(), scene).await);
                }
            }
            Err(missing) => scenes.iter().for_each(|scene| report(scene, Verdict::NotBuilt(missing.clone()))),
        }
    }
}

/// A running agent. Dropping it ends the process.
struct Agent {
    api: Api,
    process: Child,
    _dir: TempDir,
}

impl Agent {
    /// Starts an agent with the default configuration and this one, and waits until its node is ready and its first key
    /// exists.
    ///
    /// # Errors
    /// The agent's message if its configuration needs something that is not built.
    async fn start(binary: &Path, config: &Value) -> Result<Self, String> {
        let dir = tempfile::tempdir().expect("a temporary directory can be created");
        let api = Api::new(free_address());
        let (address, port) = api.host().rsplit_once(':').expect("the address has a port");
        let port: u16 = port.parse().expect("the port is a number");
        let default = json!({
            "name": "conformance",
            "bind_addr": address,
            "ports": { "http": port },
        });
        let files = [("default.json", &default), ("scene.json", config)];
        let files = files.map(|(name, content)| {
            let content = if content.is_null() { &json!({}) } else { content };
            let path = dir.path().join(name);
            std::fs::write(&path, content.to_string()).expect("the configuration can be written");
            path
        });
        let log = dir.path().join("log");
        let mut command = Command::new(binary);
        command.args(["agent", "-dev"]).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.args(files.iter().flat_map(|file| [Path::new("-config"), file]));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).expect("the log can be created"));
        let process = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let mut agent = Self { api, process, _dir: dir };
        let end = Instant::now() + TIMEOUT;
        loop {
            let nodes = agent.api.try_get("/v1/nodes").await;
            let keys = agent.api.try_get("/.well-known/jwks.json").await;
            if nodes.is_ok_and(|nodes| nodes[0]["Status"] == "ready")
                && keys.is_ok_and(|keys| keys["keys"][0].is_object())
            {
                return Ok(agent);
            }
            if agent.process.try_wait().expect("the status of a child process can be read").is_some() {
                let log_text = std::fs::read_to_string(&log).unwrap_or_default();
                assert!(log_text.contains("not built"), "the agent exited: {log_text}");
                return Err(log_text
                    .lines()
                    .find(|line| line.contains("not built"))
                    .unwrap_or(&log_text)
                    .to_owned());
            }
            assert!(Instant::now() < end, "the agent did not come up: {}", log.display());
            sleep(POLL_INTERVAL).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).expect("a process id fits into an i32");
        // Fails if the agent has already exited.
        let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        let _ = self.process.wait();
    }
}
