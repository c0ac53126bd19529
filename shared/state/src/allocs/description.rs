//! [`DescriptionCode`]: the description of an allocation in one byte. Nearly all allocations have one of a few descriptions.

use model::Text;

/// Descriptions that the servers and the agents give allocations. A row stores the position in this list. The positions
/// never leave the process, so the order may change.
const DESCRIPTIONS: &[&str] = &[
    "",
    // Desired descriptions (`docs/rules/scheduling.md` ).
    "alloc not needed due to job update",
    "alloc not needed due to disconnected client reconnect",
    "alloc is being migrated",
    "alloc is being updated due to job update",
    "alloc is lost since its node is down",
    "alloc not needed as node is tainted",
    "alloc was rescheduled because it failed",
    // Client descriptions (R-7.7, `docs/rules/agent.md` ).
    "alloc is unknown since its node is disconnected",
    "No tasks have started",
    "Tasks are running",
    "All tasks have completed",
    "Failed tasks",
    "allocation exceeded max_run_duration",
];

/// The position of a description in the list, or [`Self::CUSTOM`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DescriptionCode(u8);

impl DescriptionCode {
    /// The description is not in the list; the row stores its text.
    pub(crate) const CUSTOM: Self = Self(u8::MAX);

    /// The code of a description in the list.
    pub(crate) fn of(text: &str) -> Option<Self> {
        DESCRIPTIONS
            .iter()
            .zip(0u8..)
            .find_map(|(known, position)| (*known == text).then_some(Self(position)))
    }

    /// The description; `None` for [`Self::CUSTOM`].
    pub(crate) fn as_str(self) -> Option<&'static str> {
        DESCRIPTIONS.get(usize::from(self.0)).copied()
    }
}

/// Encodes a description for a row: its code, and its text if it is not in the list.
pub(crate) fn encode(text: &Text) -> (DescriptionCode, Option<Text>) {
    match DescriptionCode::of(text) {
        Some(code) => (code, None),
        None => (DescriptionCode::CUSTOM, Some(Text::clone(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_description_is_read_back() {
        for description in DESCRIPTIONS {
            assert_eq!(encode(&(*description).into()).0.as_str(), Some(*description));
        }
    }

    #[test]
    fn another_text_is_kept_as_it_is() {
        let text: Text = "Preempted by alloc ID x".into();
        assert_eq!(encode(&text), (DescriptionCode::CUSTOM, Some(text)));
        assert_eq!(DescriptionCode::CUSTOM.as_str(), None);
    }
}
