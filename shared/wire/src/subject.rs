//! Every subject. Each says what it promises and what it does not: order, duplicates, loss.

use std::borrow::Cow;

use model::cluster::Singleton;
use model::{NodeId, ProcessId};

use crate::role::Role;

/// Where messages go. NATS delivers at most once and may lose anything; whoever needs an answer asks again with the
/// same request id, and whoever follows the feed repairs gaps from the log.
///
/// Subjects of one node carry its id, so that an agent's credentials can be limited to its own. Whoever serves such a
/// subject compares its node with the one in the body ([`Subject::node_of`]). Who may publish and subscribe where is
/// in [`permissions`](crate::permissions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Subject {
    /// Commands to the active applier, as requests; the header says which. In no order; a repeat with the same request
    /// id has no second effect. The answer leaves only after what it depends on is durable.
    ///
    /// The subject names the sender's role, and NATS sees to it that it is the sender's own. Which commands a role may send
    /// is checked by the applier ([`senders`](crate::senders)).
    #[display("applier.command.{_0}")]
    Command(Role),
    /// Asks the active applier for its head, for reads that must see what was written. Answered after a commit, or a
    /// check of the epoch, that began after the question arrived.
    #[display("applier.head")]
    AskHead,
    /// Asks the active applier whether it is there. No responders: there is none.
    #[display("applier.probe")]
    Probe,
    /// Renews a singleton's lease at the active applier, without a write. The role is the sender's, as in
    /// [`Self::Command`].
    #[display("applier.renew.{_0}")]
    RenewLease(Role),
    /// Has the active applier look for garbage of whatever age. May be sent twice: there is nothing left to find then.
    #[display("applier.garbage")]
    ForceGarbage,
    /// Asks a singleton's active process whether it is there. No responders: it is gone, and another need not wait until
    /// its lease runs out.
    #[display("lease.{}.holder", _0.as_str())]
    LeaseHolder(Singleton),
    /// Committed change sets, in index order as far as they arrive. May be lost; the gap shows in the indexes.
    #[display("feed.changes")]
    Changes,
    /// The head, every second and from every new applier, so that a replica without news knows that it has missed none.
    #[display("feed.head")]
    Head,
    /// Asks the active broker for evaluations; a long poll.
    #[display("broker.dequeue")]
    Dequeue,
    /// Gives an evaluation back to the active broker, or keeps it a little longer.
    #[display("broker.hand-out")]
    HandOut,
    /// A node registers, as a request to the active tracker.
    #[display("node.{_0}.register")]
    NodeRegister(NodeId),
    /// A node is there. All trackers listen, so that a standby's timers are warm; the active one answers.
    #[display("node.{_0}.heartbeat")]
    NodeHeartbeat(NodeId),
    /// A node asks the active tracker for its work ([`AskWork`](crate::node::AskWork)), or for the rest of it
    /// ([`AskAllocs`](crate::node::AskAllocs)); the header says which.
    #[display("node.{_0}.work")]
    NodeWork(NodeId),
    /// A node reports how its allocations fare. May arrive twice or late: boot and sequence numbers tell.
    #[display("node.{_0}.report")]
    NodeReport(NodeId),
    /// Tells an agent that its work has changed, and what of it where that is little. A lost one costs one heartbeat, whose
    /// answer says the same. Agents act on what it brings: only servers may publish it, and only this agent may read it.
    #[display("agent.{_0}.wake")]
    AgentWake(NodeId),
    /// Asks an agent for files and logs ([`files`](crate::files)); the header says which. One answer a request, so that
    /// nothing is dropped in silence.
    #[display("agent.{_0}.files")]
    AgentFiles(NodeId),
    /// Asks an agent to do something with tasks ([`tasks`](crate::tasks)); the header says what. One that is lost is not
    /// done; a repeat is done again.
    #[display("agent.{_0}.tasks")]
    AgentTasks(NodeId),
    /// Asks an agent for figures ([`stats`](crate::stats)); the header says which. They are of the moment, so one that is
    /// lost is asked for again.
    #[display("agent.{_0}.stats")]
    AgentStats(NodeId),
    /// What a process of a service has recorded of its metrics ([`ProcessMetrics`](crate::metrics::ProcessMetrics)), every few
    /// seconds. Sums in it are counted from the process's start, so a lost or repeated one does no harm.
    #[display("metrics.{}.{}", _0.0, _0.1)]
    ProcessMetrics((Role, ProcessId)),
}

impl Subject {
    /// Commands of all roles, for subscribing.
    pub const EVERY_COMMAND: &'static str = "applier.command.*";
    /// Renewals of all roles, for subscribing.
    pub const EVERY_RENEWAL: &'static str = "applier.renew.*";

    /// Registrations of all nodes, for subscribing.
    pub const EVERY_NODE_REGISTER: &'static str = "node.*.register";
    /// Heartbeats of all nodes, for subscribing.
    pub const EVERY_NODE_HEARTBEAT: &'static str = "node.*.heartbeat";
    /// Questions of all nodes for their work, for subscribing.
    pub const EVERY_NODE_WORK: &'static str = "node.*.work";
    /// Reports of all nodes, for subscribing.
    pub const EVERY_NODE_REPORT: &'static str = "node.*.report";

    /// Wakes of all agents, for subscribing; only simulations of many agents do.
    pub const EVERY_AGENT_WAKE: &'static str = "agent.*.wake";

    /// The node whose agent answers on this subject; `None` where a service does.
    pub const fn asked_node(&self) -> Option<NodeId> {
        match self {
            Self::AgentWake(node)
            | Self::AgentFiles(node)
            | Self::AgentTasks(node)
            | Self::AgentStats(node) => Some(*node),
            Self::Command(_)
            | Self::AskHead
            | Self::Probe
            | Self::RenewLease(_)
            | Self::ForceGarbage
            | Self::LeaseHolder(_)
            | Self::Changes
            | Self::Head
            | Self::Dequeue
            | Self::HandOut
            | Self::NodeRegister(_)
            | Self::NodeHeartbeat(_)
            | Self::NodeWork(_)
            | Self::NodeReport(_)
            | Self::ProcessMetrics(_) => None,
        }
    }

    /// A subject with `{node}` and `{role}` in place of a node's id and a sender's role, so that there are few of them.
    pub fn template(subject: &str) -> Cow<'_, str> {
        if let Some(role) = role_text(subject) {
            return subject
                .strip_suffix(role)
                .map_or_else(|| subject.into(), |prefix| format!("{prefix}{{role}}").into());
        }
        let is_node = |part: &&str| part.parse::<NodeId>().is_ok();
        match subject.split('.').find(is_node) {
            Some(node) => subject.replace(node, "{node}").into(),
            None => subject.into(),
        }
    }

    /// The role that sent a message, by the subject it came on; `None` where subjects do not name the sender's role.
    pub fn role_of(subject: &str) -> Option<Role> {
        role_text(subject)?.parse().ok()
    }

    /// The node that sent a message, by the subject it came on; `None` where that is not one that nodes send to.
    pub fn node_of(subject: &str) -> Option<NodeId> {
        node_text(subject, "node.")?.parse().ok()
    }

    /// Metrics of all processes of a role, for subscribing.
    pub fn every_metrics_of(role: Role) -> String {
        format!("metrics.{role}.*")
    }

    /// The role and the id of the process that published metrics, by the subject they came on.
    pub fn publisher_of(subject: &str) -> Option<(Role, ProcessId)> {
        let (role, id) = subject.strip_prefix("metrics.")?.split_once('.')?;
        Some((role.parse().ok()?, id.parse().ok()?))
    }

    /// The agent that a message is for, by the subject it came on; `None` where that is not one that agents listen on.
    pub fn agent_of(subject: &str) -> Option<NodeId> {
        node_text(subject, "agent.")?.parse().ok()
    }
}

/// The sender's role in a subject that names it.
pub(crate) fn role_text(subject: &str) -> Option<&str> {
    subject.strip_prefix("applier.command.").or_else(|| subject.strip_prefix("applier.renew."))
}

/// The node's id in a subject that begins so.
pub(crate) fn node_text<'a>(subject: &'a str, prefix: &str) -> Option<&'a str> {
    subject.strip_prefix(prefix)?.split_once('.').map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId::from_bytes([7; 16]);

    /// Subjects that nodes send to, and the wildcards under which they are served.
    const OF_NODES: [(Subject, &str); 4] = [
        (Subject::NodeRegister(NODE), Subject::EVERY_NODE_REGISTER),
        (Subject::NodeHeartbeat(NODE), Subject::EVERY_NODE_HEARTBEAT),
        (Subject::NodeWork(NODE), Subject::EVERY_NODE_WORK),
        (Subject::NodeReport(NODE), Subject::EVERY_NODE_REPORT),
    ];

    #[test]
    fn a_wildcard_matches_its_subject() {
        for (subject, wildcard) in OF_NODES {
            assert_eq!(subject.to_string(), wildcard.replace('*', &NODE.to_string()));
        }
        let wake = Subject::AgentWake(NODE).to_string();
        assert_eq!(wake, Subject::EVERY_AGENT_WAKE.replace('*', &NODE.to_string()));
        assert_eq!(Subject::agent_of(&wake), Some(NODE));
    }

    #[test]
    fn subjects_of_all_nodes_have_one_template() {
        for (subject, wildcard) in OF_NODES {
            assert_eq!(Subject::template(&subject.to_string()), wildcard.replace('*', "{node}"));
        }
        assert_eq!(Subject::template(&Subject::Command(Role::Api).to_string()), "applier.command.{role}");
    }

    #[test]
    fn the_senders_role_is_read_from_commands_and_renewals() {
        for role in Role::ALL {
            let (command, renewal) =
                (Subject::Command(role).to_string(), Subject::RenewLease(role).to_string());
            assert_eq!(command, Subject::EVERY_COMMAND.replace('*', role.as_str()));
            assert_eq!(renewal, Subject::EVERY_RENEWAL.replace('*', role.as_str()));
            assert_eq!([command, renewal].map(|subject| Subject::role_of(&subject)), [Some(role); 2]);
        }
        for subject in ["applier.command", "applier.command.nobody", "applier.head", "applier.command.api.x"]
        {
            assert_eq!(Subject::role_of(subject), None, "{subject}");
        }
    }

    #[test]
    fn the_publisher_of_metrics_is_read_from_its_subject() {
        let process = ProcessId::from_bytes([8; 16]);
        let subject = Subject::ProcessMetrics((Role::EvalBroker, process)).to_string();
        assert_eq!(Subject::publisher_of(&subject), Some((Role::EvalBroker, process)));
        assert_eq!(Subject::every_metrics_of(Role::EvalBroker), subject.replace(&process.to_string(), "*"));
        let nobody = format!("metrics.nobody.{process}");
        for broken in ["metrics", "metrics.api", "metrics.api.7", "metrics..", "node.api.7", &nobody] {
            assert_eq!(Subject::publisher_of(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_node_is_read_from_its_own_subjects_only() {
        for (subject, _) in OF_NODES {
            assert_eq!(Subject::node_of(&subject.to_string()), Some(NODE));
        }
        let others = [Subject::Command(Role::Api), Subject::AskHead, Subject::AgentWake(NODE)];
        let others = others.map(|subject| subject.to_string());
        let broken =
            ["node", "node.", "node.7.report", &format!("node.{NODE}"), &format!("xnode.{NODE}.report")]
                .map(str::to_owned);
        for subject in others.iter().chain(&broken) {
            assert_eq!(Subject::node_of(subject), None, "{subject}");
        }
    }
}
