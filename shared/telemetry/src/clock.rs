//! Clocks and random bytes, for the outer parts of services.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use model::{Nanos, Timestamp};

/// The current time by the host's wall clock.
#[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

/// The current time by a monotonic clock, which has no meaning outside of this process.
#[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The current time by a clock that never jumps: the wall clock when this process first called it, advanced by the monotonic
/// clock. It is for timers of one process; it differs from other clocks once the wall clock was set.
pub fn steady() -> Timestamp {
    static START: OnceLock<(Timestamp, Instant)> = OnceLock::new();
    let (start, at) = START.get_or_init(|| (now(), monotonic()));
    *start + Nanos(i64::try_from(at.elapsed().as_nanos()).unwrap_or(i64::MAX))
}

/// Unpredictable bytes, for ids.
pub fn random_bytes() -> [u8; 16] {
    rand::random()
}
