//! Adds a key that the cluster signs with.

use model::change::Change;
use model::keyring::RootKey;
use wire::Refusal;
use wire::command::{AddRootKey, Done, Handler};

use super::work::Work;

/// Adds the key, unless there is one: two appliers may have created one each.
impl Handler<AddRootKey> for Work<'_> {
    fn handle(&mut self, AddRootKey { key }: AddRootKey) -> Result<Done, Refusal> {
        if self.state().root_keys().next().is_some() {
            return Ok(Done::default());
        }
        let index = self.index();
        let key = RootKey { create_time: self.at(), create_index: index, modify_index: index, ..key };
        self.apply(Change::RootKey(Box::new(key)))?;
        Ok(Done { object_index: index, ..Done::default() })
    }
}
