//! One session: a command in a task on one side, the API process that its user reaches it through on the other.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bus::Replies;
use bytes::{Buf as _, Bytes};
use telemetry::{chain, clock};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep};
use wire::RefusalKind;
use wire::exec::{ExecFailure, ExecInput, ExecOutput, InputPart, OutputPart};
use wire::files::LogStream;
use wire::flow::{DATA_BYTES_MAX, Flow};

use crate::driver::exec_session::{ExecError, ExecSession, TerminalSize};

/// How often the other side's signs of life are checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a command that has ended may leave its output open without writing: another process may hold it.
const OUTPUT_AFTER_EXIT: Duration = Duration::from_millis(500);

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The command ended with this exit code.
    Exited(i64),
    /// The command was ended, for this reason.
    Cut(String),
}

type Input = Box<dyn AsyncWrite + Send + Unpin>;
type Output = Box<dyn AsyncRead + Send + Unpin>;

/// One session.
pub(super) struct Session {
    replies: Replies,
    input: mpsc::Receiver<ExecInput>,
    exec: ExecSession,
    flow: Flow,
}

/// Input on its way to the command.
struct Feed {
    /// `None` once it is closed, or the command reads no more.
    stdin: Option<Input>,
    /// What is left of each message, and the size that it had.
    waiting: VecDeque<(Bytes, usize)>,
    /// Whether the input ends after that.
    is_ending: bool,
    /// The size that the terminal is to get.
    size: Option<TerminalSize>,
}

/// Output of the command on one stream.
struct Source {
    stream: LogStream,
    /// `None` once it has ended.
    reader: Option<Output>,
    buffer: Box<[u8]>,
}

impl Session {
    /// A session of a command that has started.
    pub(super) fn new(
        replies: Replies,
        input: mpsc::Receiver<ExecInput>,
        exec: ExecSession,
        now: Instant,
    ) -> Self {
        Self { replies, input, exec, flow: Flow::new(now) }
    }

    /// Passes input and output on until the session ends. The command then ends as well.
    pub(super) async fn run(self) -> End {
        let Self { replies, input, exec, flow } = self;
        let mut sender = Sender { replies, flow };
        match converse(&mut sender, input, exec).await {
            Ok(end) => end,
            Err(reason) => {
                let failure = ExecFailure { kind: RefusalKind::NotReady, message: reason.as_str().into() };
                // Fails if the other side is out of reach. It notices the silence.
                let _ = sender.send(OutputPart::Failed(failure)).await;
                End::Cut(reason)
            }
        }
    }
}

/// Serves a session. An error is the reason why it cannot continue.
async fn converse(
    sender: &mut Sender,
    mut input: mpsc::Receiver<ExecInput>,
    exec: ExecSession,
) -> Result<End, String> {
    let ExecSession { stdin, stdout, stderr, resize, exit: mut exiting } = exec;
    let mut feed = Feed { stdin: Some(stdin), waiting: VecDeque::new(), is_ending: false, size: None };
    let mut stdout = Source::new(LogStream::Stdout, Some(stdout));
    let mut stderr = Source::new(LogStream::Stderr, stderr);
    let mut exit: Option<i64> = None;
    let mut checks = interval(CHECK_EVERY);
    sender.send(OutputPart::Started).await?;
    loop {
        if let Some(code) = exit
            && stdout.reader.is_none()
            && stderr.reader.is_none()
        {
            sender.send(OutputPart::Exited(code)).await?;
            return Ok(End::Exited(code));
        }
        let room = sender.flow.room();
        tokio::select! {
            message = input.recv() => {
                let Some(ExecInput { number, part, .. }) = message else {
                    return Err("the agent is stopping".to_owned());
                };
                sender.flow.received(number, clock::monotonic()).map_err(|broken| broken.to_string())?;
                match part {
                    InputPart::End => return Ok(End::Cut("the user has left".to_owned())),
                    InputPart::Alive => {}
                    InputPart::Grant(bytes) => sender.flow.granted(bytes).map_err(|broken| broken.to_string())?,
                    InputPart::Closed => feed.is_ending = true,
                    InputPart::Resize(size) => {
                        sender.flow.hold(0).map_err(|broken| broken.to_string())?;
                        feed.size = Some(TerminalSize { height: size.height, width: size.width });
                        sender.give_back(0).await?;
                    }
                    InputPart::Data(data) => {
                        let bytes = data.len();
                        sender.flow.hold(bytes).map_err(|broken| broken.to_string())?;
                        if feed.stdin.is_some() && !feed.is_ending && bytes > 0 {
                            feed.waiting.push_back((data, bytes));
                        } else {
                            sender.give_back(bytes).await?;
                        }
                    }
                }
            }
            () = feed.advance(), if feed.has_work() => {
                for bytes in feed.taken() {
                    sender.give_back(bytes).await?;
                }
            }
            permit = resize.reserve(), if feed.size.is_some() => {
                if let (Ok(permit), Some(size)) = (permit, feed.size.take()) {
                    permit.send(size);
                }
            }
            read = stdout.read(room), if stdout.is_readable(room) => sender.pass_on(&mut stdout, read).await?,
            read = stderr.read(room), if stderr.is_readable(room) => sender.pass_on(&mut stderr, read).await?,
            outcome = &mut exiting, if exit.is_none() => {
                let lost = || Err(ExecError("the command was lost".to_owned()));
                exit = Some(outcome.unwrap_or_else(|_| lost()).map_err(|error| error.to_string())?);
            }
            () = sleep(OUTPUT_AFTER_EXIT), if exit.is_some() && room.is_some() => {
                for source in [&mut stdout, &mut stderr] {
                    sender.close(source).await?;
                }
            }
            _ = checks.tick() => {
                let now = clock::monotonic();
                sender.flow.check_silence(now).map_err(|broken| broken.to_string())?;
                if sender.flow.is_alive_due(now) {
                    sender.send(OutputPart::Alive).await?;
                }
            }
        }
    }
}

/// Sends numbered messages to the API.
struct Sender {
    replies: Replies,
    flow: Flow,
}

impl Sender {
    async fn send(&mut self, part: OutputPart) -> Result<(), String> {
        let number = self.flow.number(clock::monotonic());
        self.replies.send(&ExecOutput { number, part }).await.map_err(|error| chain(&error))
    }

    /// Gives back the credit for a message of this size, if it is worth a message.
    async fn give_back(&mut self, bytes: usize) -> Result<(), String> {
        match self.flow.take(bytes) {
            Some(credit) => self.send(OutputPart::Grant(credit)).await,
            None => Ok(()),
        }
    }

    /// Sends what was read, which is nothing at the end of the output.
    async fn pass_on(&mut self, source: &mut Source, read: std::io::Result<usize>) -> Result<(), String> {
        match read {
            // An output that cannot be read has ended.
            Ok(0) | Err(_) => self.close(source).await,
            Ok(bytes) => {
                self.flow.spend(bytes);
                let data = Bytes::copy_from_slice(&source.buffer[..bytes]);
                self.send(OutputPart::Data(source.stream, data)).await
            }
        }
    }

    async fn close(&mut self, source: &mut Source) -> Result<(), String> {
        match source.reader.take() {
            Some(_) => self.send(OutputPart::Closed(source.stream)).await,
            None => Ok(()),
        }
    }
}

impl Source {
    fn new(stream: LogStream, reader: Option<Output>) -> Self {
        let bytes = if reader.is_some() { DATA_BYTES_MAX } else { 0 };
        Self { stream, reader, buffer: vec![0; bytes].into() }
    }

    fn is_readable(&self, room: Option<usize>) -> bool {
        self.reader.is_some() && room.is_some()
    }

    /// Reads as much as there is room for. Cancel safe.
    async fn read(&mut self, room: Option<usize>) -> std::io::Result<usize> {
        let Self { reader: Some(reader), buffer, .. } = self else { return Ok(0) };
        let bytes = room.unwrap_or(0).min(buffer.len());
        reader.read(&mut buffer[..bytes]).await
    }
}

impl Feed {
    fn has_work(&self) -> bool {
        self.stdin.is_some() && (!self.waiting.is_empty() || self.is_ending)
    }

    /// Writes a part of what waits, or closes the input. Cancel safe.
    async fn advance(&mut self) {
        let Self { stdin: Some(stdin), waiting, .. } = self else { return };
        let outcome = match waiting.front_mut() {
            Some((data, _)) => stdin.write(data).await.map(|bytes| {
                data.advance(bytes);
                bytes > 0
            }),
            None => stdin.shutdown().await.map(|()| false),
        };
        // A command that reads no more is not a failure of the session.
        if !outcome.unwrap_or(false) {
            self.stdin = None;
        }
    }

    /// The sizes of the messages that need not be kept any more.
    fn taken(&mut self) -> Vec<usize> {
        let is_open = self.stdin.is_some();
        let mut taken = Vec::new();
        while self.waiting.front().is_some_and(|(data, _)| data.is_empty() || !is_open) {
            taken.extend(self.waiting.pop_front().map(|(_, bytes)| bytes));
        }
        taken
    }
}
