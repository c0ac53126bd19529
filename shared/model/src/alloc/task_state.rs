//! The states of an allocation's tasks, and their packed form.
//!
//! Agents report task states, the state stores them, and API responses contain them; most of the time nothing in between
//! reads them. The agent therefore packs them once: about forty bytes for a running task with three events, a tenth of
//! the unpacked size. The format is a version byte, the number of tasks, and for each task its length and its fields. Each
//! event has its length before it, so that an older reader can skip kinds that it does not know. The module `packed`
//! encodes single values.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::packed::{Reader, Unreadable, Writer, packed_form};
use super::task_event::{TaskEvent, TaskEventKind};
use crate::text::string_enum;
use crate::{Text, Timestamp};

string_enum! {
    /// State of a task. The packed form stores the position in this list in two bits, so new states go last.
    TaskRunState, "task state" {
        /// The task has not started.
        Pending => "pending",
        /// The task runs.
        Running => "running",
        /// The task has ended and will not run again.
        Dead => "dead",
    }
}

/// State and history of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskState {
    /// The task's name.
    pub task: Text,
    /// Its state.
    pub state: TaskRunState,
    /// Whether it failed.
    pub failed: bool,
    /// Number of restarts.
    pub restarts: u64,
    /// When it was last restarted.
    pub last_restart: Timestamp,
    /// When it started.
    pub started_at: Timestamp,
    /// When it first ended.
    pub finished_at: Timestamp,
    /// The latest events, oldest first; at most ten.
    pub events: Vec<TaskEvent>,
    /// Why it is paused; empty if it is not.
    pub paused: Text,
}

impl TaskState {
    /// The state of a task that has not started, without events.
    pub fn pending(task: Text) -> Self {
        Self {
            task,
            state: TaskRunState::Pending,
            failed: false,
            restarts: 0,
            last_restart: Timestamp::UNSET,
            started_at: Timestamp::UNSET,
            finished_at: Timestamp::UNSET,
            events: Vec::new(),
            paused: Text::default(),
        }
    }

    /// Whether it ended successfully.
    pub fn successful(&self) -> bool {
        self.state == TaskRunState::Dead && !self.failed
    }
}

/// The states of an allocation's tasks, packed. Empty until the first report.
///
/// Cloning shares the bytes. Equality compares the bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PackedTaskStates(Arc<[u8]>);

/// The format version that this program writes.
const VERSION: u8 = 1;

impl PackedTaskStates {
    /// Packs the states.
    pub fn pack(states: &[TaskState]) -> Self {
        if states.is_empty() {
            return Self::default();
        }
        let mut out = Writer::default();
        out.byte(VERSION);
        out.uint(states.len() as u64);
        for state in states {
            out.framed(|out| write_state(state, out));
        }
        Self(out.into_bytes().into())
    }

    /// Unpacks the states.
    pub fn unpack(&self) -> Result<Vec<TaskState>, Unreadable> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let mut input = Reader::new(&self.0);
        match input.byte() {
            Some(VERSION) => {}
            Some(version) => return Err(Unreadable::Version(version)),
            None => return Err(Unreadable::Damaged),
        }
        read_states(&mut input).ok_or(Unreadable::Damaged)
    }

    /// Whether any task is paused. The states are not unpacked completely.
    pub fn any_paused(&self) -> bool {
        let Some((&VERSION, rest)) = self.0.split_first() else { return false };
        let mut input = Reader::new(rest);
        let count = input.uint().unwrap_or(0);
        (0..count).map_while(|_| input.framed()).any(|mut task| {
            let flags = task.text().and_then(|_| task.uint());
            flags.is_some_and(|flags| flags & PAUSED != 0)
        })
    }

    /// Whether there are no states.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

packed_form!(PackedTaskStates);

impl<'de> Deserialize<'de> for PackedTaskStates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::bytes::deserialize(deserializer, "packed task states", |bytes| Ok(Self(bytes.into())))
    }
}

// Flags for optional fields. They share one byte with the state, which is in the lowest two bits.
const FAILED: u64 = 1 << 2;
const RESTARTED: u64 = 1 << 3;
const STARTED: u64 = 1 << 4;
const FINISHED: u64 = 1 << 5;
const PAUSED: u64 = 1 << 6;

fn write_state(state: &TaskState, out: &mut Writer) {
    let restarted = state.restarts != 0 || state.last_restart.is_set();
    let flag = |bit, set: bool| if set { bit } else { 0 };
    let flags = state.state as u64
        | flag(FAILED, state.failed)
        | flag(RESTARTED, restarted)
        | flag(STARTED, state.started_at.is_set())
        | flag(FINISHED, state.finished_at.is_set())
        | flag(PAUSED, !state.paused.is_empty());
    out.put(&state.task);
    out.uint(flags);
    let mut previous_time = 0;
    if restarted {
        out.uint(state.restarts);
        out.timestamp(state.last_restart, &mut previous_time);
    }
    if state.started_at.is_set() {
        out.timestamp(state.started_at, &mut previous_time);
    }
    if state.finished_at.is_set() {
        out.timestamp(state.finished_at, &mut previous_time);
    }
    if !state.paused.is_empty() {
        out.put(&state.paused);
    }
    out.uint(state.events.len() as u64);
    for event in &state.events {
        out.timestamp(event.time, &mut previous_time);
        out.framed(|out| {
            out.uint(event.kind.code() << 1 | u64::from(event.fails_task));
            event.kind.write(out);
        });
    }
}

fn read_states(input: &mut Reader<'_>) -> Option<Vec<TaskState>> {
    let count = input.uint()?;
    let mut states = Vec::new();
    for _ in 0..count {
        states.push(read_state(&mut input.framed()?)?);
    }
    Some(states)
}

fn read_state(input: &mut Reader<'_>) -> Option<TaskState> {
    let mut state = TaskState::pending(input.get()?);
    let flags = input.uint()?;
    state.state = *TaskRunState::ALL.get((flags & 3) as usize)?;
    state.failed = flags & FAILED != 0;
    let mut previous_time = 0;
    if flags & RESTARTED != 0 {
        state.restarts = input.uint()?;
        state.last_restart = input.timestamp(&mut previous_time)?;
    }
    if flags & STARTED != 0 {
        state.started_at = input.timestamp(&mut previous_time)?;
    }
    if flags & FINISHED != 0 {
        state.finished_at = input.timestamp(&mut previous_time)?;
    }
    if flags & PAUSED != 0 {
        state.paused = input.get()?;
    }
    for _ in 0..input.uint()? {
        let time = input.timestamp(&mut previous_time)?;
        let mut framed = input.framed()?;
        let code = framed.uint()?;
        if let Some(kind) = TaskEventKind::read(code >> 1, &mut framed) {
            state.events.push(TaskEvent { time, fails_task: code & 1 != 0, kind });
        }
    }
    Some(state)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Nanos;

    fn running() -> TaskState {
        let at = |millis: i64| Timestamp(1_767_225_600_000_000_000 + millis * 1_000_003);
        let event = |millis, kind| TaskEvent { time: at(millis), fails_task: false, kind };
        TaskState {
            state: TaskRunState::Running,
            started_at: at(120),
            events: vec![
                event(0, TaskEventKind::Received),
                event(3, TaskEventKind::TaskSetup { message: Text::default() }),
                event(119, TaskEventKind::Started),
            ],
            ..TaskState::pending("web".into())
        }
    }

    #[test]
    fn a_running_task_takes_few_bytes() {
        let packed = PackedTaskStates::pack(&[running()]);
        assert_eq!(packed.unpack(), Ok(vec![running()]));
        assert!(packed.as_bytes().len() <= 48, "{} bytes", packed.as_bytes().len());
    }

    #[test]
    fn a_paused_task_is_seen_among_others() {
        let paused = TaskState { paused: "schedule".into(), ..running() };
        assert!(!PackedTaskStates::default().any_paused());
        assert!(!PackedTaskStates::pack(&[running(), running()]).any_paused());
        assert!(PackedTaskStates::pack(&[running(), paused]).any_paused());
    }

    #[test]
    fn a_kind_of_a_newer_version_is_passed_over() {
        let mut out = Writer::default();
        out.byte(VERSION);
        out.uint(1);
        out.framed(|out| {
            out.put(&Text::from("web"));
            out.uint(TaskRunState::Running as u64);
            out.uint(2);
            let mut previous_time = 0;
            out.timestamp(Timestamp(5), &mut previous_time);
            out.framed(|out| {
                out.uint(9_999 << 1);
                out.put(&Text::from("whatever"));
            });
            out.timestamp(Timestamp(6), &mut previous_time);
            out.framed(|out| out.uint(TaskEventKind::Started.code() << 1));
        });
        let states = PackedTaskStates(out.into_bytes().into()).unpack().unwrap();
        let kinds: Vec<_> = states[0].events.iter().map(|event| event.kind.clone()).collect();
        assert_eq!(kinds, [TaskEventKind::Started]);
    }

    #[test]
    fn another_version_is_named() {
        assert_eq!(PackedTaskStates([9, 1].as_slice().into()).unpack(), Err(Unreadable::Version(9)));
    }

    fn text() -> impl Strategy<Value = Text> {
        "[a-zü ]{0,6}".prop_map(Text::from)
    }

    fn kind() -> impl Strategy<Value = TaskEventKind> {
        prop_oneof![
            Just(TaskEventKind::Received),
            text().prop_map(|message| TaskEventKind::Driver { message }),
            (any::<i64>(), any::<i64>(), text(), any::<bool>()).prop_map(
                |(exit_code, signal, message, oom_killed)| {
                    TaskEventKind::Terminated { exit_code, signal, message, oom_killed }
                }
            ),
            (text(), any::<i64>())
                .prop_map(|(reason, delay)| TaskEventKind::Restarting { reason, delay: Nanos(delay) }),
        ]
    }

    fn state() -> impl Strategy<Value = TaskState> {
        let events = prop::collection::vec(
            (any::<i64>(), any::<bool>(), kind()).prop_map(|(time, fails_task, kind)| TaskEvent {
                time: Timestamp(time),
                fails_task,
                kind,
            }),
            0..10,
        );
        (text(), 0..3usize, any::<bool>(), any::<u64>(), any::<[i64; 3]>(), events, text()).prop_map(
            |(task, state, failed, restarts, [last_restart, started_at, finished_at], events, paused)| {
                TaskState {
                    task,
                    state: TaskRunState::ALL[state],
                    failed,
                    restarts,
                    last_restart: Timestamp(last_restart),
                    started_at: Timestamp(started_at),
                    finished_at: Timestamp(finished_at),
                    events,
                    paused,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn packed_states_are_unpacked(states in prop::collection::vec(state(), 0..4)) {
            prop_assert_eq!(PackedTaskStates::pack(&states).unpack(), Ok(states));
        }

        #[test]
        fn damaged_bytes_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 1..80)) {
            let _ = PackedTaskStates(bytes.into()).unpack();
        }

        #[test]
        fn a_cut_is_noticed(states in prop::collection::vec(state(), 1..3), cut in any::<prop::sample::Index>()) {
            let packed = PackedTaskStates::pack(&states);
            let bytes = &packed.as_bytes()[..cut.index(packed.as_bytes().len() - 1) + 1];
            if bytes.len() < packed.as_bytes().len() {
                prop_assert!(PackedTaskStates(bytes.into()).unpack().is_err());
            }
        }
    }
}
