//! The topics of an event stream (http-api §26.1).

use crate::http::{Error, Namespace, Query};

/// Matches any topic or key.
const ANY: &str = "*";

/// Topics and keys of a stream. A request without topics gets all events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Topics {
    wanted: Vec<(String, String)>,
    namespace: Namespace,
}

impl Topics {
    /// Parses the topics of a request.
    ///
    /// # Errors
    /// If a topic has more than one key.
    pub(crate) fn read(query: &Query) -> Result<Self, Error> {
        let mut wanted = Vec::new();
        for text in query.all("topic") {
            let (topic, key) = text.split_once(':').unwrap_or((text, ANY));
            if key.contains(':') {
                return Err(Error::bad_request(format!(
                    "Invalid topic query: Invalid key value pair for topic, topic: {text}"
                )));
            }
            wanted.push((topic.to_owned(), key.to_owned()));
        }
        if wanted.is_empty() {
            wanted.push((ANY.to_owned(), ANY.to_owned()));
        }
        Ok(Self { wanted, namespace: query.namespace() })
    }

    /// Whether events of a topic can match.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.wanted.iter().any(|(wanted, _)| wanted == ANY || wanted == topic)
    }

    /// Whether an event matches. An event without a namespace matches in every namespace.
    pub(super) fn wants(&self, topic: &str, key: &str, filter_keys: &[String], namespace: &str) -> bool {
        if !namespace.is_empty() && !self.namespace.holds(namespace) {
            return false;
        }
        let is_key =
            |wanted: &str| wanted == ANY || wanted == key || filter_keys.iter().any(|key| key == wanted);
        self.wanted.iter().any(|(wanted, key)| (wanted == ANY || wanted == topic) && is_key(key))
    }
}
