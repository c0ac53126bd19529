//! The agent: the servers' work, and the files in which it keeps the state of allocations.

use std::sync::Arc;

use agent::fuzzing::{AllocFiles, executor_files, restore, start};
use model::job::{Job, JobSpec, Lifecycle, LifecycleHook, Task};
use model::{Index, Nanos, Timestamp};
use tests::build::{self, NOW};
use wire::node::{WorkAlloc, WorkAllocs, WorkCommon};
use wire::{Wire as _, decode};

use super::messages::MESSAGE_PACK;
use crate::target::Target;
use crate::world;

/// Answers of the servers with a node's work.
pub static AGENT_WORK: Target = Target {
    name: "agent_work",
    run: agent_work,
    seeds: || {
        let samples = world::samples_of(WorkAllocs::<Job>::KIND).into_iter().map(|sample| sample.bytes);
        samples.chain([wire::encode(&work())]).collect()
    },
    words: MESSAGE_PACK,
    repeated: &[],
    size_max: wire::envelope::WORK_BYTES_MAX,
};

/// State files of an allocation: the lengths of the first two in two bytes each, and the three files. The same bytes
/// are read as the files of an executor.
pub static AGENT_STATE: Target = Target {
    name: "agent_state",
    run: agent_state,
    seeds: || {
        let input = |files: AllocFiles| {
            let length = |file: &[u8]| u16::try_from(file.len()).unwrap_or(u16::MAX).to_le_bytes();
            let lengths = [length(&files.spec), length(&files.state)].concat();
            [lengths, files.spec, files.state, files.acknowledged].concat()
        };
        start(work(), NOW).into_iter().map(input).collect()
    },
    words: MESSAGE_PACK,
    repeated: &[],
    size_max: 256 << 10,
};

/// Work with one allocation of three tasks: one that runs before the others, the main task, and one that runs after
/// it.
fn work() -> WorkAllocs {
    let mut job = world::job();
    let mut spec = JobSpec::clone(&job.spec);
    let group = &mut spec.task_groups[0];
    group.shutdown_delay = Some(Nanos::SECOND);
    group.max_run_duration = Some(Nanos::from_hours(1));
    for (name, hook) in [("before", LifecycleHook::Prestart), ("after", LifecycleHook::Poststop)] {
        let lifecycle = Some(Lifecycle { hook, sidecar: false });
        let task = Task { name: name.into(), lifecycle, ..group.tasks[0].clone() };
        group.tasks.push(task);
    }
    job.spec = Arc::new(spec);
    let common = build::common(&job, world::EVAL);
    let sample = world::samples_of(WorkAllocs::<Job>::KIND).swap_remove(0);
    let sample: WorkAllocs = decode(sample.kind, 1, &sample.bytes).expect("a sample is readable");
    let alloc = WorkAlloc { common: 0, alloc_modify_index: Index(9), ..sample.allocs[0].clone() };
    WorkAllocs {
        jobs: vec![Arc::new(job)],
        commons: vec![WorkCommon { job: 0, common: Arc::new(common) }],
        allocs: vec![alloc],
        more: false,
    }
}

fn agent_work(input: &[u8]) {
    let kind = WorkAllocs::<Job>::KIND;
    if let Ok(answer) = decode::<WorkAllocs>(kind, 1, input) {
        for files in start(answer, NOW) {
            restore(&files, NOW);
        }
    }
}

fn agent_state(input: &[u8]) {
    executor_files(input);
    let Some(([a, b, c, d], bytes)) = input.split_first_chunk::<4>() else { return };
    let (spec, bytes) = split(bytes, [*a, *b]);
    let (state, acknowledged) = split(bytes, [*c, *d]);
    let files =
        AllocFiles { spec: spec.to_vec(), state: state.to_vec(), acknowledged: acknowledged.to_vec() };
    for now in [Timestamp(i64::MIN), NOW, Timestamp(i64::MAX)] {
        restore(&files, now);
    }
}

/// Splits off a file of this length, or all bytes if there are fewer.
fn split(bytes: &[u8], length: [u8; 2]) -> (&[u8], &[u8]) {
    bytes.split_at(usize::from(u16::from_le_bytes(length)).min(bytes.len()))
}
