//! Streams the log lines of this process to listeners, each with its own level. The ordinary log is not affected.
//! Without listeners, this costs nothing.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use model::Timestamp;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::clock;
use crate::traces::is_own_crate;

/// Maximum number of lines that wait for a listener. A slower listener loses the oldest lines.
const WAITING_MAX: usize = 1_024;
/// Maximum number of bytes of one field; longer values are truncated.
const FIELD_BYTES_MAX: usize = 4 << 10;
/// Maximum number of bytes of the message and the fields of a line together; what exceeds it is left out.
const LINE_BYTES_MAX: usize = 16 << 10;
/// The most verbose level for libraries. Some libraries would otherwise log the streaming itself.
const LIBRARY_LEVEL: Level = Level::INFO;
/// All levels, from the least to the most verbose.
const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

static MONITOR: LazyLock<Monitor> = LazyLock::new(|| Monitor {
    lines: broadcast::Sender::new(WAITING_MAX),
    listeners: Mutex::default(),
    level_count: AtomicUsize::new(0),
});

/// One log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Time of writing.
    pub at: Timestamp,
    /// Severity.
    pub level: Level,
    /// The module that wrote it.
    pub target: &'static str,
    /// The file and line of the source, if they are known.
    pub location: Option<(&'static str, u32)>,
    /// The message.
    pub message: String,
    /// The fields, by name.
    pub fields: Vec<(&'static str, String)>,
}

/// An item that a listener receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A log line.
    Line(Arc<Line>),
    /// Number of lines, of any level, that were lost because the listener was too slow.
    Missed(u64),
}

/// Receives this process's log lines until it is dropped.
#[derive(Debug)]
pub struct Listener {
    level: Level,
    lines: broadcast::Receiver<Arc<Line>>,
}

/// Starts to listen to lines of a level and all less verbose levels. Without a log subscriber, the listener receives
/// nothing.
pub fn listen(level: Level) -> Listener {
    let lines = MONITOR.lines.subscribe();
    MONITOR.update(|listeners| listeners[position(level)] += 1);
    Listener { level, lines }
}

impl Listener {
    /// Waits for the next line. Cancel safe.
    pub async fn next(&mut self) -> Received {
        loop {
            match self.lines.recv().await {
                Ok(line) if line.level <= self.level => return Received::Line(line),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return Received::Missed(missed),
                // The sender is never dropped.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        MONITOR.update(|listeners| listeners[position(self.level)] -= 1);
    }
}

fn position(level: Level) -> usize {
    LEVELS.iter().position(|known| *known == level).unwrap_or_default()
}

struct Monitor {
    lines: broadcast::Sender<Arc<Line>>,
    /// Number of listeners for each level.
    listeners: Mutex<[usize; LEVELS.len()]>,
    /// Number of levels that have to be recorded, from the least verbose one.
    level_count: AtomicUsize,
}

impl Monitor {
    fn update(&self, change: impl FnOnce(&mut [usize; LEVELS.len()])) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut listeners);
        let level_count = listeners.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let before = self.level_count.swap(level_count, Ordering::Relaxed);
        drop(listeners);
        if before != level_count {
            // Callsites cache whether any layer is interested in them.
            tracing::callsite::rebuild_interest_cache();
        }
    }

    /// The most verbose level that has a listener.
    fn most_verbose(&self) -> Option<Level> {
        let level_count = self.level_count.load(Ordering::Relaxed);
        level_count.checked_sub(1).and_then(|last| LEVELS.get(last).copied())
    }

    fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        let Some(level) = self.most_verbose() else { return false };
        let level = if is_own_crate(metadata.target()) { level } else { level.min(LIBRARY_LEVEL) };
        metadata.is_event() && *metadata.level() <= level
    }
}

/// A layer that sends log lines to the listeners.
pub(crate) fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    SendLines.with_filter(ListenedLevels)
}

struct SendLines;

impl<S: Subscriber> Layer<S> for SendLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut visitor = EventVisitor::default();
        event.record(&mut visitor);
        let line = Line {
            at: clock::now(),
            level: *metadata.level(),
            target: metadata.target(),
            location: metadata.file().zip(metadata.line()),
            message: visitor.message,
            fields: visitor.fields,
        };
        // Fails if the last listener has just been dropped.
        let _ = MONITOR.lines.send(Arc::new(line));
    }
}

struct ListenedLevels;

impl<S> Filter<S> for ListenedLevels {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        MONITOR.is_enabled(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if MONITOR.is_enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(MONITOR.most_verbose().map_or(LevelFilter::OFF, LevelFilter::from_level))
    }
}

/// Collects the message and the fields of an event.
#[derive(Default)]
struct EventVisitor {
    message: String,
    fields: Vec<(&'static str, String)>,
    bytes: usize,
}

impl Visit for EventVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        const MESSAGE: &str = "message";
        let mut text = TruncatedText::new(FIELD_BYTES_MAX.min(LINE_BYTES_MAX - self.bytes));
        // Fails if the text is too long; the beginning is kept.
        let _ = write!(text, "{value:?}");
        self.bytes += text.text.len();
        match field.name() {
            MESSAGE => self.message = text.text,
            name => self.fields.push((name, text.text)),
        }
    }
}

/// A text of limited length.
struct TruncatedText {
    text: String,
    bytes_max: usize,
}

impl TruncatedText {
    fn new(bytes_max: usize) -> Self {
        Self { text: String::new(), bytes_max }
    }
}

impl fmt::Write for TruncatedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes_max - self.text.len();
        let end = text.floor_char_boundary(room);
        self.text.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Listeners belong to the process, so tests with listeners run one at a time.
    static SERIAL: Mutex<()> = Mutex::new(());

    async fn next_line(listener: &mut Listener) -> Arc<Line> {
        match listener.next().await {
            Received::Line(line) => line,
            Received::Missed(count) => panic!("{count} lines were lost"),
        }
    }

    #[test]
    fn each_listener_receives_its_level() {
        let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let subscriber = tracing_subscriber::registry().with(layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: "api", "no listener");
            let (mut fine, mut coarse) = (listen(Level::DEBUG), listen(Level::WARN));
            tracing::debug!(target: "api", count = 3, name = "x", "first");
            tracing::debug!(target: "some_library", "too verbose for a library");
            tracing::warn!(target: "some_library", "second");
            runtime.block_on(async {
                let first = next_line(&mut fine).await;
                assert_eq!(
                    (first.level, first.target, first.message.as_str()),
                    (Level::DEBUG, "api", "first")
                );
                assert_eq!(first.fields, [("count", "3".to_owned()), ("name", "x".to_owned())]);
                assert_eq!(next_line(&mut fine).await.message, "second");
                assert_eq!(next_line(&mut coarse).await.message, "second");
            });
            drop((fine, coarse));
            assert_eq!(MONITOR.most_verbose(), None);
        });
    }

    #[test]
    fn a_slow_listener_is_told_what_it_lost() {
        let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let subscriber = tracing_subscriber::registry().with(layer());
        tracing::subscriber::with_default(subscriber, || {
            let mut listener = listen(Level::INFO);
            for number in 0..WAITING_MAX + 10 {
                tracing::info!(target: "api", number, "line");
            }
            runtime.block_on(async {
                assert_eq!(listener.next().await, Received::Missed(10));
                assert_eq!(next_line(&mut listener).await.fields, [("number", "10".to_owned())]);
            });
        });
    }

    #[test]
    fn long_values_are_cut() {
        let mut text = TruncatedText::new(FIELD_BYTES_MAX);
        assert!(write!(text, "{}", "\u{e9}".repeat(FIELD_BYTES_MAX)).is_err());
        assert_eq!(text.text.len(), FIELD_BYTES_MAX);
        assert!(write!(text, "x").is_err());
    }

    #[test]
    fn long_lines_are_cut() {
        let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let subscriber = tracing_subscriber::registry().with(layer());
        tracing::subscriber::with_default(subscriber, || {
            let mut listener = listen(Level::INFO);
            let long = "x".repeat(2 * FIELD_BYTES_MAX);
            tracing::info!(target: "api", a = long, b = long, c = long, d = long, e = long, f = long, "long");
            let line = runtime.block_on(next_line(&mut listener));
            let bytes = line.message.len() + line.fields.iter().map(|(_, value)| value.len()).sum::<usize>();
            assert_eq!((bytes, line.fields.len()), (LINE_BYTES_MAX, 6));
        });
    }
}
