//! Agents for scenes: each group of scenes that may share one gets a fresh one, a server and a client in one process with a
//! database and a nats-server of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// Plays scenes to agents that are started for them, and hands on what became of each.
///
/// # Panics
/// If an agent does not come up, for another reason than that what a scene wants of it is not built.
pub async fn replay(binary: &Path, scenes: &[Scene], mut tell: impl FnMut(&Scene, Verdict)) {
    let mut stages: BTreeMap<String, Vec<&Scene>> = BTreeMap::new();
    for scene in scenes {
        stages.entry(scene.stage()).or_default().push(scene);
    }
    for scenes in stages.values() {
        if scenes[0].needs_acl() {
            scenes.iter().for_each(|scene| tell(scene, Verdict::NotBuilt("access control".to_owned())));
            continue;
        }
        match Agent::start(binary, scenes[0].config()).await {
            Ok(agent) => {
                for scene in scenes {
                    tell(scene, play(agent.api.host(), scene).await);
                }
            }
            Err(missing) => scenes.iter().for_each(|scene| tell(scene, Verdict::NotBuilt(missing.clone()))),
        }
    }
}

/// A running agent; it ends with this.
struct Agent {
    api: Api,
    process: Child,
    _dir: TempDir,
}

impl Agent {
    /// Starts one with the usual configuration and this, and waits until its node is ready and its first key is made.
    ///
    /// # Errors
    /// With what it says is not built of its configuration.
    async fn start(binary: &Path, config: &Value) -> Result<Self, String> {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let api = Api::new(free_address());
        let (address, port) = api.host().rsplit_once(':').expect("it has a port");
        let port: u16 = port.parse().expect("it is a number");
        let usual = json!({
            "name": "conformance",
            "bind_addr": address,
            "ports": { "http": port },
        });
        let files = [("usual.json", &usual), ("scene.json", config)];
        let files = files.map(|(name, content)| {
            let content = if content.is_null() { &json!({}) } else { content };
            let path = dir.path().join(name);
            std::fs::write(&path, content.to_string()).expect("temporary files can be written");
            path
        });
        let log = dir.path().join("log");
        let mut command = Command::new(binary);
        command.args(["agent", "-dev"]).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.args(files.iter().flat_map(|file| [Path::new("-config"), file]));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).expect("temporary files can be written"));
        let process = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let mut agent = Self { api, process, _dir: dir };
        let end = Instant::now() + PATIENCE;
        loop {
            let nodes = agent.api.try_get("/v1/nodes").await;
            let keys = agent.api.try_get("/.well-known/jwks.json").await;
            if nodes.is_ok_and(|nodes| nodes[0]["Status"] == "ready")
                && keys.is_ok_and(|keys| keys["keys"][0].is_object())
            {
                return Ok(agent);
            }
            if agent.process.try_wait().expect("one's own children can be waited for").is_some() {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                assert!(said.contains("not built"), "the agent ended: {said}");
                return Err(said.lines().find(|line| line.contains("not built")).unwrap_or(&said).to_owned());
            }
            assert!(Instant::now() < end, "the agent did not come up: {}", log.display());
            sleep(LOOK).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).expect("process ids are small");
        // Fails if it has ended by itself; then there is nothing to end.
        let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        let _ = self.process.wait();
    }
}
