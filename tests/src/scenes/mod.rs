//! Recorded scenes of HTTP (`data/README.md`): conversations with the reference, replayed against a running Drover, and
//! the differences of its responses. `pattern` matches responses, `http` sends requests unchanged, `play` runs the
//! steps of a scene, and `agents` starts the agents that scenes need.

mod agents;
mod http;
mod pattern;
mod play;

use std::path::Path;

use serde_json::Value;

use crate::recorded::{cases_of, files_in};

pub use agents::replay;

/// A list of requests with their expected responses.
#[derive(Debug, Clone)]
pub struct Scene {
    /// `<topic>/<name>`.
    pub name: String,
    json: Value,
}

/// A step to which we respond differently by intent.
#[derive(Debug)]
pub struct Departure {
    scene: &'static str,
    /// The step's number.
    pub step: usize,
    /// How our response differs.
    pub how: &'static str,
    /// Text that the expected difference contains. Any other difference is a failure.
    difference: &'static str,
}

static DEPARTURES: [Departure; 6] = [
    Departure {
        scene: "jobs/register-errors",
        step: 49,
        how: "a volume of an unknown type is refused, and not taken for none",
        difference: "want 200, got 500: 1 error occurred:\n\t* Task group g validation failed: 1 error occurred:\n\t* \
                     Task group volume validation for v failed: 1 error occurred:\n\t* volume has unrecognized type \
                     \"floppy\"",
    },
    Departure {
        scene: "jobs/register-errors",
        step: 51,
        how: "as a consequence, the job is unchanged",
        difference: "body/TaskGroups/0/Tasks/0/Lifecycle: want null, got {\"Hook\":\"prestart\",\"Sidecar\":false}",
    },
    Departure {
        scene: "client/fs-stream",
        step: 15,
        how: "secrets are refused, whether the file is there or not",
        difference: "want 400, got 500: Reading secret file prohibited",
    },
    Departure {
        scene: "deployments/fail-promote",
        step: 7,
        how: "a promotion that promotes nothing leaves the time of the last change",
        difference: "body/ModifyTime: want 0",
    },
    Departure {
        scene: "search/odd",
        step: 10,
        how: "the index of a table that was never written is not 0",
        difference: "body/Index: want 0, got 1",
    },
    Departure {
        scene: "search/fuzzy-odd",
        step: 9,
        how: "the index of a table that was never written is not 0",
        difference: "body/Index: want 0, got 1",
    },
];

/// The outcome of a scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every response was as expected.
    Passed,
    /// The scene needs something that is not built, and the response says so.
    NotBuilt(String),
    /// A response was not as expected.
    Failed(String),
}

/// The scenes of a file or folder. Other lines are skipped.
///
/// # Panics
/// If a file cannot be read.
pub fn scenes_in(path: &Path) -> Vec<Scene> {
    let lines = files_in(path).into_iter().flat_map(|file| cases_of(&file));
    lines
        .filter_map(|line| {
            let name = line.json["scene"].as_str()?.to_owned();
            Some(Scene { name, json: line.json })
        })
        .collect()
}

impl Scene {
    /// Key of the agent that the scene needs. Scenes with the same key may be played to one agent, in any order. A
    /// scene that needs a fresh agent has a key of its own.
    fn agent_key(&self) -> String {
        let needs = &self.json["needs"];
        match needs["fresh"].as_bool() {
            Some(true) => self.name.clone(),
            Some(false) | None => format!("{} {}", needs["acl"], needs["config"]),
        }
    }

    /// The steps to which we respond differently by intent.
    pub fn departures(&self) -> impl Iterator<Item = &'static Departure> {
        DEPARTURES.iter().filter(|departure| departure.scene == self.name)
    }

    /// Whether a step is one of them, and differs only as expected.
    fn departs(&self, step: usize, difference: &str) -> bool {
        self.departures().any(|departure| departure.step == step && difference.contains(departure.difference))
    }

    fn needs_acl(&self) -> bool {
        self.json["needs"]["acl"] == true
    }

    /// The agent's configuration beside the default.
    fn config(&self) -> &Value {
        &self.json["needs"]["config"]
    }

    fn steps(&self) -> &[Value] {
        self.json["steps"].as_array().map_or(&[], Vec::as_slice)
    }
}
