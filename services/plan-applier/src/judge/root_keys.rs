//! Adds a key that the cluster signs with.

use model::change::Change;
use model::keyring::RootKey;
use wire::Refusal;
use wire::command::{AddRootKey, Done};

use super::work::Work;

/// Adds the key, unless there is one: two appliers may have created one each.
pub(super) fn add_root_key(work: &mut Work<'_>, AddRootKey { key }: AddRootKey) -> Result<Done, Refusal> {
    if work.state().root_keys().next().is_some() {
        return Ok(Done::default());
    }
    let index = work.index();
    let key = RootKey { create_time: work.at(), create_index: index, modify_index: index, ..key };
    work.apply(Change::RootKey(Box::new(key)))?;
    Ok(Done { object_index: index, ..Done::default() })
}
