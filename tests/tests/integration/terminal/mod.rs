//! A script of command lines on one cluster with work in every state: exit codes, columns, keys, the shape of JSON, and
//! templates, as `docs/rules/cli.md` has them. The command lines are in [`lines`].

mod lines;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tests::harness::api::{Api, array, text};
use tests::harness::{jobs, wait_until};

use self::lines::LINES;
use crate::BINARY;
use crate::dev::Dev;

/// Minimum number of command lines.
const LINES_MIN: usize = 150;
/// The example that is planned, run and stopped.
const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hello.nomad.hcl");
const SECOND: i64 = 1_000_000_000;

/// A command line and what it does.
#[derive(Debug)]
struct Line {
    /// The words behind `drover`. Quotes hold a word together; names in braces stand for ids of the scene.
    command: &'static str,
    exit: i32,
    expect: Expect,
}

/// What a command prints.
#[derive(Debug)]
enum Expect {
    /// Its first line has these columns, separated by `|`.
    Columns(&'static str),
    /// Its first lines are keys and values with these keys, separated by `|`.
    Keys(&'static str),
    /// A JSON list that is not empty, of objects with these members.
    List(&'static str),
    /// A JSON object with these members.
    Object(&'static str),
    /// This text and nothing else.
    Is(&'static str),
    /// This text among others.
    Text(&'static str),
    /// This text, on standard error.
    Error(&'static str),
}

/// A command line that succeeds.
const fn ok(command: &'static str, expect: Expect) -> Line {
    Line { command, exit: 0, expect }
}

/// A command line that ends with this exit code.
const fn exits(command: &'static str, exit: i32, expect: Expect) -> Line {
    Line { command, exit, expect }
}

/// A command line that fails with this text on standard error.
const fn fails(command: &'static str, text: &'static str) -> Line {
    Line { command, exit: 1, expect: Expect::Error(text) }
}

/// Names and values of what stands in braces.
type Names = Vec<(&'static str, String)>;

fn with_names(text: &str, names: &Names) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// The words of a command line.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in command.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

impl Expect {
    /// What is wrong with the output.
    fn fault(&self, stdout: &str, stderr: &str, names: &Names) -> Option<String> {
        let first = stdout.lines().next().unwrap_or_default();
        let (is_right, expected) = match self {
            Self::Columns(columns) => {
                let found: Vec<&str> =
                    first.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
                (found.join("|") == *columns, (*columns).to_owned())
            }
            Self::Keys(keys) => {
                let count = keys.split('|').count();
                let keys_of = stdout.lines().take(count).filter_map(|line| line.split_once(" = "));
                let found: Vec<&str> = keys_of.map(|(key, _)| key.trim()).collect();
                (found.join("|") == *keys, (*keys).to_owned())
            }
            Self::List(members) => {
                let list: Value = serde_json::from_str(stdout).unwrap_or_default();
                let all_have = array(&list).iter().all(|object| has_members(object, members));
                (!array(&list).is_empty() && all_have, format!("objects with {members}"))
            }
            Self::Object(members) => {
                let object: Value = serde_json::from_str(stdout).unwrap_or_default();
                (has_members(&object, members), format!("an object with {members}"))
            }
            Self::Is(text) => {
                let expected = with_names(text, names);
                (stdout.trim() == expected, expected)
            }
            Self::Text(text) => {
                let expected = with_names(text, names);
                (stdout.contains(&expected), expected)
            }
            Self::Error(text) => {
                let expected = with_names(text, names);
                (stderr.contains(&expected), expected)
            }
        };
        (!is_right).then(|| format!("expected {expected:?}"))
    }
}

/// Whether an object has all these members, separated by `|`.
fn has_members(object: &Value, members: &str) -> bool {
    members.split('|').all(|member| object.get(member).is_some())
}

/// Registers work in every state, and waits until it is there. Returns the ids by the names of the scene.
async fn scene(api: &Api) -> Names {
    let mut web = jobs::mock_service("web", 2);
    let group = &mut web["Job"]["TaskGroups"][0];
    group["Update"] = json!({
        "MaxParallel": 2,
        "HealthCheck": "task_states",
        "MinHealthyTime": SECOND / 5,
        "HealthyDeadline": 120 * SECOND,
        "ProgressDeadline": 240 * SECOND,
    });
    group["Scaling"] = json!({ "Min": 0, "Max": 4, "Policy": { "a": 1 } });
    let mut big = jobs::mock_service("big", 1);
    big["Job"]["TaskGroups"][0]["Tasks"][0]["Resources"]["MemoryMB"] = json!(4_000_000);
    let mut nightly = jobs::batch("nightly", "true");
    nightly["Job"]["Periodic"] = json!({ "Specs": ["0 0 1 1 *"], "SpecType": "cron", "Enabled": true });
    let mut call = jobs::batch("call", "true");
    call["Job"]["ParameterizedJob"] = json!({ "Payload": "optional", "MetaRequired": ["who"] });
    let all = [
        web,
        big,
        nightly,
        call,
        jobs::batch("done", "echo hello"),
        jobs::batch("broken", "echo oops >&2; exit 3"),
        jobs::mock_on_every_node("always", "system", "1h"),
        jobs::mock_service("gone", 1),
    ];
    for job in &all {
        api.put("/v1/jobs", job).await;
    }
    api.put("/v1/job/call/dispatch", &json!({ "Meta": { "who": "me" } })).await;
    api.delete("/v1/job/gone").await;

    let mut names = vec![("hello", HELLO.to_owned())];
    for (name, job, status) in [
        ("web", "web", "running"),
        ("done", "done", "complete"),
        ("broken", "broken", "failed"),
        ("always", "always", "running"),
    ] {
        names.push((name, alloc(api, job, status).await));
    }
    let path = "/v1/job/web/deployment";
    let deployment = wait_until(
        "the deployment is successful",
        async || {
            let found = api.try_get(path).await.ok()?;
            (text(&found, "Status") == "successful").then_some(found)
        },
        String::new,
    );
    names.push(("deployment", text(&deployment.await, "ID").to_owned()));
    names.push(("eval", eval(api, "web", "job-register", "complete").await));
    names.push(("blocked", eval(api, "big", "queued-allocs", "blocked").await));
    let is_ended = async || {
        let gone = api.try_get("/v1/job/gone").await.ok()?;
        (text(&gone, "Status") == "dead").then_some(())
    };
    wait_until("the stopped job is dead", is_ended, String::new).await;
    let is_whole = async || {
        let cluster = api.try_get("/v1/cluster").await.ok()?;
        array(&cluster["WithoutActive"]).is_empty().then_some(())
    };
    wait_until("every service has an active process", is_whole, String::new).await;
    let nodes = api.get("/v1/nodes").await;
    names.push(("node", text(&array(&nodes)[0], "ID").to_owned()));
    let policies = api.get("/v1/scaling/policies").await;
    names.push(("policy", text(&array(&policies)[0], "ID").to_owned()));
    names
}

/// Waits until a job has an allocation with this status, and all of its allocations have it. Returns its id.
async fn alloc(api: &Api, job: &str, status: &str) -> String {
    let look = async || {
        let allocs = api.try_get(&format!("/v1/job/{job}/allocations")).await.ok()?;
        let allocs = array(&allocs);
        let are_all = allocs.iter().all(|alloc| text(alloc, "ClientStatus") == status);
        allocs.first().filter(|_| are_all).map(|alloc| text(alloc, "ID").to_owned())
    };
    wait_until(&format!("the allocations of {job} are {status}"), look, String::new).await
}

/// Waits until a job has an evaluation with this trigger and status. Returns its id.
async fn eval(api: &Api, job: &str, trigger: &str, status: &str) -> String {
    let look = async || {
        let evals = api.try_get(&format!("/v1/job/{job}/evaluations")).await.ok()?;
        let is_it = |eval: &&Value| text(eval, "TriggeredBy") == trigger && text(eval, "Status") == status;
        let found = array(&evals).iter().find(is_it)?;
        Some(text(found, "ID").to_owned())
    };
    wait_until(&format!("an evaluation of {job} is {status}"), look, String::new).await
}

fn drover(address: &str, dir: &Path, words: &[String]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(words).env("NOMAD_ADDR", address).current_dir(dir);
    for variable in ["NOMAD_NAMESPACE", "NOMAD_REGION", "NOMAD_TOKEN", "DROVER_LOG_LEVEL"] {
        command.env_remove(variable);
    }
    command.output().expect("the binary can be started")
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_do_what_scripts_depend_on() {
    assert!(LINES.len() >= LINES_MIN, "{}", LINES.len());
    let mut dev = Dev::start(&["dev", "--ephemeral"]);
    let api = Api::new(dev.address.strip_prefix("http://").expect("the address is a URL").to_owned());
    let names = scene(&api).await;
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let mut faults = Vec::new();
    for Line { command, exit, expect } in LINES {
        // The names stand for one word each, whatever is in a path.
        let words: Vec<String> = words(command).iter().map(|word| with_names(word, &names)).collect();
        let output = drover(&dev.address, dir.path(), &words);
        let [stdout, stderr] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        let code = output.status.code();
        let wrong_exit = (code != Some(*exit)).then(|| format!("exit code {code:?} instead of {exit}"));
        let problems: Vec<String> =
            wrong_exit.into_iter().chain(expect.fault(&stdout, &stderr, &names)).collect();
        if !problems.is_empty() {
            faults.push(format!("drover {command}: {}\n{stdout}{stderr}", problems.join(", ")));
        }
    }
    dev.interrupt();
    assert!(faults.is_empty(), "{} of {} lines:\n\n{}", faults.len(), LINES.len(), faults.join("\n"));
}

#[test]
fn command_lines_are_split_as_a_shell_does() {
    assert_eq!(
        words("job status -t '{{range .}} x{{end}}' web"),
        ["job", "status", "-t", "{{range .}} x{{end}}", "web"]
    );
    let names = vec![("node", "1a2b".to_owned())];
    assert_eq!(with_names("node status {node} {{.ID}}", &names), "node status 1a2b {{.ID}}");
}
