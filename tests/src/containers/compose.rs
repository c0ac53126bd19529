//! The compose file of the repository, unchanged, in a private Docker engine.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::engine::{Engine, configuration};
use super::{cache, make_dir, run};
use crate::skips::root;

/// The Go module that pins the version of Compose.
const MODULE: &str = "tests/clients/compose";
/// The package of its program, and the plug-in's path below the client's configuration.
const PACKAGE: &str = "github.com/docker/compose/v2";
const PLUGIN: &str = "cli-plugins/docker-compose";

/// The repository's compose file, run by an engine.
#[derive(Debug)]
pub struct Project<'a> {
    engine: &'a Engine,
}

/// A container of the project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    /// The container's name, such as `drover-api-1`.
    pub name: String,
    /// The service of the container.
    pub service: String,
    /// Whether the container runs and its health check succeeds, if it has one.
    pub healthy: bool,
}

/// Returns why Compose is not available, or `None` if it is. The first call builds Compose, which takes a minute and
/// needs the network.
pub fn unavailable() -> Option<String> {
    let plugin = configuration().join(PLUGIN);
    if plugin.exists() {
        return None;
    }
    if Command::new("go").arg("version").output().is_err() {
        return Some("there is no Go toolchain to build Docker Compose with".to_owned());
    }
    let module = root().join(MODULE);
    let go = |arguments: &[&str]| Command::new("go").args(arguments).current_dir(&module).output();
    if !go(&["mod", "download"]).is_ok_and(|output| output.status.success()) {
        return Some("the module of Docker Compose cannot be downloaded".to_owned());
    }
    let version =
        run(Command::new("go").args(["list", "-m", "-f", "{{.Version}}", PACKAGE]).current_dir(&module));
    let built = cache().join("docker-compose");
    let flags = format!("-s -w -X {PACKAGE}/internal.Version={version}");
    run(Command::new("go")
        .args(["build", "-trimpath", "-ldflags", &flags, "-o"])
        .arg(&built)
        .arg(format!("{PACKAGE}/cmd"))
        .current_dir(&module));
    make_dir(plugin.parent().expect("the plug-in's path has a parent"));
    fs::rename(built, plugin).expect("a file can be renamed");
    None
}

impl<'a> Project<'a> {
    /// The compose file in this engine. Nothing is started yet.
    pub fn new(engine: &'a Engine) -> Self {
        Self { engine }
    }

    /// Returns a command of Compose.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.engine.docker(&["compose", "--ansi", "never", "--progress", "quiet"]);
        // Settings for another cluster in an `.env` file must not apply to this one.
        command.args(["--env-file", "/dev/null"]);
        command.args(arguments).current_dir(root());
        command
    }

    /// Runs a command of Compose and returns its output.
    ///
    /// # Panics
    /// If it fails. The message has the last lines of every container's log.
    pub fn run(&self, arguments: &[&str]) -> String {
        /// Lines of each container's log.
        const LOG_TAIL_LINES: usize = 8;
        let output = self.command(arguments).output().expect("the plug-in is installed");
        assert!(
            output.status.success(),
            "docker compose {arguments:?} failed: {}\n{}",
            super::output_text(&output),
            self.engine.log_tails(LOG_TAIL_LINES)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The file as Compose resolves it, with a profile (`*` means all).
    ///
    /// # Panics
    /// If Compose refuses it.
    pub fn resolved(&self, profile: &str) -> Value {
        let text = self.run(&["--profile", profile, "config", "--format", "json"]);
        serde_json::from_str(&text).expect("Compose prints JSON")
    }

    /// The images of the default profile.
    ///
    /// # Panics
    /// If Compose refuses the file.
    pub fn images(&self) -> Vec<String> {
        let mut images: Vec<String> = self.run(&["config", "--images"]).lines().map(str::to_owned).collect();
        images.sort();
        images.dedup();
        images
    }

    /// The running containers by name.
    ///
    /// # Panics
    /// If the engine does not answer.
    pub fn containers(&self) -> BTreeMap<String, Container> {
        let format = "{{.Names}}\t{{.Label \"com.docker.compose.service\"}}\t{{.Status}}";
        let text = self.engine.run(&["ps", "--format", format]);
        let containers = text.lines().map(|line| {
            let mut columns = line.split('\t').map(str::to_owned);
            let mut next = || columns.next().unwrap_or_default();
            let (name, service, status) = (next(), next(), next());
            // Such as `Up 3 seconds (healthy)`. A container without a health check has no parenthesis.
            let healthy = status.contains("(healthy)") || !status.contains('(');
            (name.clone(), Container { name, service, healthy })
        });
        containers.collect()
    }
}
