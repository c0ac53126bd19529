//! This process's log lines for those who listen now, at a level of their own: what is logged otherwise stays as it is.
//! While nobody listens, it costs nothing.

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
use crate::traces::is_ours;

/// The most lines that wait for a listener; of one that is slower, the oldest are lost.
const WAITING_MAX: usize = 1_024;
/// The most bytes of one field that are kept.
const FIELD_BYTES_MAX: usize = 4 << 10;
/// Lines of libraries are not finer than this, whoever listens: some would tell of the listening itself.
const LIBRARIES: Level = Level::INFO;
/// From the coarsest to the finest.
const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

static MONITOR: LazyLock<Monitor> = LazyLock::new(|| Monitor {
    lines: broadcast::Sender::new(WAITING_MAX),
    listening: Mutex::default(),
    finest: AtomicUsize::new(0),
});

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it was written.
    pub at: Timestamp,
    /// How much it matters.
    pub level: Level,
    /// The module that it comes from.
    pub target: &'static str,
    /// The file and line that it comes from, if they are known.
    pub location: Option<(&'static str, u32)>,
    /// What it says.
    pub message: String,
    /// The values in it, by name.
    pub fields: Vec<(&'static str, String)>,
}

/// What a listener gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A line.
    Line(Arc<Line>),
    /// So many lines, of any level, came while it was not looking and are lost.
    Missed(u64),
}

/// Hears this process's log lines until it is dropped.
#[derive(Debug)]
pub struct Listener {
    level: Level,
    lines: broadcast::Receiver<Arc<Line>>,
}

/// Begins to listen to lines of a level and of all coarser ones. Whoever never set up logs hears nothing.
pub fn listen(level: Level) -> Listener {
    let lines = MONITOR.lines.subscribe();
    MONITOR.change(|listening| listening[place(level)] += 1);
    Listener { level, lines }
}

impl Listener {
    /// The next line, when there is one. May be cancelled without losing anything.
    pub async fn next(&mut self) -> Heard {
        loop {
            match self.lines.recv().await {
                Ok(line) if line.level <= self.level => return Heard::Line(line),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return Heard::Missed(missed),
                // The sender is never dropped.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        MONITOR.change(|listening| listening[place(self.level)] -= 1);
    }
}

fn place(level: Level) -> usize {
    LEVELS.iter().position(|known| *known == level).unwrap_or_default()
}

struct Monitor {
    lines: broadcast::Sender<Arc<Line>>,
    /// How many listen at each of the levels.
    listening: Mutex<[usize; LEVELS.len()]>,
    /// How many of the levels somebody listens to.
    finest: AtomicUsize,
}

impl Monitor {
    fn change(&self, change: impl FnOnce(&mut [usize; LEVELS.len()])) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut listening);
        let finest = listening.iter().rposition(|count| *count > 0).map_or(0, |place| place + 1);
        let before = self.finest.swap(finest, Ordering::Relaxed);
        drop(listening);
        if before != finest {
            // Whoever logs remembers whether anybody wants it.
            tracing::callsite::rebuild_interest_cache();
        }
    }

    fn finest(&self) -> Option<Level> {
        let levels = self.finest.load(Ordering::Relaxed);
        levels.checked_sub(1).and_then(|place| LEVELS.get(place).copied())
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let Some(finest) = self.finest() else { return false };
        let finest = if is_ours(metadata.target()) { finest } else { finest.min(LIBRARIES) };
        metadata.is_event() && *metadata.level() <= finest
    }
}

/// Hands lines to those who listen.
pub(crate) fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    Tell.with_filter(Wanted)
}

struct Tell;

impl<S: Subscriber> Layer<S> for Tell {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut read = Read::default();
        event.record(&mut read);
        let line = Line {
            at: clock::now(),
            level: *metadata.level(),
            target: metadata.target(),
            location: metadata.file().zip(metadata.line()),
            message: read.message,
            fields: read.fields,
        };
        // Fails if the last one has just stopped listening.
        let _ = MONITOR.lines.send(Arc::new(line));
    }
}

struct Wanted;

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        MONITOR.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if MONITOR.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(MONITOR.finest().map_or(LevelFilter::OFF, LevelFilter::from_level))
    }
}

/// Takes the values out of an event.
#[derive(Default)]
struct Read {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Read {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        const MESSAGE: &str = "message";
        let mut text = Short::default();
        // Fails where the text is too long.
        let _ = write!(text, "{value:?}");
        match field.name() {
            MESSAGE => self.message = text.0,
            name => self.fields.push((name, text.0)),
        }
    }
}

/// A text that takes no more than so much.
#[derive(Default)]
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = FIELD_BYTES_MAX - self.0.len();
        let end = text.floor_char_boundary(room);
        self.0.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Listeners are the process's, and so tests that have some take turns.
    static TURN: Mutex<()> = Mutex::new(());

    async fn next_line(listener: &mut Listener) -> Arc<Line> {
        match listener.next().await {
            Heard::Line(line) => line,
            Heard::Missed(count) => panic!("{count} lines are lost"),
        }
    }

    #[test]
    fn each_listener_hears_its_level() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let subscriber = tracing_subscriber::registry().with(layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: "api", "nobody listens");
            let (mut fine, mut coarse) = (listen(Level::DEBUG), listen(Level::WARN));
            tracing::debug!(target: "api", count = 3, name = "x", "first");
            tracing::debug!(target: "some_library", "too fine of a library");
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
            assert_eq!(MONITOR.finest(), None);
        });
    }

    #[test]
    fn a_slow_listener_is_told_what_it_lost() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let subscriber = tracing_subscriber::registry().with(layer());
        tracing::subscriber::with_default(subscriber, || {
            let mut listener = listen(Level::INFO);
            for number in 0..WAITING_MAX + 10 {
                tracing::info!(target: "api", number, "line");
            }
            runtime.block_on(async {
                assert_eq!(listener.next().await, Heard::Missed(10));
                assert_eq!(next_line(&mut listener).await.fields, [("number", "10".to_owned())]);
            });
        });
    }

    #[test]
    fn long_values_are_cut() {
        let mut text = Short::default();
        assert!(write!(text, "{}", "\u{e9}".repeat(FIELD_BYTES_MAX)).is_err());
        assert_eq!(text.0.len(), FIELD_BYTES_MAX);
        assert!(write!(text, "x").is_err());
    }
}
