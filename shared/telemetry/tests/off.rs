//! Where spans are not exported, they do not exist: nothing is allocated for them. A process of its own, because a process
//! can set up logs only once, and because it counts its allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use telemetry::{Args, Format, Identity, attribute, traces};
use tracing::Span;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator; counts what each thread asks of it.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all calls are passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Fails while a thread ends; nobody looks any more.
        let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

fn work() {
    let span = tracing::info_span!(
        target: "api",
        "request",
        otel.name = %format_args!("{} {}", "PUT", "/v1/jobs"),
        { attribute::JOB_ID } = %String::from("an attribute that nobody reads is not made")
    );
    assert!(span.is_disabled());
    let _entered = span.enter();
    assert_eq!(telemetry::current_trace(), None);
    assert!(traces::within(|| unreachable!("there is no span to be within")).is_disabled());
    traces::join(&span, []);
    traces::fail(&span, "timeout", "no answer in time");
    assert!(Span::current().is_disabled());
}

#[tokio::test]
async fn a_span_that_nobody_wants_allocates_nothing() {
    let args = Args { level: "info".to_owned(), format: Format::Json };
    let identity = Identity { service: "test", version: "0", instance: String::new(), host: String::new() };
    let _guard = telemetry::init(&args, &identity).unwrap();
    assert!(!traces::are_exported());
    // The first time, the place in the source is registered.
    work();
    let before = ALLOCATED.get();
    work();
    assert_eq!(ALLOCATED.get() - before, 0);
}
