//! The allocator: many small pieces that live long, on several threads (figures in `docs/architecture.md`).

use std::ffi::{c_int, c_long};

#[cfg(test)]
use libmimalloc_sys::mi_option_get;
use libmimalloc_sys::mi_option_set;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of `purge_delay` among mimalloc's options, which its bindings do not name.
const PURGE_DELAY: c_int = 15;
/// How long memory that nobody uses is kept, in milliseconds. A busy server asks again for what it gave back at once;
/// pages that the system has to clear each time cost it a tenth of its processor time. Kept for a second, half a gigabyte
/// stays with it after a burst of a million allocations.
const KEPT_MS: c_long = 250;
/// Who sets it decides for himself.
const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

/// Has memory kept for a while. Once, as the process begins.
pub(crate) fn keep_memory() {
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: the option exists (a test looks), any number of milliseconds is valid for it, and mimalloc reads and
        // writes its options as atomics, so that other threads may allocate meanwhile.
        unsafe { mi_option_set(PURGE_DELAY, KEPT_MS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: reading an option has no requirements beyond a number that mimalloc knows.
        let by_default = unsafe { mi_option_get(PURGE_DELAY) };
        let told = std::env::var(VARIABLE).ok().and_then(|told| told.parse().ok());
        assert_eq!(by_default, told.unwrap_or(10), "what mimalloc's documentation says of `purge_delay`");
    }
}
