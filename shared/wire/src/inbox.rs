//! Inboxes: prefixes of the subjects that responses are sent to. Every role and every node has its own inbox, so that a
//! process can read only the responses to its own requests.

use model::NodeId;

use crate::role::Role;
use crate::subject::{Subject, node_text, role_text};

/// The prefix of reply subjects.
///
/// Responses of nodes have separate inboxes. An agent that receives a request of a service learns one reply subject,
/// from which the next reply subjects of that process can be predicted. So an agent may not publish where responses of
/// other senders are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Inbox {
    /// Responses of services to a service.
    #[display("inbox.{_0}")]
    Service(Role),
    /// Responses of services to an agent.
    #[display("inbox.node.{_0}")]
    Node(NodeId),
    /// Responses of one node's agent to a service.
    #[display("inbox.{requester}.node.{node}")]
    OfNode {
        /// Role of the process that sent the request.
        requester: Role,
        /// The node that responds.
        node: NodeId,
    },
}

impl Inbox {
    /// All responses to all processes; a pattern for subscriptions of tests.
    pub const EVERY: &'static str = "inbox.>";

    /// The inbox for responses to requests that `role` sends on `subject`.
    pub fn of(role: Role, subject: &Subject) -> Self {
        match subject.responder_node() {
            Some(node) => Self::OfNode { requester: role, node },
            None => Self::Service(role),
        }
    }

    /// Whether `reply` is in this inbox.
    pub fn contains(&self, reply: &str) -> bool {
        reply.strip_prefix(self.to_string().as_str()).is_some_and(|token| token.starts_with('.'))
    }

    /// All responses in this inbox; a pattern for subscriptions.
    pub fn every(&self) -> String {
        format!("{self}.>")
    }
}

/// Whether a response to a request on `subject` may be sent to `reply`: it must be in an inbox and, if the subject
/// names the sender, in that sender's own inbox.
///
/// NATS lets a sender name any reply subject. The receiver may publish in the inboxes of several senders, so a sender
/// could otherwise make it publish in another sender's inbox.
pub fn is_answered_at(subject: &str, reply: &str) -> bool {
    let in_inbox = |parts: &[&str]| {
        let after = parts.iter().try_fold(reply, |rest, part| rest.strip_prefix(part));
        after.is_some_and(|after| after.starts_with('.'))
    };
    let is_private = |role: Role| in_inbox(&["inbox.", role.as_str()]);
    if let Some(role) = role_text(subject) {
        in_inbox(&["inbox.", role])
    } else if let Some(node) = node_text(subject, "node.") {
        in_inbox(&["inbox.node.", node]) || is_private(Role::SimNodes) || is_private(Role::Observer)
    } else if let Some(node) = node_text(subject, "agent.") {
        let is_requester = |role: Role| in_inbox(&["inbox.", role.as_str(), ".node.", node]);
        [Role::Api, Role::Servers, Role::NodeTracker, Role::Observer].into_iter().any(is_requester)
    } else {
        reply.starts_with("inbox.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId::from_bytes([7; 16]);

    #[test]
    fn answers_of_a_node_have_an_inbox_of_their_own() {
        assert_eq!(Inbox::of(Role::Api, &Subject::GetHead).to_string(), "inbox.api");
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

    #[test]
    fn a_request_is_answered_in_its_senders_inbox_only() {
        let own = Inbox::Node(NODE).to_string() + ".token";
        for subject in
            [Subject::NodeWork(NODE), Subject::NodeHeartbeat(NODE)].map(|subject| subject.to_string())
        {
            assert!(is_answered_at(&subject, &own));
            let other = Inbox::Node(NodeId::from_bytes([8; 16])).to_string() + ".token";
            for reply in
                [other.as_str(), "inbox.api.token", "feed.changes", "applier.command.api", "", "inbox.node"]
            {
                assert!(!is_answered_at(&subject, reply), "{subject} at {reply}");
            }
        }
        let command = Subject::Command(Role::Scheduler).to_string();
        assert!(is_answered_at(&command, "inbox.scheduler.token"));
        assert!(!is_answered_at(&command, "inbox.api.token") && !is_answered_at(&command, "feed.changes"));
        let files = Subject::AgentFiles(NODE).to_string();
        let reply = Inbox::of(Role::Api, &Subject::AgentFiles(NODE)).to_string() + ".token";
        assert!(is_answered_at(&files, &reply) && !is_answered_at(&files, "inbox.api.token"));
        assert!(
            is_answered_at("applier.head", "inbox.api.token") && !is_answered_at("applier.head", "feed.head")
        );
    }
}
