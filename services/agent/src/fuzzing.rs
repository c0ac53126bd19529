//! Entry points for fuzz targets: how the agent handles the servers' work and its own state files, without disk,
//! network and tasks.

use std::sync::Arc;

use model::{HistoryId, Nanos, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::node::WorkAllocs;

use crate::alloc::core::AllocCore;
use crate::disk::store;
use crate::executor::{Exit, Launch};
use crate::reports::core::{AllocState, Reports};
use crate::work::spec::AllocSpec;

/// Maximum number of expired timers of an allocation.
const TIMERS_MAX: usize = 16;

/// The state files of an allocation, encoded.
#[derive(Debug, Clone, Default)]
pub struct AllocFiles {
    /// The servers' specification.
    pub spec: Vec<u8>,
    /// The state that was last reported.
    pub state: Vec<u8>,
    /// The state that the servers have acknowledged.
    pub acknowledged: Vec<u8>,
}

/// Starts the allocations of an answer of the servers, and returns their files.
///
/// # Panics
/// If a file cannot be encoded.
pub fn start(answer: WorkAllocs, now: Timestamp) -> Vec<AllocFiles> {
    let (specs, _) = AllocSpec::unpack(answer, HistoryId::default());
    let start = |spec: AllocSpec| {
        let spec = Arc::new(spec);
        let core = live(AllocCore::new(Arc::clone(&spec), now), now);
        let state = encoded(&core.report());
        AllocFiles { spec: encoded(&*spec), acknowledged: state.clone(), state }
    };
    specs.into_iter().map(start).collect()
}

/// Restores an allocation from its files, as an agent does after a restart. Files that cannot be decoded count as absent.
///
/// # Panics
/// If a decoded file cannot be encoded and decoded again.
pub fn restore(files: &AllocFiles, now: Timestamp) {
    let acknowledged: Option<AllocState> = decoded(&files.acknowledged);
    let (Some(spec), Some(state)) = (decoded::<AllocSpec>(&files.spec), decoded::<AllocState>(&files.state))
    else {
        return;
    };
    let mut reports = Reports::default();
    reports.restore(spec.id(), state.clone(), acknowledged);
    let batch = reports.batch();
    reports.acknowledged(&batch);
    let states = state.task_states.unpack().unwrap_or_default();
    let core = AllocCore::restore(Arc::new(spec), states, state.health, now);
    live(core, now).report();
}

/// Decodes the files of an executor: what to run, and how it ended.
///
/// # Panics
/// If a decoded file cannot be encoded and decoded again.
pub fn executor_files(bytes: &[u8]) {
    decoded::<Launch>(bytes);
    if let Some(exit) = decoded::<Exit>(bytes) {
        exit.successful();
    }
}

/// Lets timers expire, stops the allocation, and lets timers expire again.
fn live(mut core: AllocCore, now: Timestamp) -> AllocCore {
    let spec = core.spec();
    let _ = (spec.name(), spec.resources(), spec.should_run(), spec.index());
    core.set_up(now);
    core = expire(core, now);
    core.stop(now + Nanos::SECOND);
    expire(core, now + Nanos::SECOND)
}

fn expire(mut core: AllocCore, now: Timestamp) -> AllocCore {
    let mut now = now;
    for _ in 0..TIMERS_MAX {
        let Some(at) = core.poll_timeout() else { break };
        now = now.max(at);
        core.handle_timeout(now);
    }
    core
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    store::encode(value).expect("plain data can be encoded")
}

/// The decoded value, which must be the same after it was encoded and decoded again.
fn decoded<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let value: T = store::decode(bytes).ok()?;
    let once = encoded(&value);
    let again: T = store::decode(&once).expect("what was encoded can be decoded");
    assert_eq!(encoded(&again), once, "decoding and encoding again changes a file");
    Some(value)
}
