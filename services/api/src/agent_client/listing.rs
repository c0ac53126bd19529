//! Whole listings of directories, page by page.

use actix_web::web::Bytes;
use model::text::quoted;
use wire::files::{FileInfo, FileList, LISTED_MAX, ListFiles};

use super::AllocAgent;
use crate::http::{Error, Memory, Reservation, no_response_memory};

/// Maximum number of pages of a listing. Directories with more entries are not listed.
const PAGES_MAX: usize = 50;
/// Maximum number of entries of a listing.
const ENTRIES_MAX: usize = PAGES_MAX * LISTED_MAX;
/// Memory that an entry takes, in bytes.
const ENTRY_BYTES: usize = 512;

/// The entries of a directory, sorted by name. Their memory counts as taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<FileInfo>,
    _memory: Reservation,
}

impl AllocAgent {
    /// The entries of a directory. If the client leaves, this future is dropped, and no more pages are requested.
    ///
    /// # Errors
    /// If the agent refuses or does not answer, the directory has more than [`ENTRIES_MAX`] entries, or there is no memory
    /// for them.
    pub(crate) async fn list(&self, path: &str, memory: &Memory) -> Result<Listing, Error> {
        let (mut entries, mut reservation) = (Vec::new(), Reservation::default());
        let mut after: Option<Bytes> = None;
        for _ in 0..PAGES_MAX {
            let message = ListFiles { alloc: self.alloc(), path: path.into(), after: after.clone() };
            let FileList { files, next } = self.request(&message).await?;
            entries.extend(files);
            if !memory.extend(&mut reservation, entries.len() * ENTRY_BYTES) {
                return Err(no_response_memory());
            }
            let Some(next) = next else { return Ok(Listing { entries, _memory: reservation }) };
            if after.is_some_and(|after| next <= after) {
                return Err(Error::unavailable("the node listed the same part of the directory twice"));
            }
            after = Some(next);
        }
        let path = quoted(path);
        Err(Error::failed(format!(
            "directory {path} has more than {ENTRIES_MAX} entries, and cannot be listed"
        )))
    }
}
