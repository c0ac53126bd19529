//! The objects that a job refers to in the cluster.

use model::text::quoted;
use model::{JobKey, Text};

use crate::tables::State;

/// An object that a job refers to and that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job {} is in nonexistent {kind} {}", quoted(.job), quoted(.name))]
pub struct MissingReference {
    job: Text,
    /// The kind of object.
    kind: &'static str,
    /// Name of the object.
    name: Text,
}

impl State {
    /// The namespace and the node pool of a job, as far as they do not exist. A job that lacks one of them may not be
    /// registered (N-17.17): the API checks it when it admits the job, and the applier at the index of the command.
    pub fn missing_references(
        &self,
        job: &JobKey,
        node_pool: &str,
    ) -> impl Iterator<Item = MissingReference> {
        let missing =
            |kind, name: &str| MissingReference { job: Text::clone(&job.id), kind, name: name.into() };
        let namespace = &*job.namespace;
        let in_namespace = self.namespace(namespace).is_none().then(|| missing("namespace", namespace));
        let in_pool = self.node_pool(node_pool).is_none().then(|| missing("node pool", node_pool));
        in_namespace.into_iter().chain(in_pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_references_are_named() {
        let missing: Vec<String> = State::default()
            .missing_references(&JobKey::new("team", "web"), "gpu")
            .map(|missing| missing.to_string())
            .collect();
        assert_eq!(
            missing,
            [
                r#"job "web" is in nonexistent namespace "team""#,
                r#"job "web" is in nonexistent node pool "gpu""#
            ]
        );
    }
}
