//! Rules for the manifests of members: allowed dependencies between crates, what pure crates may depend on, and that
//! versions and lints are set once.

use std::path::Path;

use serde_json::Value;

const SERVICES: &[&str] =
    &["agent", "api", "deployment-watcher", "eval-broker", "node-tracker", "plan-applier", "scheduler"];

/// All crates of this repository, lowest first, each with those that it may depend on. A new crate must be added here,
/// with its allowed dependencies.
const ALLOWED_DEPENDENCIES: &[(&str, &[&[&str]])] = &[
    ("api-types", &[]),
    ("model", &[&["api-types"]]),
    ("state", &[MODEL_AND_BELOW]),
    ("wire", &[MODEL_AND_BELOW]),
    ("planted-bugs", &[]),
    ("dir-lock", &[]),
    ("nats-auth", &[&["wire"], MODEL_AND_BELOW]),
    ("private-servers", &[&["dir-lock", "nats-auth", "wire"], MODEL_AND_BELOW]),
    ("telemetry", &[WIRE_STATE_AND_BELOW]),
    ("bus", &[WIRE_STATE_AND_BELOW, &["planted-bugs", "nats-auth", "telemetry", "private-servers"]]),
    ("singleton", &[WIRE_STATE_AND_BELOW, &["bus", "telemetry"]]),
    // `model` measures regular expressions, and tests canonicalise parsed jobs, as in the recorded answers.
    ("jobspec", &[MODEL_AND_BELOW]),
    ("hcl1", &[]),
    ("scheduling", &[&["state", "model"]]),
    ("store", &[WIRE_STATE_AND_BELOW, &["telemetry", "private-servers"]]),
    ("agent", &[SHARED]),
    ("api", &[SHARED]),
    ("deployment-watcher", &[SHARED]),
    ("eval-broker", &[SHARED]),
    ("node-tracker", &[SHARED]),
    ("plan-applier", &[SHARED]),
    ("scheduler", &[SHARED]),
    ("drover", &[SERVICES, SHARED]),
    ("simulation", &[SERVICES, SHARED]),
    ("tests", &[&["drover"], SERVICES, SHARED]),
    ("fuzz", &[&["tests", "drover"], SERVICES, SHARED]),
];
const MODEL_AND_BELOW: &[&str] = &["model", "api-types"];
const WIRE_STATE_AND_BELOW: &[&str] = &["wire", "state", "model", "api-types"];
const SHARED: &[&str] = &[
    "bus",
    "nats-auth",
    "store",
    "telemetry",
    "scheduling",
    "singleton",
    "jobspec",
    "hcl1",
    "planted-bugs",
    "private-servers",
    "dir-lock",
    "wire",
    "state",
    "model",
    "api-types",
];

const PURE: &[&str] = &["api-types", "hcl1", "jobspec", "model", "nats-auth", "scheduling"];

/// Crates that are named like a family of [`IO_CRATES`] but do not belong to it.
const NAMESAKES: &[&str] = &["smol_str"];

/// Crates for runtimes, I/O and randomness. A name stands for its family too: `actix` for `actix-web`.
const IO_CRATES: &[&str] = &[
    "actix",
    "async",
    "bollard",
    "fastrand",
    "getrandom",
    "hyper",
    "mio",
    "nix",
    "opentelemetry",
    "rand",
    "reqwest",
    "rustix",
    "smol",
    "socket2",
    "sqlx",
    "tokio",
    "ureq",
];

/// Drivers of external systems, and the only crate that may depend on each.
const DRIVERS: &[(&str, &str)] = &[("async-nats", "bus"), ("sqlx", "store"), ("sqlx-core", "store")];

/// One crate of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Member {
    name: String,
    directory: String,
    manifest: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Default)]
struct Dependency {
    name: String,
    /// Whether it is a crate of this repository.
    ours: bool,
    /// Whether it is for tests, benches and examples only.
    dev: bool,
    features: Vec<String>,
    default_features: bool,
}

/// Reads the output of `cargo metadata`. `read` returns a manifest's text by its path.
pub(crate) fn members(metadata: &Value, read: impl Fn(&str) -> String) -> Vec<Member> {
    elements(metadata, "packages")
        .iter()
        .map(|package| {
            let path = text(package, "manifest_path");
            let directory = Path::new(&path).parent().and_then(Path::file_name);
            Member {
                name: text(package, "name"),
                directory: directory.expect("a member has a directory").to_string_lossy().into_owned(),
                manifest: read(&path),
                dependencies: elements(package, "dependencies").iter().map(dependency).collect(),
            }
        })
        .collect()
}

fn dependency(metadata: &Value) -> Dependency {
    Dependency {
        name: text(metadata, "name"),
        ours: metadata["path"].is_string(),
        dev: metadata["kind"] == "dev",
        features: elements(metadata, "features")
            .iter()
            .map(|feature| feature.as_str().expect("features are strings").to_owned())
            .collect(),
        default_features: metadata["uses_default_features"] == true,
    }
}

fn elements<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("cargo metadata has a list `{key}`"))
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("cargo metadata has a string `{key}`")).to_owned()
}

/// Reports dependencies of any kind on crates of this repository that [`ALLOWED_DEPENDENCIES`] does not allow, and
/// members that it does not list.
pub(crate) fn forbidden_dependencies(members: &[Member]) -> Vec<String> {
    let mut faults = Vec::new();
    for member in members {
        let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(name, _)| *name == member.name) else {
            faults.push(format!(
                "{} is not in ALLOWED_DEPENDENCIES: add it there, with its allowed dependencies",
                member.name
            ));
            continue;
        };
        for dependency in member.dependencies.iter().filter(|dependency| dependency.ours) {
            if !allowed.concat().contains(&dependency.name.as_str()) {
                faults.push(format!("{} depends on {}", member.name, dependency.name));
            }
        }
    }
    faults
}

/// Reports dependencies of pure crates, and of `state`, on crates for I/O.
pub(crate) fn impurities(members: &[Member]) -> Vec<String> {
    let mut faults = Vec::new();
    for member in members {
        for dependency in &member.dependencies {
            let pure = if member.name == "state" {
                // Watches of `state` wake waiters. Its tests need a runtime to wait.
                dependency.dev || is_tokio_sync(dependency) || !is_io_crate(&dependency.name)
            } else {
                !PURE.contains(&member.name.as_str()) || !is_io_crate(&dependency.name)
            };
            if !pure {
                let features = dependency.features.join(", ");
                faults.push(format!("{} depends on {} [{features}]", member.name, dependency.name));
            }
        }
    }
    faults
}

fn is_tokio_sync(dependency: &Dependency) -> bool {
    dependency.name == "tokio" && dependency.features == ["sync"] && !dependency.default_features
}

fn is_io_crate(name: &str) -> bool {
    !NAMESAKES.contains(&name)
        && IO_CRATES.iter().any(|family| {
            name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
        })
}

/// Reports drivers on which another crate than their owner depends.
pub(crate) fn drivers_outside_owner(members: &[Member]) -> Vec<String> {
    let mut faults = Vec::new();
    for member in members {
        for (driver, owner) in DRIVERS {
            if member.name != *owner
                && member.dependencies.iter().any(|dependency| dependency.name == *driver)
            {
                faults.push(format!("{} depends on {driver}, which only {owner} may use", member.name));
            }
        }
    }
    faults
}

/// Reports members other than `tests` that enable failpoints.
pub(crate) fn enabled_failpoints(members: &[Member]) -> Vec<String> {
    let switches_on = |member: &&Member| {
        let features = member.dependencies.iter().filter(|dependency| dependency.name == "fail");
        features.flat_map(|dependency| &dependency.features).any(|feature| feature == "failpoints")
    };
    let others = members.iter().filter(|member| member.name != "tests");
    others.filter(switches_on).map(|member| format!("{} enables failpoints", member.name)).collect()
}

/// Reports settings of the workspace that a member does not inherit.
pub(crate) fn missing_opt_ins(members: &[Member]) -> Vec<String> {
    let mut faults = Vec::new();
    for member in members {
        for (wanted_section, wanted_line) in [
            ("package", "edition.workspace = true"),
            ("package", "license.workspace = true"),
            ("package", "publish.workspace = true"),
            ("package", "rust-version.workspace = true"),
            ("package", "version.workspace = true"),
            ("lints", "workspace = true"),
        ] {
            if !entries(&member.manifest)
                .any(|(section, line)| section == wanted_section && line == wanted_line)
            {
                faults.push(format!("{}: [{wanted_section}] lacks `{wanted_line}`", member.name));
            }
        }
    }
    faults
}

/// Reports dependencies that a member does not take from the workspace.
pub(crate) fn own_versions(members: &[Member]) -> Vec<String> {
    let mut faults = Vec::new();
    for member in members {
        for (section, line) in entries(&member.manifest) {
            let inherited = line.contains(".workspace = true") || line.contains("{ workspace = true");
            // A separate table such as `[dependencies.serde]` is easy to overlook.
            let in_list = section.ends_with("dependencies");
            if section.contains("dependencies") && !(inherited && in_list) {
                faults.push(format!("{}: [{section}] {line}", member.name));
            }
        }
    }
    faults
}

/// The `key = value` entries of a manifest, each with its section's name, without the further lines of an entry.
fn entries(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut section = "";
    let mut open_brackets = 0_usize;
    manifest.lines().filter_map(move |line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let continued = open_brackets > 0;
        open_brackets = (open_brackets + line.matches(['[', '{']).count())
            .saturating_sub(line.matches([']', '}']).count());
        if continued || line.is_empty() {
            None
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']);
            None
        } else {
            Some((section, line))
        }
    })
}

/// Reports crates whose directory has another name.
pub(crate) fn misnamed(members: &[Member]) -> Vec<String> {
    members
        .iter()
        .filter(|member| member.directory != member.name)
        .map(|member| format!("{} is in {}", member.name, member.directory))
        .collect()
}

#[test]
fn allowed_dependencies_are_lower_in_the_table() {
    for (at, (name, allowed)) in ALLOWED_DEPENDENCIES.iter().enumerate() {
        for below in allowed.concat() {
            assert!(
                ALLOWED_DEPENDENCIES[..at].iter().any(|(lower, _)| *lower == below),
                "{name} may depend on {below}, which is not lower"
            );
        }
    }
}

#[test]
fn finds_forbidden_dependencies() {
    let members = [
        member("wire").on(ours("model")).on(ours("state")),
        member("jobspec").on(ours("state")),
        member("scheduling").on(ours("state")).on(dev(ours("wire"))),
        member("api").on(ours("bus")).on(ours("scheduler")),
        member("drover").on(ours("scheduler")),
        member("tests").on(ours("drover")).on(ours("api")),
        member("newcomer"),
    ];
    assert_eq!(
        forbidden_dependencies(&members),
        [
            "wire depends on state",
            "jobspec depends on state",
            "scheduling depends on wire",
            "api depends on scheduler",
            "newcomer is not in ALLOWED_DEPENDENCIES: add it there, with its allowed dependencies",
        ]
    );
}

#[test]
fn finds_impurities() {
    let members = [
        member("model").on(theirs("serde")).on(theirs("smol_str")).on(theirs("tokio-util")),
        member("scheduling").on(theirs("randomly-named")).on(dev(theirs("rand"))),
        member("state").on(Dependency { features: vec!["sync".into()], ..theirs("tokio") }),
        member("state").on(Dependency { features: vec!["sync".into(), "time".into()], ..theirs("tokio") }),
        member("state").on(Dependency {
            features: vec!["sync".into()],
            default_features: true,
            ..theirs("tokio")
        }),
        member("state").on(theirs("reqwest")).on(dev(theirs("tokio"))),
        member("bus").on(theirs("tokio")),
    ];
    assert_eq!(
        impurities(&members),
        [
            "model depends on tokio-util []",
            "scheduling depends on rand []",
            "state depends on tokio [sync, time]",
            "state depends on tokio [sync]",
            "state depends on reqwest []",
        ]
    );
}

#[test]
fn finds_drivers_outside_their_owner() {
    let members = [
        member("store").on(theirs("sqlx")),
        member("bus").on(theirs("async-nats")),
        member("api").on(theirs("sqlx")).on(dev(theirs("async-nats"))),
    ];
    assert_eq!(
        drivers_outside_owner(&members),
        [
            "api depends on async-nats, which only bus may use",
            "api depends on sqlx, which only store may use"
        ]
    );
}

#[test]
fn finds_enabled_failpoints() {
    let on = || Dependency { features: vec!["failpoints".into()], ..theirs("fail") };
    let members = [
        member("store").on(theirs("fail")),
        member("bus").on(on()),
        member("plan-applier").on(dev(on())),
        member("tests").on(on()),
    ];
    assert_eq!(enabled_failpoints(&members), ["bus enables failpoints", "plan-applier enables failpoints"]);
}

#[test]
fn finds_missing_opt_ins() {
    let manifest = "
        [package]
        edition.workspace = true
        license = \"MIT\"
        publish.workspace = true
        rust-version.workspace = true # the toolchain
        version.workspace = true
        workspace = true
        [lints]
    ";
    assert_eq!(
        missing_opt_ins(&[member("model").with_manifest(manifest)]),
        ["model: [package] lacks `license.workspace = true`", "model: [lints] lacks `workspace = true`"]
    );
}

#[test]
fn finds_own_versions() {
    let manifest = "
        [package]
        version = \"1\"
        [dependencies]
        serde.workspace = true
        tokio = { workspace = true, features = [
            \"sync\",
        ] }
        bytes = \"1\" # not .workspace = true
        model = { path = \"../model\" }
        [dependencies.uuid]
        workspace = true
        [target.'cfg(unix)'.dev-dependencies]
        nix = { version = \"0.31\" }
    ";
    assert_eq!(
        own_versions(&[member("wire").with_manifest(manifest)]),
        [
            "wire: [dependencies] bytes = \"1\"",
            "wire: [dependencies] model = { path = \"../model\" }",
            "wire: [dependencies.uuid] workspace = true",
            "wire: [target.'cfg(unix)'.dev-dependencies] nix = { version = \"0.31\" }",
        ]
    );
}

#[test]
fn finds_misnamed_directories() {
    let moved = Member { directory: "shared-model".into(), ..member("model") };
    assert_eq!(misnamed(&[member("wire"), moved]), ["model is in shared-model"]);
}

#[test]
fn reads_cargo_metadata() {
    let metadata = serde_json::json!({ "packages": [{
        "name": "state",
        "manifest_path": "/drover/shared/state/Cargo.toml",
        "dependencies": [
            { "name": "model", "kind": null, "features": [], "uses_default_features": true, "path": "/drover/shared/model" },
            { "name": "tokio", "kind": "dev", "features": ["sync"], "uses_default_features": false },
        ],
    }] });
    let members = members(&metadata, |path| format!("text of {path}"));
    assert_eq!(members[0].name, "state");
    assert_eq!(members[0].directory, "state");
    assert_eq!(members[0].manifest, "text of /drover/shared/state/Cargo.toml");
    let [model, tokio] = &members[0].dependencies[..] else { panic!("the member has two dependencies") };
    assert!(model.ours && !model.dev && model.default_features);
    assert!(!tokio.ours && tokio.dev && is_tokio_sync(tokio));
}

impl Member {
    fn on(mut self, dependency: Dependency) -> Self {
        self.dependencies.push(dependency);
        self
    }

    fn with_manifest(mut self, manifest: &str) -> Self {
        self.manifest = manifest.into();
        self
    }
}

fn member(name: &str) -> Member {
    Member { name: name.into(), directory: name.into(), ..Member::default() }
}

fn theirs(name: &str) -> Dependency {
    Dependency { name: name.into(), ..Dependency::default() }
}

fn ours(name: &str) -> Dependency {
    Dependency { ours: true, ..theirs(name) }
}

fn dev(dependency: Dependency) -> Dependency {
    Dependency { dev: true, ..dependency }
}
