//! Descriptions in one byte: nearly every allocation carries one of few sentences.

use model::Text;

/// Sentences that the control plane and the agents give allocations. Only the place in this list is kept in a row; the
/// list never leaves the process, so its order means nothing.
const PHRASES: &[&str] = &[
    "",
    // Desired descriptions (`spec/scheduling.md` ).
    "alloc not needed due to job update",
    "alloc not needed due to disconnected client reconnect",
    "alloc is being migrated",
    "alloc is being updated due to job update",
    "alloc is lost since its node is down",
    "alloc not needed as node is tainted",
    "alloc was rescheduled because it failed",
    // Client descriptions (R-7.7, `spec/agent.md` ).
    "alloc is unknown since its node is disconnected",
    "No tasks have started",
    "Tasks are running",
    "All tasks have completed",
    "Failed tasks",
    "allocation exceeded max_run_duration",
];

/// A sentence of the list, or the mark that the row keeps its own text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Phrase(u8);

impl Phrase {
    /// The row keeps its own text.
    pub(crate) const OWN: Self = Self(u8::MAX);

    pub(crate) fn of(text: &str) -> Option<Self> {
        PHRASES.iter().zip(0u8..).find_map(|(phrase, place)| (*phrase == text).then_some(Self(place)))
    }

    /// The sentence; `None` where the row keeps its own.
    pub(crate) fn as_str(self) -> Option<&'static str> {
        PHRASES.get(usize::from(self.0)).copied()
    }
}

/// A description as it lies in a row: the phrase, and the text if no phrase says it.
pub(crate) fn encode(text: &Text) -> (Phrase, Option<Text>) {
    match Phrase::of(text) {
        Some(phrase) => (phrase, None),
        None => (Phrase::OWN, Some(Text::clone(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phrase_is_read_back() {
        for phrase in PHRASES {
            assert_eq!(encode(&(*phrase).into()).0.as_str(), Some(*phrase));
        }
    }

    #[test]
    fn another_text_is_kept_as_it_is() {
        let text: Text = "Preempted by alloc ID x".into();
        assert_eq!(encode(&text), (Phrase::OWN, Some(text)));
        assert_eq!(Phrase::OWN.as_str(), None);
    }
}
