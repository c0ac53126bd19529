//! [`Memory`]: the system's allocator, which counts the memory of each thread. It counts only in programs that
//! declare it as their global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

/// Memory that a thread can hold. Allocations beyond it fail, which ends the process, so that an input without bounds
/// does not take all memory of the machine.
const HELD_MAX: isize = 1 << 30;

thread_local! {
    /// Bytes that the thread holds. Negative if it freed what other threads allocated.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// Maximum of `HELD` since the last call of `watch`.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator with counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory;

/// Begins to record the peak, and returns what the thread holds now.
pub(crate) fn watch() -> isize {
    let held = HELD.get();
    PEAK.set(held);
    held
}

/// The largest amount since [`watch`] in addition to what it returned, in bytes.
pub(crate) fn peak_since(held: isize) -> usize {
    usize::try_from(PEAK.get().saturating_sub(held)).unwrap_or(0)
}

/// Counts bytes to be allocated. Returns whether they are within the limit.
fn add(bytes: usize) -> bool {
    let add = |held: &Cell<isize>| {
        let sum = held.get().saturating_add(bytes.cast_signed());
        if sum > HELD_MAX {
            return false;
        }
        held.set(sum);
        // Fails while the thread ends, when nobody reads the peak.
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(sum)));
        true
    };
    HELD.try_with(add).unwrap_or(true)
}

/// Counts freed bytes.
fn subtract(bytes: usize) {
    // Fails while the thread ends.
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(bytes.cast_signed())));
}

// SAFETY: all calls are forwarded to the system's allocator, or fail without an effect.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !add(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !add(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size.checked_sub(layout.size()) {
            Some(more) if !add(more) => return ptr::null_mut(),
            Some(_) => {}
            None => subtract(layout.size() - size),
        }
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}
