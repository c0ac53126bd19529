//! Whole listings of directories, page by page.

use actix_web::web::Bytes;
use model::text::quoted;
use wire::files::{FileInfo, FileList, LISTED_MAX, ListFiles};

use super::AllocAgent;
use crate::http::Error;

/// Maximum number of pages of a listing. Directories with more entries are not listed.
const PAGES_MAX: usize = 50;
/// Maximum number of entries of a listing.
const ENTRIES_MAX: usize = PAGES_MAX * LISTED_MAX;

impl AllocAgent {
    /// The entries of a directory, sorted by name. If the client leaves, this future is dropped, and no more pages are
    /// requested.
    ///
    /// # Errors
    /// If the agent refuses or does not answer, or the directory has more than [`ENTRIES_MAX`] entries.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<FileInfo>, Error> {
        let mut entries = Vec::new();
        let mut after: Option<Bytes> = None;
        for _ in 0..PAGES_MAX {
            let message = ListFiles { alloc: self.alloc(), path: path.into(), after: after.clone() };
            let FileList { files, next } = self.request(&message).await?;
            entries.extend(files);
            let Some(next) = next else { return Ok(entries) };
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
