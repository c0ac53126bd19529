//! Runs every target on its kept inputs, on a sample of its seeds, on large inputs and on mutations, in the ordinary
//! build and without coverage. `make fuzz` searches for new failures; this test makes sure that old ones do not return.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fuzz::targets::{self, ALL};
use fuzz::{Limits, Mutator, Target, cpu_time};

#[global_allocator]
static MEMORY: fuzz::Memory = fuzz::Memory;

/// Number of seeds that are run as they are.
const SEEDS_MAX: usize = 48;
/// Number of mutations that are run.
const MUTATIONS_MAX: usize = 300;
/// Processor time after which no more mutations are run.
const MUTATIONS_TIME: Duration = Duration::from_secs(3);
/// Time after which no more seeds and mutations are run. Requests wait for other processes.
const TIME_MAX: Duration = Duration::from_secs(15);
/// Size of large inputs, in bytes. Those of `make fuzz` are as large as the doors accept.
const LARGE_BYTES: usize = 16 << 10;
/// Size of the stack. Frames of an unoptimised build are several times larger than those of the release.
const STACK_BYTES: usize = 8 << 20;

macro_rules! replays {
    ($($name:ident: $target:ident,)+) => {
        $(
            #[test]
            fn $name() {
                replay(&targets::$target);
            }
        )+

        /// The names of all targets that have a test.
        const TESTED: &[&str] = &[$(stringify!($name)),+];
    };
}

replays! {
    agent_state: AGENT_STATE,
    agent_work: AGENT_WORK,
    change_set: CHANGE_SET,
    command: COMMAND,
    configuration: CONFIGURATION,
    credentials: CREDENTIALS,
    cron: CRON,
    duration: DURATION,
    expression: EXPRESSION,
    filter: FILTER,
    function_data: FUNCTION_DATA,
    go_template: GO_TEMPLATE,
    http_request: HTTP_REQUEST,
    job_body: JOB_BODY,
    job_file: JOB_FILE,
    job_file_json: JOB_FILE_JSON,
    message: MESSAGE,
    server_errors: SERVER_ERRORS,
    subject: SUBJECT,
    task_template: TASK_TEMPLATE,
    variables: VARIABLES,
    versions: VERSIONS,
}

/// Runs a target on a thread with a stack of its own.
fn replay(target: &'static Target) {
    let thread = std::thread::Builder::new().name(target.name.to_owned()).stack_size(STACK_BYTES);
    let running = thread.spawn(move || run(target)).expect("a thread can be started");
    if let Err(panic) = running.join() {
        std::panic::resume_unwind(panic);
    }
}

fn run(target: &Target) {
    let kept = target.kept();
    for (name, input) in &kept {
        check(target, input, name);
    }
    let seeds = (target.seeds)();
    let step = seeds.len().div_ceil(SEEDS_MAX).max(1);
    let seeds: Vec<Vec<u8>> = seeds.into_iter().step_by(step).collect();
    let started = clock();
    let is_late = || clock().saturating_duration_since(started) > TIME_MAX;
    for input in &seeds {
        check(target, input, "a seed");
        if is_late() {
            break;
        }
    }
    for repeated in target.repeated {
        check(target, &repeated.input(LARGE_BYTES.min(target.size_max)), "a large input");
    }
    let inputs: Vec<Vec<u8>> = kept.into_iter().map(|(_, input)| input).chain(seeds).collect();
    assert!(!inputs.is_empty(), "{} has no inputs to begin with", target.name);
    let mut mutator = Mutator::new(target.name, target.words);
    let begun = cpu_time();
    for _ in 0..MUTATIONS_MAX {
        let [input, other] = [(), ()].map(|()| &inputs[mutator.below(inputs.len())]);
        check(target, &mutator.mutate(input, other), "a mutation");
        if is_late() || cpu_time().saturating_sub(begun) > MUTATIONS_TIME {
            break;
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the limit is for the test, not for what it tests")]
fn clock() -> Instant {
    Instant::now()
}

/// Runs an input. Before that the input is written to a file, where it stays if it ends the process or the test.
fn check(target: &Target, input: &[u8], origin: &str) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", target.name));
    fs::write(&file, input).expect("the input can be written");
    // The panic itself has printed what does not hold.
    if std::panic::catch_unwind(|| target.check(input, Limits::REPLAY)).is_err() {
        let (file, corpus) = (file.display(), target.corpus());
        panic!(
            "{origin} fails; it is in {file}, to be kept in {} by a name that says what",
            corpus.display()
        );
    }
}

#[test]
fn every_target_is_listed_everywhere() {
    let names: BTreeSet<&str> = ALL.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), ALL.len(), "two targets have the same name");
    assert_eq!(names, TESTED.iter().copied().collect::<BTreeSet<_>>(), "every target has a test");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = |directory: &str, ending: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(here.join(directory)).expect("the directory can be listed");
        let names = entries.map(|entry| entry.expect("the directory can be listed").file_name());
        let stem = |name: &str| name.strip_suffix(ending).unwrap_or(name).to_owned();
        names.map(|name| stem(&name.to_string_lossy())).collect()
    };
    let names: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
    assert_eq!(files("src/bin", ".rs"), names, "every target has a program");
    assert!(files("corpus", "").is_subset(&names), "kept inputs belong to a target");
    let manifest = fs::read_to_string(here.join("Cargo.toml")).expect("the manifest can be read");
    for name in &names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "the manifest lacks the program {name}");
    }
}
