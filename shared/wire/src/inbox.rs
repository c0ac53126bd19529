//! Inboxes: prefixes of the subjects that answers go to. Every role and every node has its own, so that a process reads
//! only answers to its own questions.

use model::NodeId;

use crate::role::Role;
use crate::subject::Subject;

/// The prefix of reply subjects.
///
/// Answers of nodes have inboxes of their own. An agent that is asked by a service learns one reply subject, and the next
/// ones of that process can be predicted; so it may not publish where answers of other senders are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Inbox {
    /// Answers of services to a service.
    #[display("inbox.{_0}")]
    Service(Role),
    /// Answers of services to an agent.
    #[display("inbox.node.{_0}")]
    Node(NodeId),
    /// Answers of one node's agent to a service.
    #[display("inbox.{asked_by}.node.{node}")]
    OfNode {
        /// Who asks.
        asked_by: Role,
        /// Who answers.
        node: NodeId,
    },
}

impl Inbox {
    /// All answers to everybody, for subscribing; only tests do.
    pub const EVERY: &'static str = "inbox.>";

    /// The inbox for answers to what `role` sends on `subject`.
    pub fn of(role: Role, subject: &Subject) -> Self {
        match subject.asked_node() {
            Some(node) => Self::OfNode { asked_by: role, node },
            None => Self::Service(role),
        }
    }

    /// Whether `reply` is in this inbox.
    pub fn contains(&self, reply: &str) -> bool {
        reply.strip_prefix(self.to_string().as_str()).is_some_and(|token| token.starts_with('.'))
    }

    /// All answers in this inbox, for subscribing.
    pub fn every(&self) -> String {
        format!("{self}.>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId::from_bytes([7; 16]);

    #[test]
    fn answers_of_a_node_have_an_inbox_of_their_own() {
        assert_eq!(Inbox::of(Role::Api, &Subject::AskHead).to_string(), "inbox.api");
        let of_node = Inbox::of(Role::Api, &Subject::AgentFiles(NODE));
        assert_eq!(of_node.to_string(), "inbox.api.node.07070707-0707-0707-0707-070707070707");
        assert_eq!(Inbox::Node(NODE).every(), "inbox.node.07070707-0707-0707-0707-070707070707.>");
    }

    #[test]
    fn an_inbox_contains_what_is_below_it() {
        let inbox = Inbox::Service(Role::Api);
        assert!(inbox.contains("inbox.api.token") && inbox.contains("inbox.api.a.b"));
        for other in ["inbox.api", "inbox.apiary.token", "inbox.scheduler.token", "feed.changes", ""] {
            assert!(!inbox.contains(other), "{other}");
        }
    }
}
