//! States and change sets for tests, and a look at the code.

use model::change::{Cause, Change, ChangeSet};
use model::cluster::{Namespace, NodePool};
use model::{Index, RequestId, Timestamp};
use state::State;

/// Folder of the repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Whether the code of a file has a word, outside of lines of comments.
pub(crate) fn has_word(file: &str, word: &str) -> bool {
    let text = std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap_or_default();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split(|c| !is_part(c))).any(|found| found == word)
}

/// A change set at an index.
pub(crate) fn set(index: u64, changes: Vec<Change>) -> ChangeSet {
    ChangeSet {
        index: Index(index),
        at: Timestamp::from_secs(1_767_225_600),
        request_id: RequestId::from_bytes([1; 16]),
        cause: Cause::Settings,
        trace: None,
        result: Vec::new(),
        changes,
    }
}

/// The state of a new cluster after these changes.
pub(crate) fn state_of(changes: Vec<Change>) -> State {
    let namespace = Namespace {
        name: "default".into(),
        description: "Default shared namespace".into(),
        create_index: Index(1),
        modify_index: Index(1),
        ..Namespace::default()
    };
    let pool = NodePool {
        name: "default".into(),
        create_index: Index(1),
        modify_index: Index(1),
        ..NodePool::default()
    };
    let mut state = State::default();
    let made = vec![Change::Namespace(Box::new(namespace)), Change::NodePool(Box::new(pool))];
    state.apply(&set(1, made)).unwrap();
    state.apply(&set(2, changes)).unwrap();
    state
}
