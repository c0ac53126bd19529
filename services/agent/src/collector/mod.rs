//! The log collector: a process for each container that writes the container's output to the task's log files. It
//! outlives the agent, as executors do.
//!
//! The engine keeps the output of a container, with the time of each entry, until the container is removed. The collector
//! follows it there, and records how far it has come. So output is neither lost nor doubled when the agent, the collector
//! or the engine is killed: whoever collects next continues behind the last byte that is in the files (see `cursor`). A
//! pipe between the container and the agent would break with either of them, and what is attached to a container sees only
//! output from then on.
//!
//! Agent and collector communicate through a directory:
//!
//! | file | content |
//! |---|---|
//! | `collect` | what to collect (`Collect`) |
//! | `lock` | locked by the collector while it works |
//! | `position` | how far it has come (`Positions`) |
//! | `collected` | the end (`Collected`): the container has ended, and all its output is in the files |

mod cursor;

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use telemetry::chain;
use tokio::time::{sleep, timeout};
use wire::files::LogStream;

use crate::disk::logs::{LogFiles, Rotator};
use crate::disk::store::{self, Durability};
use crate::engine::frames::{Form, Output, Splitter, split_time};
use crate::engine::{Chunks, Engine, EngineError, LogsFrom};
use cursor::{Cursor, Position};

/// The file that says what to collect.
const COLLECT: &str = "collect";
/// The file that a working collector has locked.
const LOCK: &str = "lock";
/// The file that says how far the output has been collected.
const POSITION: &str = "position";
/// The file that says that everything has been collected.
const COLLECTED: &str = "collected";

/// How long output may be in the files without being recorded, while nothing else arrives.
const SAVE_DELAY: Duration = Duration::from_millis(500);
/// The pause between the end of the engine's answer and the question whether the container has ended.
const END_PAUSE: Duration = Duration::from_millis(20);
/// The pause before an engine that is away is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// What to collect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Collect {
    /// The engine's socket.
    pub(crate) socket: PathBuf,
    /// The id of the container.
    pub(crate) container: String,
    /// Whether the container has a terminal. Then it has one stream.
    pub(crate) tty: bool,
    /// Where the output goes.
    pub(crate) logs: LogFiles,
}

/// The end of collecting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Collected {
    /// Why some output could not be collected.
    pub(crate) error: Option<String>,
}

/// How far the output has been collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Positions {
    stdout: Position,
    stderr: Position,
}

/// Describes in a directory what a collector shall collect.
pub(crate) fn describe(dir: &Path, collect: &Collect) -> io::Result<()> {
    store::write(&dir.join(COLLECT), collect, Durability::Process)
}

/// Whether a directory is for a collector.
pub(crate) fn is_described(dir: &Path) -> bool {
    dir.join(COLLECT).exists()
}

/// Whether a collector is at work in a directory.
pub(crate) fn is_active(dir: &Path) -> bool {
    matches!(lock(dir), Ok(None))
}

/// The end of collecting in a directory; `None` before.
pub(crate) fn collected(dir: &Path) -> Option<Collected> {
    store::read(&dir.join(COLLECTED)).ok().flatten()
}

/// Locks a directory for one collector. `None` if another one has locked it.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Collects until the container has ended. Does nothing if another collector is at work, or has finished.
pub(crate) fn run(dir: &Path) -> io::Result<()> {
    // A separate session is out of reach of the agent's terminal. Fails if the process already leads one.
    let _ = nix::unistd::setsid();
    let Some(_lock) = lock(dir)? else { return Ok(()) };
    if collected(dir).is_some() {
        return Ok(());
    }
    let read = store::read::<Collect>(&dir.join(COLLECT)).map_err(io::Error::other)?;
    let collect = read.ok_or_else(|| io::Error::other(format!("nothing to collect in {}", dir.display())))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let error = runtime.block_on(async { Collector::open(dir, collect)?.run().await })?;
    store::write(&dir.join(COLLECTED), &Collected { error }, Durability::Process)
}

/// One stream of the container.
struct Stream {
    log: Rotator,
    cursor: Cursor,
}

impl Stream {
    fn open(logs: &LogFiles, stream: LogStream, known: Option<Position>) -> io::Result<Self> {
        let log = Rotator::open(logs.clone(), stream)?;
        let position = known.unwrap_or(Position { place: log.place(), ..Position::default() });
        let surplus = log.written_since(position.place)?;
        Ok(Self { log, cursor: Cursor::new(position, surplus) })
    }

    /// The position. While entries that are in the files have not come again, it is the recorded one.
    fn position(&self, recorded: Position) -> Position {
        if self.cursor.is_behind() {
            return recorded;
        }
        Position { place: self.log.place(), ..self.cursor.position() }
    }
}

struct Collector {
    dir: PathBuf,
    engine: Engine,
    collect: Collect,
    stdout: Stream,
    stderr: Stream,
    /// The positions that are on disk.
    saved: Positions,
    /// The first error in writing.
    error: Option<String>,
    /// The last message about the engine. The same is not repeated.
    noted: String,
}

/// Why collecting cannot go on.
enum Stop {
    /// The engine does not give the output.
    Refused(String),
    /// The directory is gone: nobody wants the output any more.
    Abandoned,
}

impl Collector {
    fn open(dir: &Path, collect: Collect) -> io::Result<Self> {
        // A position that cannot be read is as good as none: then output is doubled rather than lost.
        let known = store::read::<Positions>(&dir.join(POSITION)).ok().flatten();
        let stdout = Stream::open(&collect.logs, LogStream::Stdout, known.map(|known| known.stdout))?;
        let stderr = Stream::open(&collect.logs, LogStream::Stderr, known.map(|known| known.stderr))?;
        let saved = match known {
            Some(known) => known,
            None => {
                let begin = Position::default();
                let begin = Positions { stdout: stdout.position(begin), stderr: stderr.position(begin) };
                store::write(&dir.join(POSITION), &begin, Durability::Process)?;
                begin
            }
        };
        let engine = Engine::new(collect.socket.clone());
        Ok(Self {
            dir: dir.to_owned(),
            engine,
            collect,
            stdout,
            stderr,
            saved,
            error: None,
            noted: String::new(),
        })
    }

    /// Collects until the container has ended. Returns why some output is missing.
    async fn run(mut self) -> io::Result<Option<String>> {
        loop {
            let ended = match self.engine.container(&self.collect.container).await {
                Ok(Some(container)) => container.state.has_ended(),
                Ok(None) => return Ok(self.error),
                Err(error) => {
                    self.pause(&error).await?;
                    continue;
                }
            };
            // What is followed after the end is complete.
            match self.follow().await {
                Ok(Ok(())) if ended => return Ok(self.error),
                Ok(Ok(())) => sleep(END_PAUSE).await,
                Ok(Err(Stop::Refused(reason))) => return Ok(Some(reason)),
                Ok(Err(Stop::Abandoned)) => return Err(io::Error::other("the directory is gone")),
                Err(error) => self.pause(&error).await?,
            }
        }
    }

    /// Waits before the engine is asked again. Fails if nobody wants the output any more.
    async fn pause(&mut self, error: &EngineError) -> io::Result<()> {
        let text = chain(error);
        if self.noted != text {
            // The agent has redirected standard error to a file.
            let _ = writeln!(io::stderr(), "collector: {text}");
            self.noted = text;
        }
        sleep(RETRY_PAUSE).await;
        if self.dir.exists() { Ok(()) } else { Err(io::Error::other("the directory is gone")) }
    }

    /// Writes the output that the engine has and will get, until its answer ends.
    async fn follow(&mut self) -> Result<Result<(), Stop>, EngineError> {
        let from = LogsFrom { nanos: self.stdout.cursor.resume().min(self.stderr.cursor.resume()) };
        let mut chunks = match self.engine.logs(&self.collect.container, from).await {
            Ok(chunks) => chunks,
            Err(error) if error.is_transient() || error.is_absent() => return Err(error),
            Err(error) => return Ok(Err(Stop::Refused(chain(&error)))),
        };
        let mut splitter = Splitter::new(if self.collect.tty { Form::Terminal } else { Form::Frames });
        loop {
            let Some(arrived) = self.next(&mut chunks).await? else {
                if self.save().is_err() {
                    return Ok(Err(Stop::Abandoned));
                }
                continue;
            };
            let Some(bytes) = arrived else { break };
            splitter.push(&bytes);
            while let Some(output) = splitter.next().map_err(EngineError::Invalid)? {
                self.write(output);
            }
            // The oldest file may be removed when a new one begins, and with it the count of what it contained.
            if self.has_rotated() && self.save().is_err() {
                return Ok(Err(Stop::Abandoned));
            }
        }
        if let Some(rest) = splitter.rest() {
            self.write(rest);
        }
        if self.save().is_err() { Ok(Err(Stop::Abandoned)) } else { Ok(Ok(())) }
    }

    /// The next bytes, or `Some(None)` at the end. `None` if none arrive for a while and the position is to be saved.
    async fn next(&self, chunks: &mut Chunks) -> Result<Option<Option<bytes::Bytes>>, EngineError> {
        if self.positions() == self.saved {
            return chunks.next().await.map(Some);
        }
        match timeout(SAVE_DELAY, chunks.next()).await {
            Ok(arrived) => arrived.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Writes one entry. If that is impossible, it is lost, so that the rest is not.
    fn write(&mut self, output: Output) {
        let stream = match output.stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        };
        // An entry without a time belongs to the one before.
        let (nanos, entry) = split_time(&output.bytes)
            .unwrap_or_else(|| (stream.cursor.position().nanos, output.bytes.clone()));
        let unwritten = stream.cursor.advance(nanos, &entry);
        if let Err(error) = stream.log.write(unwritten)
            && self.error.is_none()
        {
            let error = format!("some output was lost: {error}");
            let _ = writeln!(io::stderr(), "collector: {error}");
            self.error = Some(error);
        }
    }

    fn positions(&self) -> Positions {
        let Positions { stdout, stderr } = self.saved;
        Positions { stdout: self.stdout.position(stdout), stderr: self.stderr.position(stderr) }
    }

    fn has_rotated(&self) -> bool {
        let now = self.positions();
        now.stdout.place.file != self.saved.stdout.place.file
            || now.stderr.place.file != self.saved.stderr.place.file
    }

    fn save(&mut self) -> io::Result<()> {
        let positions = self.positions();
        if positions != self.saved {
            store::write(&self.dir.join(POSITION), &positions, Durability::Process)?;
            self.saved = positions;
        }
        Ok(())
    }
}
