//! Limits how many tasks start at the same time, so that a node that gets much work at once stays responsive. Starts wait
//! in the order of their arrival. Under pressure on processors or disks, fewer start at the same time.

mod pressure;

use std::fs;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use telemetry::clock;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use self::pressure::{Pressure, load_of, some_avg10, starts_max};

/// How long a start counts at most. One that takes longer waits for something other than this machine, such as an image.
const START_TIME_MAX: Duration = Duration::from_secs(10);
/// How often the pressure is read while starts wait.
const PRESSURE_INTERVAL: Duration = Duration::from_secs(1);

/// The starts of the node.
#[derive(Clone)]
pub(crate) struct Starts(Arc<Inner>);

struct Inner {
    permits: Semaphore,
    state: Mutex<State>,
    max: usize,
    processors: usize,
}

/// How many permits there are, and should be.
#[derive(Debug)]
struct State {
    /// Free permits and those in use.
    permits: usize,
    /// The number that the pressure allows.
    wanted: usize,
    /// When the pressure was last read.
    read_at: Option<Instant>,
}

/// The right to start a task now, until it is dropped.
pub(crate) struct StartPermit(Starts);

impl Starts {
    /// Allows this many starts without pressure; at least 1.
    pub(crate) fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let state = State { permits: max, wanted: max, read_at: None };
        Self(Arc::new(Inner { permits: Semaphore::new(max), state: Mutex::new(state), max, processors }))
    }

    /// A permit, if one is free and no other start waits.
    pub(crate) fn try_permit(&self) -> Option<StartPermit> {
        self.refresh();
        self.0.permits.try_acquire().ok()?.forget();
        Some(StartPermit(self.clone()))
    }

    /// Waits for a permit.
    pub(crate) async fn permit(&self) -> StartPermit {
        let acquired = self.0.permits.acquire();
        tokio::pin!(acquired);
        loop {
            self.refresh();
            tokio::select! {
                permit = &mut acquired => {
                    // The semaphore is never closed.
                    if let Ok(permit) = permit {
                        permit.forget();
                    }
                    return StartPermit(self.clone());
                }
                () = sleep(PRESSURE_INTERVAL) => {}
            }
        }
    }

    /// The number of starts that the pressure allows.
    pub(crate) fn allowed(&self) -> usize {
        self.state().wanted
    }

    /// Adapts the number of permits to the pressure. What is in use stays until it is free.
    fn refresh(&self) {
        let now = clock::monotonic();
        let mut state = self.state();
        if state.read_at.is_some_and(|at| now.saturating_duration_since(at) < PRESSURE_INTERVAL) {
            return;
        }
        state.read_at = Some(now);
        self.0.resize(&mut state, starts_max(self.0.max, self.0.processors, read_pressure()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless, because its holders do not panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn resize(&self, state: &mut State, wanted: usize) {
        state.wanted = wanted;
        if wanted > state.permits {
            self.permits.add_permits(wanted - state.permits);
            state.permits = wanted;
        } else {
            state.permits -= self.permits.forget_permits(state.permits - wanted);
        }
    }
}

impl StartPermit {
    /// Does the work of a start. The permit is free when the work is done, or takes too long.
    pub(crate) async fn during<T>(self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(START_TIME_MAX) => {}
        }
        drop(self);
        work.await
    }
}

impl Drop for StartPermit {
    fn drop(&mut self) {
        let Self(starts) = self;
        let mut state = starts.state();
        if state.permits > state.wanted {
            state.permits -= 1;
        } else {
            starts.0.permits.add_permits(1);
        }
    }
}

/// Reads the pressure. These files are in memory and small.
fn read_pressure() -> Pressure {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    Pressure {
        cpu_percent: some_avg10(&read("/proc/pressure/cpu")),
        io_percent: some_avg10(&read("/proc/pressure/io")),
        load: load_of(&read("/proc/loadavg")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Permits that do not depend on the machine.
    fn starts(max: usize) -> Starts {
        let starts = Starts::new(max);
        starts.state().read_at = Some(clock::monotonic() + Duration::from_secs(3_600));
        starts
    }

    fn allow(starts: &Starts, wanted: usize) {
        starts.0.resize(&mut starts.state(), wanted);
    }

    #[tokio::test]
    async fn further_starts_wait_until_one_is_done() {
        let starts = starts(2);
        let (first, second) = (starts.try_permit().unwrap(), starts.try_permit().unwrap());
        assert!(starts.try_permit().is_none());
        let third = starts.permit();
        tokio::pin!(third);
        tokio::select! {
            biased;
            _ = &mut third => panic!("no permit is free"),
            () = std::future::ready(()) => {}
        }
        first.during(async {}).await;
        let third = third.await;
        assert!(starts.try_permit().is_none());
        drop((second, third));
        assert!(starts.try_permit().is_some());
    }

    #[tokio::test]
    async fn fewer_permits_take_effect_when_starts_are_done() {
        let starts = starts(3);
        let permits: Vec<_> = (0..3).map(|_| starts.try_permit().unwrap()).collect();
        allow(&starts, 1);
        assert_eq!(starts.allowed(), 1);
        let mut permits = permits.into_iter();
        drop(permits.next());
        assert!(starts.try_permit().is_none(), "two are in use, and one is allowed");
        drop(permits.next());
        assert!(starts.try_permit().is_none());
        drop(permits.next());
        let only = starts.try_permit().unwrap();
        assert!(starts.try_permit().is_none());
        allow(&starts, 3);
        let others = (starts.try_permit().unwrap(), starts.try_permit().unwrap());
        assert!(starts.try_permit().is_none());
        drop((only, others));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_waits_for_others_does_not_hold_up_the_rest() {
        let starts = starts(1);
        let slow = starts.try_permit().unwrap().during(std::future::pending::<()>());
        let waiting = starts.permit();
        tokio::select! {
            () = slow => panic!("it never ends"),
            _permit = waiting => {}
        }
    }
}
