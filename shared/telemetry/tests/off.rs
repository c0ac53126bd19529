//! If spans are not exported, they allocate nothing. This is a separate process, because a process can set up logging
//! only once, and because the test counts allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use telemetry::{Args, Format, Identity, attribute, traces};
use tracing::Span;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a count of each thread's allocations.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Fails while a thread ends, when the count is no longer needed.
        let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

fn work() {
    let span = tracing::info_span!(
        target: "api",
        "request",
        otel.name = %format_args!("{} {}", "PUT", "/v1/jobs"),
        { attribute::JOB_ID } = %String::from("attributes of disabled spans are not evaluated")
    );
    assert!(span.is_disabled());
    let _entered = span.enter();
    assert_eq!(telemetry::current_trace(), None);
    assert!(traces::within(|| unreachable!("there is no current span")).is_disabled());
    traces::join(&span, []);
    traces::fail(&span, "timeout", "no response in time");
    assert!(Span::current().is_disabled());
}

#[tokio::test]
async fn a_span_that_nobody_wants_allocates_nothing() {
    let args = Args { level: "info".to_owned(), format: Format::Json };
    let identity = Identity { service: "test", version: "0", instance: String::new(), host: String::new() };
    let _guard = telemetry::init(&args, &identity).unwrap();
    assert!(!traces::are_exported());
    // The first call registers the callsites.
    work();
    let before = ALLOCATED.get();
    work();
    assert_eq!(ALLOCATED.get() - before, 0);
}
