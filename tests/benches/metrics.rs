//! The cost of recording a metric: a counter, a counter with labels, and a histogram, from one thread and from several
//! threads that record into the same series; and the cost of a snapshot of everything that a process has recorded.
//! `TIMES` in the environment sets how often each is done.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use telemetry::metrics::catalogue::{API_REQUEST, API_REQUESTS, FEED_GAPS, RAFT_COMMIT_TIME};
use telemetry::metrics::snapshot;
use tests::bench::table::{Line, section};
use tests::bench::{run, size};

/// Number of threads that record at once.
const THREADS: usize = 2;

fn main() {
    run(async {
        let times = size("TIMES", 2_000_000);
        section(&format!("metrics, {times} times each (ns)"));
        let routes: Vec<String> = (0..100).map(|number| format!("/v1/of/route/{number}")).collect();
        for route in &routes {
            API_REQUESTS.add_with(1, &[route, "GET", "2xx"]);
        }
        let route = routes[50].as_str();
        each("a counter", times, || FEED_GAPS.add(1));
        each("a counter with three labels, one of a hundred series", times, || {
            API_REQUESTS.add_with(1, &[black_box(route), "GET", "2xx"]);
        });
        each("a histogram", times, || RAFT_COMMIT_TIME.record(black_box(Duration::from_micros(700))));
        each("a histogram with two labels", times, || {
            API_REQUEST.record_with(black_box(0.000_7), &[black_box(route), "GET"]);
        });
        let snapshots: Vec<Duration> = (0..100)
            .map(|_| {
                let began = Instant::now();
                black_box(snapshot());
                began.elapsed()
            })
            .collect();
        Line::millis("a snapshot of everything recorded (ms)", &snapshots).print();
    });
}

fn each(what: &str, times: u64, record: impl Fn() + Sync) {
    let alone = measure(times, &record);
    let together = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| measure(times, &record))).collect();
        threads.into_iter().map(|thread| thread.join().expect("recording does not panic")).fold(0.0, f64::max)
    });
    Line::of(format!("{what} (ns)"), vec![alone]).print();
    Line::of(format!("  by {THREADS} threads at once"), vec![together]).print();
}

/// Nanoseconds for one recording.
fn measure(times: u64, record: &impl Fn()) -> f64 {
    let began = Instant::now();
    (0..times).for_each(|_| record());
    began.elapsed().as_nanos() as f64 / times as f64
}
