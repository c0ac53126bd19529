//! Warnings of the server while a statement is carried out.
//!
//! A commit that waits for a synchronous standby can be cancelled by an administrator. The server then reports a success,
//! with a warning: the commit has been written, but perhaps on this server only. The driver passes warnings to `tracing`
//! and to nobody else. [`collect`] therefore polls the work with a subscriber that keeps them and passes everything else on.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::OnceLock;

use tracing::dispatcher::{self, Dispatch};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Level, Metadata};

/// Where the driver reports messages of the server.
const TARGET: &str = "sqlx::postgres::notice";
/// Part of a warning that has nothing to do with the commit that it accompanies: that transaction ids run out.
const HARMLESS: &str = "must be vacuumed within";

thread_local! {
    /// The warnings of the work that is being polled in this thread.
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The subscriber. It is created once, because each new one makes `tracing` ask all places of the program again whether they
/// are of interest.
static COLLECTOR: OnceLock<Dispatch> = OnceLock::new();

/// Whether a warning says, or may say, that a commit is not on a synchronous standby although it was reported as successful.
/// Servers translate their messages, so everything counts that is not known to be harmless.
pub(crate) fn puts_commit_in_doubt(warning: &str) -> bool {
    !warning.contains(HARMLESS)
}

/// Carries out `work`. Returns its result, and the warnings that the server sent meanwhile.
pub(crate) async fn collect<F: Future>(work: F) -> (F::Output, Vec<String>) {
    let collector = COLLECTOR.get_or_init(|| {
        let inner = dispatcher::get_default(Dispatch::clone);
        Dispatch::new(Collector { inner })
    });
    let mut work = pin!(work);
    let mut warnings = Vec::new();
    let result = std::future::poll_fn(|context| {
        let polled = dispatcher::with_default(collector, || work.as_mut().poll(context));
        warnings.append(&mut SEEN.take());
        polled
    })
    .await;
    (result, warnings)
}

/// Keeps warnings of the server, and passes everything else to the subscriber that was the default before.
struct Collector {
    inner: Dispatch,
}

fn is_warning(metadata: &Metadata<'_>) -> bool {
    metadata.target() == TARGET && *metadata.level() <= Level::WARN
}

/// The text of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Collector {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_warning(metadata) { Interest::always() } else { self.inner.register_callsite(metadata) }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_warning(metadata) || self.inner.enabled(metadata)
    }

    /// Other subscribers raise the level for their own events.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        if !is_warning(event.metadata()) {
            return self.inner.event(event);
        }
        let mut message = Message::default();
        event.record(&mut message);
        SEEN.with_borrow_mut(|seen| seen.push(message.0));
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.inner.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.inner.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.inner.record_follows_from(span, follows);
    }

    fn enter(&self, span: &Id) {
        self.inner.enter(span);
    }

    fn exit(&self, span: &Id) {
        self.inner.exit(span);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.inner.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        self.inner.try_close(id)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn warnings_of_the_server_are_kept_and_nothing_else() {
        let work = async {
            tracing::warn!(target: TARGET, message = "canceling wait for synchronous replication");
            tracing::info!(target: TARGET, message = "relation exists, skipping");
            tracing::warn!(message = "of this program");
            7
        };
        let (result, warnings) = collect(work).now_or_never().expect("the work does not wait");
        assert_eq!(
            (result, &warnings[..]),
            (7, &["canceling wait for synchronous replication".to_owned()][..])
        );
        tracing::warn!(target: TARGET, message = "outside of it");
        let (_, warnings) = collect(std::future::ready(())).now_or_never().expect("the work does not wait");
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn a_commit_is_in_doubt_unless_the_warning_is_known() {
        assert!(puts_commit_in_doubt("canceling wait for synchronous replication due to user request"));
        assert!(puts_commit_in_doubt("storniere Warten auf synchrone Replikation"));
        assert!(!puts_commit_in_doubt("database \"drover\" must be vacuumed within 39985967 transactions"));
    }
}
