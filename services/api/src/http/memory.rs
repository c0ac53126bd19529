//! Memory of bodies in flight: request bodies with what is decoded from them, and responses that are in memory as a whole.
//! Both have a limit for all connections together. Small bodies are not counted, so that large ones never keep them out:
//! their number is limited by that of the connections.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum size of a body that is not counted, in bytes.
pub(crate) const UNCOUNTED_BYTES_MAX: usize = 64 << 10;
/// Unit in which memory is counted, in bytes.
const UNIT_BYTES: usize = 1 << 10;

/// Memory that all bodies of one kind share.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
}

/// Memory that is taken until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    taken: Option<OwnedSemaphorePermit>,
}

impl Memory {
    /// With so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes_max / UNIT_BYTES)) }
    }

    /// Reserves memory for a body; `None` if there is not enough.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = Reservation::default();
        self.extend(&mut reservation, bytes).then_some(reservation)
    }

    /// Extends a reservation to so many bytes in all. Returns whether there was enough memory.
    pub(crate) fn extend(&self, reservation: &mut Reservation, bytes: usize) -> bool {
        if bytes <= UNCOUNTED_BYTES_MAX {
            return true;
        }
        let taken = reservation.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT_BYTES).saturating_sub(taken);
        let Ok(missing) = u32::try_from(missing) else { return false };
        let Ok(more) = Arc::clone(&self.free).try_acquire_many_owned(missing) else { return false };
        match &mut reservation.taken {
            Some(taken) => taken.merge(more),
            None => reservation.taken = Some(more),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_until_it_is_given_back() {
        let memory = Memory::new(1 << 20);
        let half = memory.reserve(512 << 10).unwrap();
        let mut other = memory.reserve(100 << 10).unwrap();
        assert!(memory.reserve(500 << 10).is_none());
        assert!(!memory.extend(&mut other, 600 << 10), "nothing is taken then");
        assert!(memory.extend(&mut other, 512 << 10));
        assert!(memory.reserve(UNCOUNTED_BYTES_MAX + 1).is_none());
        assert!(memory.reserve(UNCOUNTED_BYTES_MAX).is_some(), "small bodies always find room");
        drop((half, other));
        assert!(memory.reserve(1 << 20).is_some());
    }

    #[test]
    fn a_body_larger_than_the_budget_is_refused() {
        assert!(Memory::new(1 << 20).reserve(usize::MAX).is_none());
    }
}
