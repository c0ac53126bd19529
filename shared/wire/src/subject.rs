//! All NATS subjects. The comment of each says what it guarantees about order, duplicates and loss.

use std::borrow::Cow;

use model::cluster::Singleton;
use model::{NodeId, ProcessId};

use crate::role::Role;

/// A NATS subject. NATS delivers a message at most once and may lose any message. A process that needs a response
/// repeats its request with the same request id. A process that follows the feed reads missing change sets from the
/// log.
///
/// Subjects of a node contain its id, so that an agent's credentials can be limited to its own subjects. The receiver
/// compares that id with the node in the body ([`Subject::node_of`]). The permissions to publish and subscribe are in
/// [`permissions`](crate::permissions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Subject {
    /// Commands to the active applier, as requests. No order is guaranteed. A repeat with the same request id has no
    /// second effect. The response is sent only after everything that it depends on is durable.
    ///
    /// The subject names the sender's role, and NATS permits a sender only its own. The applier checks which commands a
    /// role may send ([`senders`](crate::senders)).
    #[display("applier.command.{_0}")]
    Command(Role),
    /// Requests the head from the active applier, for reads that must see all earlier writes. The response follows a
    /// commit, or a check of the epoch, that started after the request arrived.
    #[display("applier.head")]
    GetHead,
    /// Checks whether there is an active applier. *No responders* means that there is none.
    #[display("applier.probe")]
    Probe,
    /// Renews a singleton's lease at the active applier, without a write. Like [`Self::Command`], the subject names the
    /// sender's role.
    #[display("applier.renew.{_0}")]
    RenewLease(Role),
    /// Requests that the active applier collects garbage of any age. A repeat is harmless: it finds nothing more.
    #[display("applier.garbage")]
    ForceGarbageCollection,
    /// Checks whether the active process of a singleton is alive. *No responders* means that it is gone, and that a
    /// standby need not wait until the lease expires.
    #[display("lease.{}.holder", _0.as_str())]
    LeaseHolder(Singleton),
    /// Committed change sets, in index order. Messages may be lost; the indexes show the gap.
    #[display("feed.changes")]
    Changes,
    /// The head, published every second and by every new applier, so that a replica that receives no change sets knows
    /// whether it has missed any.
    #[display("feed.head")]
    Head,
    /// Tells the active applier that its database lacks change sets that a replica has
    /// ([`LostWrites`](crate::feed::LostWrites)). Repeated as long as that is so.
    #[display("feed.lost-writes")]
    LostWrites,
    /// Requests evaluations from the active broker; a long poll.
    #[display("broker.dequeue")]
    Dequeue,
    /// Nacks an evaluation at the active broker, or extends its lease.
    #[display("broker.eval-lease")]
    EvalLease,
    /// Registers a node at the active tracker.
    #[display("node.{_0}.register")]
    NodeRegister(NodeId),
    /// Heartbeats of a node. All trackers subscribe, so that a standby's timers are up to date; the active tracker
    /// responds.
    #[display("node.{_0}.heartbeat")]
    NodeHeartbeat(NodeId),
    /// Requests a node's work from the active tracker ([`GetWork`](crate::node::AskWork)), or the rest of it
    /// ([`GetAllocs`](crate::node::AskAllocs)); a header names the request.
    #[display("node.{_0}.work")]
    NodeWork(NodeId),
    /// Reports of a node about its allocations. A report may arrive twice or late; its boot and sequence numbers show
    /// that.
    #[display("node.{_0}.report")]
    NodeReport(NodeId),
    /// Registers the services of a node's allocations at the active tracker ([`services`](crate::services)). Each request
    /// contains whole sets, so a repeat is harmless. A late one may undo a newer one; the digest in the responses to
    /// heartbeats shows that.
    #[display("node.{_0}.services")]
    NodeServices(NodeId),
    /// Asks the active tracker what is registered in the cluster's service discovery ([`directory`](crate::directory)); a long
    /// poll. A lost request or response costs time only.
    #[display("node.{_0}.directory")]
    NodeDirectory(NodeId),
    /// Starts the drain of a node whose agent ends, at the active tracker, or asks how far it is
    /// ([`DrainSelf`](crate::node::DrainSelf)). A repeat starts the drain's deadline again.
    #[display("node.{_0}.drain")]
    NodeDrain(NodeId),
    /// Tells an agent that its work has changed, with the changes if they are small. A lost wake costs one heartbeat
    /// interval, because the heartbeat's response carries the same index. Agents act on the changes, so only servers
    /// may publish on this subject, and only this agent may subscribe.
    #[display("agent.{_0}.wake")]
    AgentWake(NodeId),
    /// Requests files and logs from an agent ([`files`](crate::files)); a header names the request. Each request gets
    /// one response, so that a loss is noticed.
    #[display("agent.{_0}.files")]
    AgentFiles(NodeId),
    /// Requests an action on tasks from an agent ([`tasks`](crate::tasks)); a header names the action. A lost request
    /// is not carried out; a repeated request is carried out again.
    #[display("agent.{_0}.tasks")]
    AgentTasks(NodeId),
    /// Requests stats, or the results of checks, from an agent ([`stats`](crate::stats), [`checks`](crate::checks)), or the
    /// metadata of its node ([`meta`](crate::meta)); a header names the request. Stats and results are current values, and
    /// changes of the metadata set values, so a lost request can be repeated.
    #[display("agent.{_0}.stats")]
    AgentStats(NodeId),
    /// Starts commands in tasks of an agent's node, and carries what users send to them ([`exec`](crate::exec)); a header
    /// names the message. The messages of a session are numbered, so that a loss is noticed. What the commands write goes to
    /// the reply subject of the request that started them.
    #[display("agent.{_0}.exec")]
    AgentExec(NodeId),
    /// Creates and deletes host volumes on an agent's node ([`volumes`](crate::volumes)); a header names the request. A
    /// lost request is not carried out; a repeated request finds its work done.
    #[display("agent.{_0}.volumes")]
    AgentVolumes(NodeId),
    /// Metrics of a process of a service ([`ProcessMetrics`](crate::metrics::ProcessMetrics)), published every few
    /// seconds. Their sums count from the start of the process, so loss and repetition are harmless.
    #[display("metrics.{}.{}", _0.0, _0.1)]
    ProcessMetrics((Role, ProcessId)),
}

impl Subject {
    /// Commands of all roles; a pattern for subscriptions.
    pub const EVERY_COMMAND: &'static str = "applier.command.*";
    /// Lease renewals of all roles; a pattern for subscriptions.
    pub const EVERY_RENEWAL: &'static str = "applier.renew.*";

    /// Registrations of all nodes; a pattern for subscriptions.
    pub const EVERY_NODE_REGISTER: &'static str = "node.*.register";
    /// Heartbeats of all nodes; a pattern for subscriptions.
    pub const EVERY_NODE_HEARTBEAT: &'static str = "node.*.heartbeat";
    /// Work requests of all nodes; a pattern for subscriptions.
    pub const EVERY_NODE_WORK: &'static str = "node.*.work";
    /// Reports of all nodes; a pattern for subscriptions.
    pub const EVERY_NODE_REPORT: &'static str = "node.*.report";
    /// Registrations of services of all nodes; a pattern for subscriptions.
    pub const EVERY_NODE_SERVICES: &'static str = "node.*.services";
    /// Queries of service discovery of all nodes; a pattern for subscriptions.
    pub const EVERY_NODE_DIRECTORY: &'static str = "node.*.directory";
    /// Requests of all nodes about their own drains; a pattern for subscriptions.
    pub const EVERY_NODE_DRAIN: &'static str = "node.*.drain";

    /// Wakes of all agents; a pattern for subscriptions of simulated agents.
    pub const EVERY_AGENT_WAKE: &'static str = "agent.*.wake";

    /// The node whose agent receives this subject; `None` if a service receives it.
    pub const fn responder_node(&self) -> Option<NodeId> {
        match self {
            Self::AgentWake(node)
            | Self::AgentFiles(node)
            | Self::AgentTasks(node)
            | Self::AgentStats(node)
            | Self::AgentExec(node)
            | Self::AgentVolumes(node) => Some(*node),
            Self::Command(_)
            | Self::GetHead
            | Self::Probe
            | Self::RenewLease(_)
            | Self::ForceGarbageCollection
            | Self::LeaseHolder(_)
            | Self::Changes
            | Self::Head
            | Self::LostWrites
            | Self::Dequeue
            | Self::EvalLease
            | Self::NodeRegister(_)
            | Self::NodeHeartbeat(_)
            | Self::NodeWork(_)
            | Self::NodeReport(_)
            | Self::NodeServices(_)
            | Self::NodeDirectory(_)
            | Self::NodeDrain(_)
            | Self::ProcessMetrics(_) => None,
        }
    }

    /// Whether most of a process's work depends on a subject to which it subscribes, or on which it publishes if
    /// `is_published`. Metrics describe the work, a request to an agent, for a collection or for a node's own drain is one
    /// feature of many, lost writes are rare, and a response that cannot be sent concerns a single requester.
    pub fn is_essential(subject: &str, is_published: bool) -> bool {
        let is_feature = subject == Self::ForceGarbageCollection.to_string()
            || subject == Self::LostWrites.to_string()
            || (subject.starts_with("node.") && subject.ends_with(".drain"))
            || (subject.starts_with("agent.") && !subject.ends_with(".wake"));
        let is_response = is_published && subject.starts_with("inbox.");
        !subject.starts_with("metrics.") && !is_feature && !is_response
    }

    /// Replaces a node's id by `{node}` and a sender's role by `{role}`, so that the number of different results is
    /// small.
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

    /// The role of a message's sender, read from the subject; `None` if the subject does not contain the sender's role.
    pub fn role_of(subject: &str) -> Option<Role> {
        role_text(subject)?.parse().ok()
    }

    /// The node that sent a message, read from the subject; `None` if nodes do not publish on the subject.
    pub fn node_of(subject: &str) -> Option<NodeId> {
        node_text(subject, "node.")?.parse().ok()
    }

    /// Metrics of all processes of a role; a pattern for subscriptions.
    pub fn every_metrics_of(role: Role) -> String {
        format!("metrics.{role}.*")
    }

    /// The role and the id of the process that published metrics, read from the subject.
    pub fn publisher_of(subject: &str) -> Option<(Role, ProcessId)> {
        let (role, id) = subject.strip_prefix("metrics.")?.split_once('.')?;
        Some((role.parse().ok()?, id.parse().ok()?))
    }

    /// The node whose agent a message is for, read from the subject; `None` if agents do not subscribe to the subject.
    pub fn agent_of(subject: &str) -> Option<NodeId> {
        node_text(subject, "agent.")?.parse().ok()
    }
}

/// The part of the subject that names the sender's role.
pub(crate) fn role_text(subject: &str) -> Option<&str> {
    subject.strip_prefix("applier.command.").or_else(|| subject.strip_prefix("applier.renew."))
}

/// The node's id in a subject that begins with `prefix`.
pub(crate) fn node_text<'a>(subject: &'a str, prefix: &str) -> Option<&'a str> {
    subject.strip_prefix(prefix)?.split_once('.').map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId::from_bytes([7; 16]);

    /// Subjects that nodes publish on, and the patterns that services subscribe to.
    const OF_NODES: [(Subject, &str); 7] = [
        (Subject::NodeRegister(NODE), Subject::EVERY_NODE_REGISTER),
        (Subject::NodeHeartbeat(NODE), Subject::EVERY_NODE_HEARTBEAT),
        (Subject::NodeWork(NODE), Subject::EVERY_NODE_WORK),
        (Subject::NodeReport(NODE), Subject::EVERY_NODE_REPORT),
        (Subject::NodeServices(NODE), Subject::EVERY_NODE_SERVICES),
        (Subject::NodeDirectory(NODE), Subject::EVERY_NODE_DIRECTORY),
        (Subject::NodeDrain(NODE), Subject::EVERY_NODE_DRAIN),
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
    fn subjects_that_a_process_works_with_are_essential() {
        let is_essential = |subject: Subject| Subject::is_essential(&subject.to_string(), true);
        let essential = [
            Subject::Command(Role::Api),
            Subject::GetHead,
            Subject::Changes,
            Subject::Dequeue,
            Subject::NodeHeartbeat(NODE),
            Subject::AgentWake(NODE),
        ];
        assert!(essential.into_iter().all(is_essential));
        let process = ProcessId::from_bytes([8; 16]);
        let others = [
            Subject::ForceGarbageCollection,
            Subject::LostWrites,
            Subject::NodeDrain(NODE),
            Subject::AgentFiles(NODE),
            Subject::AgentStats(NODE),
            Subject::AgentExec(NODE),
            Subject::AgentVolumes(NODE),
            Subject::ProcessMetrics((Role::Api, process)),
        ];
        assert!(!others.into_iter().any(is_essential));
        assert!(Subject::is_essential("inbox.api.x", false) && !Subject::is_essential("inbox.api.x", true));
    }

    #[test]
    fn the_node_is_read_from_its_own_subjects_only() {
        for (subject, _) in OF_NODES {
            assert_eq!(Subject::node_of(&subject.to_string()), Some(NODE));
        }
        let others = [Subject::Command(Role::Api), Subject::GetHead, Subject::AgentWake(NODE)];
        let others = others.map(|subject| subject.to_string());
        let broken =
            ["node", "node.", "node.7.report", &format!("node.{NODE}"), &format!("xnode.{NODE}.report")]
                .map(str::to_owned);
        for subject in others.iter().chain(&broken) {
            assert_eq!(Subject::node_of(subject), None, "{subject}");
        }
    }
}
