//! Reads recorded cluster states (`data/README.md`), and makes a [`State`] of them.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api_types::decode;
use model::alloc::Allocation;
use model::change::{Cause, Change, ChangeSet};
use model::cluster::{Namespace, NodePool, SchedulerConfig};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::Job;
use model::node::Node;
use model::volume::{CsiVolume, HostVolume, VolumeClaim};
use model::{Index, JobKey, JobVersionKey, RequestId};
use serde_json::Value;
use state::State;

use crate::build::NOW;

/// One recorded case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Topic and number.
    pub name: String,
    /// The whole case.
    pub json: Value,
}

/// Every recorded case and every handwritten one, in the order of their files' names.
///
/// # Panics
/// If a file cannot be read or is malformed. This holds for all functions here.
pub fn cases() -> impl Iterator<Item = Case> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut files = files_in(&data.join("scheduling"));
    files.push(data.join("made-up.jsonl"));
    files.sort();
    files.into_iter().flat_map(|file| cases_of(&file))
}

/// The files with cases below a folder, or the given file.
pub fn files_in(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entries = entries.map(|entry| entry.expect("the directory can be listed").path());
    let mut files: Vec<PathBuf> = entries
        .flat_map(|path| match path.is_dir() {
            true => files_in(&path),
            false => vec![path],
        })
        .filter(|file| {
            let name = file.to_string_lossy();
            name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
        })
        .collect();
    files.sort();
    files
}

/// The cases of a file, one per line. The file may be compressed.
pub fn cases_of(file: &Path) -> Vec<Case> {
    let fail = |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", file.display()) };
    let mut bytes = fs::read(file).unwrap_or_else(|error| fail(&error));
    if file.extension().is_some_and(|extension| extension == "gz") {
        let mut plain = Vec::new();
        let read = flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain);
        read.unwrap_or_else(|error| fail(&error));
        bytes = plain;
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|error| fail(&error));
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let json: Value = serde_json::from_str(line).unwrap_or_else(|error| fail(&error));
            let name = json["name"].as_str().unwrap_or("a case without a name").to_owned();
            Case { name, json }
        })
        .collect()
}

impl Case {
    /// The recorded objects of one kind, for instance `nodes`.
    pub fn objects(&self, kind: &str) -> &[Value] {
        self.json["state"][kind].as_array().map_or(&[], Vec::as_slice)
    }

    /// The evaluation to process.
    pub fn eval(&self) -> Option<Evaluation> {
        self.json.get("eval").map(|json| self.read(json, Evaluation::from_api))
    }

    /// The state as a change set that creates it from an empty one.
    pub fn changes(&self) -> ChangeSet {
        let mut changes = Vec::new();
        changes.extend(self.read_each("nodes", Node::from_api).map(Box::new).map(Change::Node));
        changes.extend(self.read_each("jobs", Job::from_api).map(Arc::new).map(Change::Job));
        for json in self.objects("allocs") {
            let job = self.job_of(json);
            let alloc = self.read(json, |api| Allocation::from_api(api, job.clone()));
            changes.push(Change::Alloc(Box::new(alloc)));
        }
        // Purged jobs exist only in their allocations.
        let purged = self.objects("purged_jobs").iter().map(|id| JobKey::new("default", text(id)));
        changes.extend(purged.map(Change::JobDeleted));
        changes.extend(
            self.read_each("deployments", Deployment::from_api).map(Arc::new).map(Change::Deployment),
        );
        changes.extend(self.read_each("evals", Evaluation::from_api).map(Arc::new).map(Change::Eval));
        changes.extend(self.read_each("node_pools", NodePool::from_api).map(Box::new).map(Change::NodePool));
        changes
            .extend(self.read_each("namespaces", Namespace::from_api).map(Box::new).map(Change::Namespace));
        changes.extend(
            self.read_each("host_volumes", HostVolume::from_api).map(Box::new).map(Change::HostVolume),
        );
        changes
            .extend(self.read_each("csi_volumes", CsiVolume::from_api).map(Box::new).map(Change::CsiVolume));
        changes.extend(
            self.read_each("volume_claims", VolumeClaim::from_api).map(Box::new).map(Change::VolumeClaim),
        );
        let config = self.json["state"].get("scheduler_config");
        changes
            .extend(config.map(|json| Change::SchedulerConfig(self.read(json, SchedulerConfig::from_api))));
        ChangeSet {
            index: Index(self.json["state"]["index"].as_u64().unwrap_or(1)),
            at: NOW,
            request_id: RequestId::from_bytes([1; 16]),
            cause: Cause::Settings,
            trace: None,
            result: Vec::new(),
            changes,
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        let mut state = State::default();
        state.load(&self.changes()).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        state
    }

    fn read_each<T, A: serde::de::DeserializeOwned, E: std::fmt::Display>(
        &self,
        kind: &str,
        from_api: impl Fn(A) -> Result<T, E>,
    ) -> impl Iterator<Item = T> {
        self.objects(kind).iter().map(move |json| self.read(json, &from_api))
    }

    fn read<T, A: serde::de::DeserializeOwned, E: std::fmt::Display>(
        &self,
        json: &Value,
        from_api: impl Fn(A) -> Result<T, E>,
    ) -> T {
        let api =
            decode::from_slice(json.to_string().as_bytes()).expect("recorded objects have the API's form");
        from_api(api).unwrap_or_else(|error| panic!("{}, {}: {error}", self.name, json["ID"]))
    }

    /// The job version that an allocation runs. Without a create index, it is of the newest incarnation.
    pub fn job_of(&self, alloc: &Value) -> JobVersionKey {
        let number = |object: &Value, member: &str| object[member].as_u64().unwrap_or(0);
        let version = number(alloc, "JobVersion");
        let candidates = self.objects("jobs").iter().filter(|job| {
            (&job["Namespace"], &job["ID"], number(job, "Version"))
                == (&alloc["Namespace"], &alloc["JobID"], version)
        });
        let newest = candidates.map(|job| number(job, "CreateIndex")).max();
        let create_index =
            alloc["JobCreateIndex"].as_u64().or(newest).expect("the allocation's job is in the state");
        JobVersionKey {
            job: JobKey::new(text(&alloc["Namespace"]), text(&alloc["JobID"])),
            create_index: Index(create_index),
            version,
        }
    }
}

fn text(json: &Value) -> &str {
    json.as_str().expect("the member is a string")
}
