//! The topics of an event stream (http-api §26.1).

use std::collections::{BTreeMap, BTreeSet};

use crate::http::{Error, Namespace, Query};

/// Matches any topic or key.
const ANY: &str = "*";
/// Maximum number of topics of a request.
const TOPICS_MAX: usize = 1_000;

/// Topics and keys of a stream. A request without topics gets all events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Topics {
    /// The keys that are wanted of each topic.
    wanted: BTreeMap<String, BTreeSet<String>>,
    namespace: Namespace,
}

impl Topics {
    /// Parses the topics of a request.
    ///
    /// # Errors
    /// If a topic has more than one key, or there are too many topics.
    pub(crate) fn read(query: &Query) -> Result<Self, Error> {
        let invalid = |problem: String| {
            Error::bad_request(format!("Invalid topic query: error parsing topics: {problem}"))
        };
        let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (position, text) in query.all("topic").enumerate() {
            if position == TOPICS_MAX {
                return Err(invalid(format!("more than {TOPICS_MAX} topics")));
            }
            let (topic, key) = text.split_once(':').unwrap_or((text, ANY));
            if key.contains(':') {
                return Err(invalid(format!("Invalid key value pair for topic, topic: {text}")));
            }
            wanted.entry(topic.to_owned()).or_default().insert(key.to_owned());
        }
        if wanted.is_empty() {
            wanted.entry(ANY.to_owned()).or_default().insert(ANY.to_owned());
        }
        Ok(Self { wanted, namespace: query.namespace() })
    }

    /// Whether events of a topic can match.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.wanted.contains_key(ANY) || self.wanted.contains_key(topic)
    }

    /// Whether an event matches. An event without a namespace matches in every namespace.
    pub(super) fn wants(&self, topic: &str, key: &str, filter_keys: &[String], namespace: &str) -> bool {
        if !namespace.is_empty() && !self.namespace.holds(namespace) {
            return false;
        }
        let mut wanted_keys = [topic, ANY].into_iter().filter_map(|topic| self.wanted.get(topic));
        wanted_keys.any(|keys| {
            let has = |key: &str| keys.contains(key);
            // An empty key matches nothing: it stands for a deployment that an event does not have.
            has(ANY) || has(key) || filter_keys.iter().any(|key| !key.is_empty() && has(key))
        })
    }
}
