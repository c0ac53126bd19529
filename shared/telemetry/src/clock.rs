//! Clocks and chance, for the rims of services.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use model::Timestamp;

/// The machine's wall clock.
#[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

/// A clock that never goes back; means nothing outside this process.
#[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Bytes that nobody can guess, for ids.
pub fn random_bytes() -> [u8; 16] {
    rand::random()
}
