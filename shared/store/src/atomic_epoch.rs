//! [`AtomicEpoch`]: the epoch of a writer, which its projector shares.

use std::sync::atomic::{AtomicU64, Ordering};

use model::Epoch;

use crate::error::Error;

/// The epoch that a writer holds or held; 0 if it never held one.
#[derive(Debug, Default)]
pub(crate) struct AtomicEpoch(AtomicU64);

impl AtomicEpoch {
    /// The epoch.
    ///
    /// # Errors
    /// [`Error::Deposed`] if the writer never held one.
    pub(crate) fn get(&self) -> Result<Epoch, Error> {
        match Epoch(self.0.load(Ordering::SeqCst)) {
            epoch @ Epoch(0) => Err(Error::Deposed { epoch }),
            epoch => Ok(epoch),
        }
    }

    /// Replaces the epoch, after the lease was taken.
    pub(crate) fn set(&self, epoch: Epoch) {
        self.0.store(epoch.0, Ordering::SeqCst);
    }
}
