//! The output of a task across its rotated log files.

use bytes::Bytes;
use model::alloc::{TaskRunState, TaskState};
use model::text::quoted;
use model::{AllocId, Text};
use wire::Refusal;
use wire::files::{LogChunk, LogCursor, LogPosition, LogStream, Origin, ReadLogs};

use super::alloc_root::AllocRoot;
use super::waiting::{Wait, Watches};
use super::{Files, invalid, io_refusal, not_found, read_at};
use crate::alloc::runner::{spec_file, state_file};
use crate::context::Context;
use crate::disk::logs;
use crate::disk::store;
use crate::disk::watch::Watcher;
use crate::reports::core::AllocState;
use crate::work::spec::AllocSpec;

/// One output stream of a task.
struct Output<'a> {
    alloc_root: AllocRoot,
    task: &'a str,
    stream: LogStream,
    /// The numbers and sizes of the files, oldest first.
    files: Vec<(u64, u64)>,
}

/// Reads a chunk. If there is no data yet, waits for it until the deadline, or until the task has ended.
pub(super) async fn read_when_there(files: &Files, ask: ReadLogs) -> Result<LogChunk, Refusal> {
    let mut wait = Wait::begin(files, ask.wait_ms);
    let mut from = ask.from;
    // The job does not lose the task. It is decoded once, however long this waits.
    let mut is_checked = false;
    loop {
        let (task, watcher) = (Text::clone(&ask.task), wait.watcher());
        let (chunk, watches) = files
            .read(move |context| {
                if !is_checked {
                    check_task(context, ask.alloc, &task)?;
                }
                // From here on, nothing is missed.
                let watches = watcher.map(|watcher| watch(&watcher, context, ask.alloc)).unwrap_or_default();
                // The state is read first: when a task has ended, its output is complete.
                let ended = state_of(context, ask.alloc, &task)?.state == TaskRunState::Dead;
                let output = Output::find(context, ask.alloc, &task, ask.stream)?;
                Ok((output.read(from, ask.bytes_max, ended)?, watches))
            })
            .await?;
        if !chunk.data.is_empty() || chunk.ended || !wait.next(watches).await? {
            return Ok(chunk);
        }
        from = LogPosition::Cursor(chunk.next);
        is_checked = true;
    }
}

/// Watches the output of an allocation's tasks, and their states.
fn watch(watcher: &Watcher, context: &Context, alloc: AllocId) -> Watches {
    let logs = open(context, alloc).ok().and_then(|alloc_root| alloc_root.logs().ok());
    let logs = logs.and_then(|logs| watcher.watch(&logs.by_descriptor()).ok());
    [logs, watcher.watch(&context.store.alloc(alloc)).ok()]
}

/// Checks that the job has the task.
fn check_task(context: &Context, alloc: AllocId, task: &str) -> Result<(), Refusal> {
    let spec = store::read::<AllocSpec>(&spec_file(context, alloc)).ok().flatten();
    match spec.ok_or_else(|| gone(alloc))?.task(task) {
        Some(_) => Ok(()),
        None => Err(invalid(format!("unknown task name {}", quoted(task)))),
    }
}

/// The state of a task, which must have started.
fn state_of(context: &Context, alloc: AllocId, task: &str) -> Result<TaskState, Refusal> {
    let state = store::read::<AllocState>(&state_file(context, alloc)).ok().flatten();
    let states = state.ok_or_else(|| gone(alloc))?.task_states.unpack().unwrap_or_default();
    let started = states.into_iter().find(|state| &*state.task == task && state.started_at.is_set());
    started.ok_or_else(|| not_found(format!("task {} not started yet. No logs available", quoted(task))))
}

/// Opens the directory of an allocation, which may have been collected.
fn open(context: &Context, alloc: AllocId) -> Result<AllocRoot, Refusal> {
    AllocRoot::open(&context.dirs(alloc).root).map_err(|_| gone(alloc))
}

fn gone(alloc: AllocId) -> Refusal {
    not_found(format!("state for allocation {alloc} not found on client"))
}

impl<'a> Output<'a> {
    fn find(context: &Context, alloc: AllocId, task: &'a str, stream: LogStream) -> Result<Self, Refusal> {
        let alloc_root = open(context, alloc)?;
        let numbers = alloc_root.logs().and_then(|dir| logs::numbers(&dir, task, stream));
        let numbers = numbers.map_err(|error| io_refusal("alloc/logs", &error))?;
        let mut output = Self { alloc_root, task, stream, files: Vec::new() };
        for number in numbers {
            // A file may be removed concurrently.
            if let Ok(file) = output.alloc_root.file(&output.path(number)) {
                let metadata = file.metadata().map_err(|error| io_refusal("alloc/logs", &error))?;
                output.files.push((number, metadata.len()));
            }
        }
        if output.files.is_empty() {
            return Err(not_found(format!(
                "log entry for task {} and log type {} not found",
                quoted(task),
                quoted(&stream.to_string())
            )));
        }
        Ok(output)
    }

    fn path(&self, number: u64) -> String {
        format!("alloc/logs/{}", logs::file_name(self.task, self.stream, number))
    }

    fn read(&self, from: LogPosition, bytes_max: u32, ended: bool) -> Result<LogChunk, Refusal> {
        let at = match from {
            LogPosition::Cursor(cursor) => continue_at(&self.files, cursor),
            LogPosition::Origin(origin) => position_of(&self.files, origin),
        };
        let path = self.path(at.file);
        let size = self.files.iter().find(|(number, _)| *number == at.file).map_or(0, |(_, size)| *size);
        let data = if at.offset < size {
            let mut file = self.alloc_root.file(&path)?;
            read_at(&mut file, at.offset, bytes_max).map_err(|error| io_refusal(&path, &error))?
        } else {
            Bytes::new()
        };
        let next = LogCursor { file: at.file, offset: at.offset + data.len() as u64 };
        let is_newest = self.files.last().is_some_and(|(number, _)| *number == at.file);
        Ok(LogChunk { path: path.into(), data, next, ended: ended && is_newest })
    }
}

/// The position of an origin, in files with these numbers and sizes. There is at least one file.
fn position_of(files: &[(u64, u64)], origin: Origin) -> LogCursor {
    let total: u64 = files.iter().map(|(_, size)| size).sum();
    let mut skip = match origin {
        Origin::Start(offset) => offset,
        Origin::End(before) => total.saturating_sub(before),
    };
    for (number, size) in files {
        if skip < *size {
            return LogCursor { file: *number, offset: skip };
        }
        skip -= size;
    }
    let (file, offset) = files.last().copied().unwrap_or_default();
    LogCursor { file, offset }
}

/// The position at which reading continues: in the next file if this one is at its end and a next one exists, in the oldest
/// file if this one is gone, or at the end of a truncated file.
fn continue_at(files: &[(u64, u64)], cursor: LogCursor) -> LogCursor {
    let here = files.iter().find(|(number, _)| *number == cursor.file);
    if let Some((_, size)) = here
        && cursor.offset < *size
    {
        return cursor;
    }
    let later = files.iter().find(|(number, _)| *number > cursor.file).map(|(number, _)| *number);
    match (here, later) {
        (_, Some(file)) => LogCursor { file, offset: 0 },
        (Some((_, size)), None) => LogCursor { file: cursor.file, offset: *size },
        (None, None) => position_of(files, Origin::Start(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(u64, u64); 3] = [(3, 10), (4, 10), (5, 4)];

    fn at(file: u64, offset: u64) -> LogCursor {
        LogCursor { file, offset }
    }

    #[test]
    fn offsets_count_over_all_files() {
        assert_eq!(position_of(&FILES, Origin::Start(0)), at(3, 0));
        assert_eq!(position_of(&FILES, Origin::Start(13)), at(4, 3));
        assert_eq!(position_of(&FILES, Origin::Start(99)), at(5, 4));
        assert_eq!(position_of(&FILES, Origin::End(5)), at(4, 9));
        assert_eq!(position_of(&FILES, Origin::End(99)), at(3, 0));
        assert_eq!(position_of(&FILES, Origin::End(0)), at(5, 4));
    }

    #[test]
    fn reading_goes_on_from_file_to_file() {
        assert_eq!(continue_at(&FILES, at(3, 7)), at(3, 7));
        assert_eq!(continue_at(&FILES, at(3, 10)), at(4, 0));
        assert_eq!(continue_at(&FILES, at(5, 4)), at(5, 4), "there is no more data yet");
        assert_eq!(continue_at(&FILES, at(1, 5)), at(3, 0), "removed files are skipped");
        assert_eq!(continue_at(&FILES, at(5, 9)), at(5, 4), "the file was truncated");
        assert_eq!(continue_at(&FILES, at(9, 9)), at(3, 0), "all files are older: reading starts over");
    }
}
