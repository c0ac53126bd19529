//! The memory allocator, configured for many small, long-lived objects on several threads
//! (`docs/decisions/0021-mimalloc.md` has the measurements).

use std::ffi::{c_int, c_long};

/// The memory allocator of the `drover` binary. A binary declares it, not this library, so that fuzz targets, which use the
/// library, can count their allocations.
pub use mimalloc::MiMalloc as Allocator;

#[cfg(test)]
use libmimalloc_sys::mi_option_get;
use libmimalloc_sys::mi_option_set;

/// The index of `purge_delay` among mimalloc's options. The bindings do not name it.
const PURGE_DELAY_OPTION: c_int = 15;
/// How long unused memory is kept before it is returned to the system, in milliseconds. A busy server soon needs again the
/// memory that it returned, and clearing those pages costs a tenth of its processor time. With a delay of one second, half
/// a gigabyte stays with the process after a burst of a million allocations.
const PURGE_DELAY_MS: c_long = 250;
/// The environment variable that overrides [`PURGE_DELAY_MS`].
const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

/// Delays the return of unused memory to the system. Called once, when the process starts.
pub(crate) fn delay_purges() {
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: the option exists (a test checks it), any number of milliseconds is valid for it, and mimalloc reads and
        // writes its options as atomics, so other threads may allocate at the same time.
        unsafe { mi_option_set(PURGE_DELAY_OPTION, PURGE_DELAY_MS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: reading an option requires only an index that mimalloc knows.
        let by_default = unsafe { mi_option_get(PURGE_DELAY_OPTION) };
        let from_env = std::env::var(VARIABLE).ok().and_then(|value| value.parse().ok());
        assert_eq!(
            by_default,
            from_env.unwrap_or(10),
            "the default of `purge_delay` in mimalloc's documentation"
        );
    }
}
