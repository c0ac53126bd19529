//! Commands that users run in tasks: the WebSocket of a user on one side, the agent of the task's node on the other.
//!
//! A session is one loop. What the user sends waits until the agent has given credit for it, and further messages of the
//! user then wait in the connection. What the command writes waits until the connection takes it, and the agent gets credit
//! back for it only then. So a slow side slows the other one down, and a session holds no more than two windows of data.

mod frames;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use actix_http::ws::CloseCode;
use actix_web::rt;
use actix_web::web::Bytes;
use bus::{Conversation, RequestError};
use model::Text;
use telemetry::clock;
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;
use wire::RefusalKind;
use wire::exec::{ExecInput, ExecOutput, InputPart, OutputPart, StartExec};
use wire::flow::{Broken, Flow};

use self::frames::{Said, Shown, check_handshake, read};
use crate::agent_client::{AllocAgent, EXEC_START_TIMEOUT};
use crate::http::{Error, Permit, Received, Socket, SocketError, SocketReader, SocketWriter};

/// Time in which a client that asks for a handshake must send it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often signs of life are checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How often a client is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(10);
/// Time after which the session of a client ends that sends nothing, not even signs of life.
const CLIENT_SILENCE_MAX: Duration = Duration::from_secs(60);
/// Time that a client has to take what is left when its session has failed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// What a client is told when its agent is out of reach.
const NODE_LOST: &str = "the connection to the node was lost";

/// The command that a user wants to run.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The agent of the allocation.
    pub(crate) agent: AllocAgent,
    /// The task.
    pub(crate) task: Text,
    /// The command.
    pub(crate) command: Vec<String>,
    /// Whether it gets a terminal.
    pub(crate) tty: bool,
}

/// A request for a command, after its WebSocket was made.
pub(crate) struct ExecRequest {
    /// The WebSocket.
    pub(crate) socket: Socket,
    /// The command, or why there is none.
    pub(crate) wanted: Result<Wanted, Error>,
    /// Whether the first message of the client is a handshake.
    pub(crate) handshake: bool,
    /// The token in the header of the request.
    pub(crate) token: String,
    /// Who asks, for the log.
    pub(crate) requester: String,
    /// Held as long as the session lasts.
    pub(crate) permit: Permit,
    /// When the server stops.
    pub(crate) stop: CancellationToken,
}

/// How a session ends: the code and text of the close frame.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ending {
    code: CloseCode,
    reason: String,
}

/// Why a session ends early.
enum Failed {
    /// The session ends, and the client gets the reason.
    Ended(Ending),
    /// The client has left.
    Left,
}

impl Ending {
    fn normal() -> Self {
        Self { code: CloseCode::Normal, reason: String::new() }
    }

    /// Of the session: the server or the agent has failed.
    fn internal(reason: impl Into<String>) -> Self {
        Self { code: CloseCode::Error, reason: reason.into() }
    }

    /// Of the request: the client has to act.
    fn refused(reason: impl Into<String>) -> Self {
        Self { code: CloseCode::Policy, reason: reason.into() }
    }

    fn of(error: &Error) -> Self {
        let text = error.text.as_str();
        if error.status.is_client_error() { Self::refused(text) } else { Self::internal(text) }
    }

    /// A session that the agent has refused or ended, by the kind of the reason.
    fn of_kind(kind: RefusalKind, message: &str) -> Self {
        match kind {
            RefusalKind::NotFound | RefusalKind::Invalid | RefusalKind::Forbidden => Self::refused(message),
            RefusalKind::Conflict
            | RefusalKind::NotReady
            | RefusalKind::Outdated
            | RefusalKind::Deposed
            | RefusalKind::OutcomeUnknown => Self::internal(message),
        }
    }
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Silent => Self::Ended(Ending::internal(format!("{NODE_LOST}: {broken}"))),
            Broken::Lost { .. } | Broken::Overrun => Self::Ended(Ending::internal(broken.to_string())),
        }
    }
}

impl From<SocketError> for Failed {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Lost => Self::Left,
            SocketError::Protocol(reason) => Self::Ended(Ending { code: CloseCode::Protocol, reason }),
        }
    }
}

impl ExecRequest {
    /// Serves the session on this thread, beside other requests, until it ends.
    pub(crate) fn spawn(self) {
        rt::spawn(async move {
            let Self { socket, wanted, handshake, token, requester, permit, stop } = self;
            let Socket { mut reader, writer } = socket;
            let mut pending = VecDeque::new();
            let session = async {
                if handshake {
                    shake_hands(&mut reader, &token).await?;
                }
                let wanted = wanted.map_err(|error| Failed::Ended(Ending::of(&error)))?;
                run(wanted, requester, &mut reader, &writer, &mut pending, &stop).await
            };
            let ending = match session.await {
                Ok(ending) | Err(Failed::Ended(ending)) => ending,
                Err(Failed::Left) => return,
            };
            let last = writer.close(ending.code, &ending.reason);
            let written = async {
                for frame in pending.drain(..).map(|(frame, _)| frame).chain([last]) {
                    match writer.room().await {
                        Ok(room) => room.send(frame),
                        Err(_) => return,
                    }
                }
            };
            // A client that does not take it is left alone.
            let _ = timeout(CLOSE_TIMEOUT, written).await;
            drop(permit);
        });
    }
}

/// Checks the first message of a client.
async fn shake_hands(reader: &mut SocketReader, token: &str) -> Result<(), Failed> {
    let first = async {
        loop {
            match reader.next().await? {
                Received::Message(message) => return Ok(message),
                Received::Closed => return Err(Failed::Left),
                Received::Ping(_) | Received::Pong => {}
            }
        }
    };
    let Ok(first) = timeout(HANDSHAKE_TIMEOUT, first).await else {
        let seconds = HANDSHAKE_TIMEOUT.as_secs();
        return Err(Failed::Ended(Ending::refused(format!("no handshake message within {seconds} seconds"))));
    };
    check_handshake(&first?, token).map_err(|reason| Failed::Ended(Ending::refused(reason)))
}

/// Starts the command, and serves its session.
async fn run(
    wanted: Wanted,
    requester: String,
    reader: &mut SocketReader,
    writer: &SocketWriter,
    pending: &mut Pending,
    stop: &CancellationToken,
) -> Result<Ending, Failed> {
    let Wanted { agent, task, command, tty } = wanted;
    let alloc = agent.alloc();
    let start =
        StartExec { alloc, task: Text::clone(&task), command, tty, requester: requester.as_str().into() };
    let opened = agent.start_exec(&start).await;
    let mut conversation = opened.map_err(|error| Failed::Ended(Ending::of(&error)))?;
    let started = clock::monotonic();
    let mut flow = Flow::new(started);
    let first = tokio::select! {
        first = timeout(EXEC_START_TIMEOUT, conversation.next::<ExecOutput>()) => {
            let first = first.unwrap_or(Err(RequestError::TimedOut));
            first.map_err(|error| Failed::Ended(start_failure(&agent, &error)))
        }
        () = writer.lost() => Err(Failed::Left),
        () = stop.cancelled() => Err(stopping()),
    };
    let ExecOutput { number, part } = match first {
        Ok(first) => first,
        Err(failed) => {
            // The agent may start the command yet. It ignores this if it has no such session.
            let number = flow.number(clock::monotonic());
            let end = ExecInput { session: conversation.id(), number, part: InputPart::End };
            let _ = conversation.send(&end).await;
            return Err(failed);
        }
    };
    flow.received(number, clock::monotonic())?;
    if part != OutputPart::Started {
        return Err(Failed::Ended(Ending::internal("the agent did not say that the command has started")));
    }
    let (session, task) = (conversation.id(), &*task);
    tracing::info!(%session, alloc.id = %alloc, task, requester, "a user has started a command in a task");
    let mut exec = Exec { conversation, flow, is_input_closed: false };
    let outcome = exec.serve(reader, writer, pending, stop).await;
    if !matches!(&outcome, Ok(Finished::ByAgent(_))) {
        // Fails if the agent is out of reach. It notices the silence.
        let _ = exec.send(InputPart::End).await;
    }
    let duration_ms = clock::monotonic().saturating_duration_since(started).as_millis();
    let reason = match &outcome {
        Ok(Finished::ByAgent(ending) | Finished::ByClient(ending)) | Err(Failed::Ended(ending)) => {
            ending.reason.as_str()
        }
        Err(Failed::Left) => "the user has left",
    };
    tracing::info!(
        %session, alloc.id = %alloc, task, requester, duration_ms, reason, "a user's command in a task is over"
    );
    outcome.map(|(Finished::ByAgent(ending) | Finished::ByClient(ending))| ending)
}

fn stopping() -> Failed {
    let reason = "this server is stopping".to_owned();
    Failed::Ended(Ending { code: CloseCode::Away, reason })
}

/// What the client is told if its command was not started.
fn start_failure(agent: &AllocAgent, error: &RequestError) -> Ending {
    match error {
        RequestError::Refused(refusal) => Ending::of_kind(refusal.kind, &refusal.message),
        RequestError::NoResponders
        | RequestError::TimedOut
        | RequestError::Disconnected
        | RequestError::Unreadable(_)
        | RequestError::TooLarge { .. } => Ending::of(&agent.agent_error(error)),
    }
}

/// Frames that wait until the connection takes them, with the size of the data whose credit is given back then.
type Pending = VecDeque<(Bytes, Option<usize>)>;

/// How a session ended in order.
enum Finished {
    /// The command has ended, or the agent has ended it.
    ByAgent(Ending),
    /// The client has closed its WebSocket.
    ByClient(Ending),
}

/// The agent's side of a session.
struct Exec {
    conversation: Conversation,
    flow: Flow,
    is_input_closed: bool,
}

impl Exec {
    /// Passes messages on until the session ends.
    async fn serve(
        &mut self,
        reader: &mut SocketReader,
        writer: &SocketWriter,
        pending: &mut Pending,
        stop: &CancellationToken,
    ) -> Result<Finished, Failed> {
        let mut waiting: VecDeque<Said> = VecDeque::new();
        let mut shown = Shown::default();
        let mut checks = interval(CHECK_EVERY);
        let mut heard = clock::monotonic();
        let mut pinged = heard;
        loop {
            self.pass_on(&mut waiting).await?;
            tokio::select! {
                received = reader.next(), if waiting.is_empty() => {
                    heard = clock::monotonic();
                    match received? {
                        Received::Message(message) => {
                            let said = read(&message).map_err(|reason| Failed::Ended(Ending::refused(reason)))?;
                            waiting.extend(said);
                        }
                        // Other frames show as well that the server is there.
                        Received::Ping(bytes) if pending.is_empty() => {
                            pending.push_back((writer.pong(bytes), None));
                        }
                        Received::Ping(_) | Received::Pong => {}
                        Received::Closed => return Ok(Finished::ByClient(Ending::normal())),
                    }
                }
                output = self.conversation.next::<ExecOutput>() => {
                    if let Some(ending) = self.handle(output, &mut shown, writer, pending)? {
                        self.drain(writer, pending).await?;
                        return Ok(Finished::ByAgent(ending));
                    }
                }
                room = writer.room(), if !pending.is_empty() => {
                    let room = room?;
                    if let Some((frame, data)) = pending.pop_front() {
                        room.send(frame);
                        if let Some(credit) = data.and_then(|bytes| self.flow.take(bytes)) {
                            self.send(InputPart::Grant(credit)).await?;
                        }
                    }
                }
                _ = checks.tick() => {
                    let now = clock::monotonic();
                    self.flow.check_silence(now)?;
                    if self.flow.is_alive_due(now) {
                        self.send(InputPart::Alive).await?;
                    }
                    if !waiting.is_empty() {
                        // Nothing is read from the client while its input waits for the command.
                        heard = now;
                    }
                    check_client(now, heard)?;
                    if now.saturating_duration_since(pinged) >= PING_EVERY && pending.is_empty() {
                        pinged = now;
                        pending.push_back((writer.ping(), None));
                    }
                }
                () = writer.lost() => return Err(Failed::Left),
                () = stop.cancelled() => return Err(stopping()),
            }
        }
    }

    /// Sends what the client has said, as far as there is credit for it.
    async fn pass_on(&mut self, waiting: &mut VecDeque<Said>) -> Result<(), Failed> {
        while let Some(said) = waiting.pop_front() {
            let Some(room) = self.flow.room() else {
                waiting.push_front(said);
                return Ok(());
            };
            match said {
                // Nothing follows the end of the input.
                Said::Data(_) | Said::Closed if self.is_input_closed => {}
                Said::Data(mut data) => {
                    let rest = data.split_off(room.min(data.len()));
                    if !rest.is_empty() {
                        waiting.push_front(Said::Data(rest));
                    }
                    self.flow.spend(data.len());
                    self.send(InputPart::Data(data.into())).await?;
                }
                Said::Closed => {
                    self.is_input_closed = true;
                    self.send(InputPart::Closed).await?;
                }
                Said::Resize(size) => {
                    self.flow.spend(0);
                    self.send(InputPart::Resize(size)).await?;
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, part: InputPart) -> Result<(), Failed> {
        let number = self.flow.number(clock::monotonic());
        let input = ExecInput { session: self.conversation.id(), number, part };
        let sent = self.conversation.send(&input).await;
        sent.map_err(|error| Failed::Ended(Ending::internal(format!("{NODE_LOST}: {error}"))))
    }

    /// Handles a message of the agent. Returns how the session ends, if it was the last one.
    fn handle(
        &mut self,
        output: Result<ExecOutput, RequestError>,
        shown: &mut Shown,
        writer: &SocketWriter,
        pending: &mut Pending,
    ) -> Result<Option<Ending>, Failed> {
        let lost = |error: RequestError| {
            Failed::Ended(Ending::internal(format!("{NODE_LOST}: {}", telemetry::chain(&error))))
        };
        let ExecOutput { number, part } = output.map_err(lost)?;
        self.flow.received(number, clock::monotonic())?;
        let mut data_bytes = None;
        let ending = match &part {
            OutputPart::Data(_, data) => {
                self.flow.hold(data.len())?;
                data_bytes = Some(data.len());
                None
            }
            OutputPart::Grant(bytes) => {
                self.flow.granted(*bytes)?;
                None
            }
            OutputPart::Exited(_) => Some(Ending::normal()),
            OutputPart::Failed(failure) => Some(Ending::of_kind(failure.kind, &failure.message)),
            OutputPart::Started | OutputPart::Alive | OutputPart::Closed(_) => None,
        };
        if let Some(message) = shown.message(&part) {
            pending.push_back((writer.text(message), data_bytes));
        }
        Ok(ending)
    }

    /// Waits until the client has got everything. The command has ended, so this may take as long as the client is there.
    async fn drain(&mut self, writer: &SocketWriter, pending: &mut Pending) -> Result<(), Failed> {
        while let Some((frame, _)) = pending.pop_front() {
            writer.room().await?.send(frame);
        }
        Ok(())
    }
}

/// Checks when a client was last heard.
fn check_client(now: Instant, heard: Instant) -> Result<(), Failed> {
    if now.saturating_duration_since(heard) < CLIENT_SILENCE_MAX {
        return Ok(());
    }
    let seconds = CLIENT_SILENCE_MAX.as_secs();
    Err(Failed::Ended(Ending::internal(format!("nothing was heard from the client for {seconds} seconds"))))
}
