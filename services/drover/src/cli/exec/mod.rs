//! Runs commands in tasks over the API (`docs/rules/http-api.md` §14): connects this process's input, output and terminal
//! with them. `alloc exec` and `job action` say which command it is.

mod escape;
mod frames;
mod socket;
mod streams;
mod terminal;

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::interval;

use self::escape::{Escape, EscapeFilter};
use self::frames::{ServerMessage, stdin_closed, stdin_data, tty_size};
use self::socket::{Frame, Reader, Writer};
use self::streams::{Chunk, Input, Output};
use self::terminal::RawTerminal;
use super::Session;
use super::client::Query;
use super::flags;

/// How often the server learns that the user is there.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// The first message that a server expects from a client that asks for a handshake.
const HANDSHAKE_VERSION: u8 = 1;
/// The beginning of errors, whatever the command.
const FAILED: &str = "failed to exec into task";

/// How a command in a task is connected with this process.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Connection {
    /// Pass standard input to the command.
    #[arg(short = 'i', value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "true", action = clap::ArgAction::Set)]
    interactive: bool,
    /// Give the command a terminal. By default it gets one if standard input and output are a terminal.
    #[arg(short = 't', value_name = "BOOL", value_parser = flags::boolean, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    tty: Option<bool>,
    /// The character that, at the beginning of a line and followed by a dot, ends a command with a terminal; none for no
    /// such character.
    #[arg(short = 'e', value_name = "CHARACTER", default_value = "~", value_parser = escape::read)]
    escape: Escape,
}

impl Connection {
    /// Runs a command, and returns its exit code. `path` and `query` name it.
    pub(super) async fn run(
        &self,
        session: &Session,
        path: &str,
        query: Query<'_>,
    ) -> anyhow::Result<ExitCode> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let tty = self.tty.unwrap_or(is_terminal && self.interactive);
        ensure!(!tty || self.interactive, "-i must be enabled if running with tty");
        ensure!(!tty || is_terminal, "{FAILED}: not a terminal");
        let tty_text = tty.to_string();
        let query: Vec<(&str, &str)> =
            query.iter().copied().chain([("tty", tty_text.as_str()), ("ws_handshake", "true")]).collect();
        let (mut reader, writer) = socket::open(&session.client, path, &query).await.context(FAILED)?;
        writer.send(frames::handshake(HANDSHAKE_VERSION, session.client.token())).await.context(FAILED)?;
        let escape = EscapeFilter::new(if tty { self.escape } else { Escape(None) });
        // The terminal is restored when this is dropped.
        let terminal = if tty { Some(RawTerminal::enter().context(FAILED)?) } else { None };
        let input = self.interactive.then(Input::start);
        let output = Output::start();
        let mut exchange = Exchange { writer, input, escape, output, outgoing: VecDeque::new() };
        let outcome = exchange.run(&mut reader, terminal.is_some()).await;
        exchange.output.finish().await;
        drop(terminal);
        match outcome.context(FAILED)? {
            Ended::Exited(code) => Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX))),
            Ended::Escaped => Ok(ExitCode::FAILURE),
            Ended::Unread => Ok(ExitCode::SUCCESS),
            Ended::Signalled(number) => Ok(ExitCode::from(128 + number)),
        }
    }
}

/// How the connection ended.
enum Ended {
    /// The command has ended with this exit code.
    Exited(i64),
    /// The user has left by the escape character.
    Escaped,
    /// Nobody reads the output.
    Unread,
    /// This process was told to end by the signal with this number.
    Signalled(u8),
}

/// What happens between this process and the server.
struct Exchange {
    writer: Writer,
    /// `None` once it has ended, or if it is not passed on.
    input: Option<Input>,
    escape: EscapeFilter,
    output: Output,
    /// Messages that wait until the connection takes them.
    outgoing: VecDeque<String>,
}

/// Signals that end this process while the terminal is in another mode than before.
struct Signals(Vec<(u8, Signal)>);

impl Signals {
    fn listen(is_terminal: bool) -> std::io::Result<Self> {
        let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
        let kinds = kinds.into_iter().filter(|_| is_terminal);
        let listen = |kind: SignalKind| -> std::io::Result<(u8, Signal)> {
            Ok((u8::try_from(kind.as_raw_value()).unwrap_or_default(), signal(kind)?))
        };
        Ok(Self(kinds.map(listen).collect::<std::io::Result<_>>()?))
    }

    /// Waits for one of them. Cancel safe.
    async fn next(&mut self) -> u8 {
        std::future::poll_fn(|context| {
            let mut signals = self.0.iter_mut();
            let received =
                signals.find_map(|(number, signal)| signal.poll_recv(context).is_ready().then_some(*number));
            received.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }
}

impl Exchange {
    async fn run(&mut self, reader: &mut Reader, is_terminal: bool) -> anyhow::Result<Ended> {
        let mut resized = signal(SignalKind::window_change()).context("cannot follow the terminal's size")?;
        let mut signals = Signals::listen(is_terminal).context("cannot listen for signals")?;
        let mut heartbeats = interval(HEARTBEAT_EVERY);
        let mut shown: VecDeque<Chunk> = VecDeque::new();
        let mut exited = None;
        if is_terminal {
            self.outgoing.extend(terminal::size().map(tty_size));
        }
        if self.input.is_none() {
            self.outgoing.push_back(stdin_closed());
        }
        loop {
            if let (Some(code), true) = (exited, shown.is_empty()) {
                return Ok(Ended::Exited(code));
            }
            tokio::select! {
                frame = reader.next(), if shown.is_empty() && exited.is_none() => match frame? {
                    Frame::Message(message) => {
                        let message = ServerMessage::read(&message)?;
                        exited = message.exit_code();
                        shown.extend(message.chunks());
                    }
                    Frame::Ping => self.writer.pong(),
                    Frame::Pong => {}
                    Frame::Closed(reason) if reason.is_empty() => {
                        bail!("the connection was closed before the command ended");
                    }
                    Frame::Closed(reason) => bail!(reason),
                },
                room = self.output.room(), if !shown.is_empty() => {
                    let Some(room) = room else { return Ok(Ended::Unread) };
                    if let Some(chunk) = shown.pop_front() {
                        room.send(chunk);
                    }
                }
                room = self.writer.room(), if !self.outgoing.is_empty() => {
                    let room = room?;
                    if let Some(message) = self.outgoing.pop_front() {
                        room.send(socket::text(message));
                    }
                }
                bytes = read(&mut self.input), if self.input.is_some() && self.outgoing.is_empty() => match bytes {
                    Some(bytes) => {
                        let (bytes, is_escaped) = self.escape.pass(bytes);
                        if is_escaped {
                            return Ok(Ended::Escaped);
                        }
                        if !bytes.is_empty() {
                            self.outgoing.push_back(stdin_data(bytes));
                        }
                    }
                    None => {
                        self.input = None;
                        self.outgoing.push_back(stdin_closed());
                    }
                },
                _ = resized.recv(), if is_terminal => self.outgoing.extend(terminal::size().map(tty_size)),
                _ = heartbeats.tick() => self.writer.heartbeat(),
                number = signals.next() => return Ok(Ended::Signalled(number)),
            }
        }
    }
}

/// The next bytes of the input; `None` when it has ended. Cancel safe.
async fn read(input: &mut Option<Input>) -> Option<Vec<u8>> {
    match input {
        Some(input) => input.next().await,
        None => None,
    }
}

/// Room for one item in a queue.
type Room<'q, T> = mpsc::Permit<'q, T>;
