//! Recorded scenes of HTTP (`data/README.md`): conversations with the reference, replayed against a running Drover, and
//! what in its answers is not as recorded. `pattern` says what fits an answer, `http` sends requests as they stand,
//! `play` goes through a scene's steps, and `stage` starts the agents that scenes want.

mod http;
mod pattern;
mod play;
mod stage;

use std::path::Path;

use serde_json::Value;

use crate::recorded::{cases_of, files_in};

pub use stage::replay;

/// A list of requests with the answers that are wanted.
#[derive(Debug, Clone)]
pub struct Scene {
    /// `<topic>/<name>`.
    pub name: String,
    json: Value,
}

/// A step whose recorded answer is not ours.
#[derive(Debug)]
pub struct Departure {
    scene: &'static str,
    /// The step's number.
    pub step: usize,
    /// What is answered instead.
    pub how: &'static str,
    /// What says so in the difference that is found; any other is a failure.
    difference: &'static str,
}

static DEPARTURES: [Departure; 2] = [
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
        how: "so the job is as it was before",
        difference: "body/TaskGroups/0/Tasks/0/Lifecycle: want null, got {\"Hook\":\"prestart\",\"Sidecar\":false}",
    },
];

/// What became of a scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every answer was the wanted one.
    Passed,
    /// It came upon something that is not built, and says so.
    NotBuilt(String),
    /// An answer was another one.
    Failed(String),
}

/// The scenes of a file or folder; lines that are none are left out.
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
    /// What the agent must be like: scenes that want the same may be played to one agent, in any order, unless they want
    /// it to have seen nothing else.
    fn stage(&self) -> String {
        let needs = &self.json["needs"];
        match needs["fresh"].as_bool() {
            Some(true) => self.name.clone(),
            Some(false) | None => format!("{} {}", needs["acl"], needs["config"]),
        }
    }

    /// Its steps that are answered otherwise than recorded, and how.
    pub fn departures(&self) -> impl Iterator<Item = &'static Departure> {
        DEPARTURES.iter().filter(|departure| departure.scene == self.name)
    }

    /// Whether a step is one of them, and differs by that alone.
    fn departs(&self, step: usize, difference: &str) -> bool {
        self.departures().any(|departure| departure.step == step && difference.contains(departure.difference))
    }

    fn needs_acl(&self) -> bool {
        self.json["needs"]["acl"] == true
    }

    /// What the agent's configuration says beside the usual.
    fn config(&self) -> &Value {
        &self.json["needs"]["config"]
    }

    fn steps(&self) -> &[Value] {
        self.json["steps"].as_array().map_or(&[], Vec::as_slice)
    }
}
