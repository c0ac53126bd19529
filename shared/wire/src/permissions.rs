//! The permissions table: the subjects that each role may publish on and subscribe to. Credentials for NATS are
//! generated from it.
//!
//! The table has one line for each variant of [`Subject`]; a variant without a line does not compile. Permissions for
//! inboxes are derived: subscribers of a subject that expects responses may publish in the inboxes of its publishers.

use std::collections::BTreeSet;

use model::cluster::Singleton;
use model::{NodeId, ProcessId};

use crate::inbox::Inbox;
use crate::role::Role;
use crate::subject::Subject;

/// The subjects that a role may publish on and subscribe to, as NATS patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects to publish on.
    pub publish: BTreeSet<String>,
    /// Subjects to subscribe to.
    pub subscribe: BTreeSet<String>,
}

/// The purpose of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A cluster.
    Cluster,
    /// A private server for tests and simulations, which may have simulated nodes.
    Simulation,
}

/// The publishers and subscribers of a subject.
struct Access {
    publish: Vec<Role>,
    subscribe: Vec<Role>,
    /// Whether subscribers send responses.
    is_answered: bool,
}

/// Access to a subject with requests from `publish` to `subscribe`, and responses back.
fn request(publish: &[Role], subscribe: &[Role]) -> Access {
    Access { publish: publish.to_vec(), subscribe: subscribe.to_vec(), is_answered: true }
}

/// Access to a subject with messages from `publish` to `subscribe` that get no response.
fn one_way(publish: &[Role], subscribe: &[Role]) -> Access {
    Access { publish: publish.to_vec(), subscribe: subscribe.to_vec(), is_answered: false }
}

/// Defines the table: the variants of [`Subject`], the values of their parameters, and the access to each.
macro_rules! table {
    ($( $variant:ident $( ($parameter:ident in $every:expr) )? => $access:expr; )+) => {
        /// The table's entry for a subject.
        fn access(subject: Subject) -> Access {
            match subject {
                $( Subject::$variant $( ($parameter) )? => $access, )+
            }
        }

        /// All subjects. Those of nodes have the id [`ANY_NODE`].
        fn all_subjects() -> Vec<Subject> {
            let mut subjects = Vec::new();
            $( $( for $parameter in $every )? {
                subjects.push(Subject::$variant $( ($parameter) )?);
            } )+
            subjects
        }
    };
}

table! {
    Command(role in SENDERS) => request(&[role], &[Role::PlanApplier]);
    GetHead => request(&[Role::Api], &[Role::PlanApplier]);
    Probe => request(&[Role::PlanApplier], &[Role::PlanApplier]);
    RenewLease(role in HOLDERS) => request(&[role], &[Role::PlanApplier]);
    ForceGarbageCollection => request(&[Role::Api], &[Role::PlanApplier]);
    LeaseHolder(service in Singleton::ALL.iter().copied()) => {
        let role = Role::of_singleton(service);
        request(&[role], &[role])
    };
    Changes => one_way(&[Role::PlanApplier], &Role::SERVICES);
    Head => one_way(&[Role::PlanApplier], &Role::SERVICES);
    LostWrites => one_way(&LOSS_REPORTERS, &[Role::PlanApplier]);
    Dequeue => request(&[Role::Scheduler], &[Role::EvalBroker]);
    EvalLease => request(&[Role::Scheduler], &[Role::EvalBroker]);
    NodeRegister(_node in [ANY_NODE]) => request(&[Role::Agent], &[Role::NodeTracker]);
    NodeHeartbeat(_node in [ANY_NODE]) => request(&[Role::Agent], &[Role::NodeTracker]);
    NodeWork(_node in [ANY_NODE]) => request(&[Role::Agent], &[Role::NodeTracker]);
    NodeReport(_node in [ANY_NODE]) => request(&[Role::Agent], &[Role::NodeTracker]);
    NodeServices(_node in [ANY_NODE]) => request(&[Role::Agent], &[Role::NodeTracker]);
    NodeDirectory(_node in [ANY_NODE]) => request(&[Role::Agent], &[Role::NodeTracker]);
    NodeDrain(_node in [ANY_NODE]) => request(&[Role::Agent], &[Role::NodeTracker]);
    AgentWake(_node in [ANY_NODE]) => one_way(&[Role::NodeTracker], &[Role::Agent]);
    AgentFiles(_node in [ANY_NODE]) => request(&[Role::Api], &[Role::Agent]);
    AgentTasks(_node in [ANY_NODE]) => request(&[Role::Api], &[Role::Agent]);
    AgentStats(_node in [ANY_NODE]) => request(&[Role::Api], &[Role::Agent]);
    AgentExec(_node in [ANY_NODE]) => request(&[Role::Api], &[Role::Agent]);
    AgentVolumes(_node in [ANY_NODE]) => request(&[Role::Api], &[Role::Agent]);
    ProcessMetrics(from in SENDERS.map(|role| (role, ANY_PROCESS))) => one_way(&[from.0], &[Role::Api]);
}

/// Roles that send commands and publish metrics.
const SENDERS: [Role; 7] = [
    Role::Api,
    Role::EvalBroker,
    Role::Scheduler,
    Role::PlanApplier,
    Role::NodeTracker,
    Role::DeploymentWatcher,
    Role::Servers,
];

/// Roles that hold leases.
const HOLDERS: [Role; 4] = [Role::EvalBroker, Role::NodeTracker, Role::DeploymentWatcher, Role::Servers];

/// Roles that tell the applier about lost writes. An applier that is told so writes nothing before an operator has decided;
/// a scheduler or an API, of which there may be many, cannot cause that.
const LOSS_REPORTERS: [Role; 4] =
    [Role::EvalBroker, Role::PlanApplier, Role::NodeTracker, Role::DeploymentWatcher];

/// Whether processes of this role tell the applier about lost writes.
pub fn reports_lost_writes(role: Role) -> bool {
    with_combined_roles(&LOSS_REPORTERS).contains(&role)
}

/// Placeholder for a node's id in a subject. It is replaced by an id, a wildcard or a template.
const ANY_NODE: NodeId = NodeId::from_bytes([0; 16]);
/// Placeholder for a process's id in a subject. It is replaced by a wildcard. Its text is the same as that of
/// [`ANY_NODE`].
const ANY_PROCESS: ProcessId = ProcessId::from_bytes([0; 16]);
/// Pattern that matches one token.
const WILDCARD: &str = "*";
/// Pattern that matches every subject.
const EVERYTHING: &str = ">";

/// Returns the permissions for credentials of a role. `node` replaces the node's id in an agent's subjects: it is an
/// id, or a template that NATS fills in. Subjects of other roles do not contain it.
pub fn permissions(role: Role, node: &str, purpose: Purpose) -> Permissions {
    match role {
        Role::Observer => {
            let everything = BTreeSet::from([EVERYTHING.to_owned()]);
            return Permissions { publish: everything.clone(), subscribe: everything };
        }
        Role::Api
        | Role::EvalBroker
        | Role::Scheduler
        | Role::PlanApplier
        | Role::NodeTracker
        | Role::DeploymentWatcher
        | Role::Agent
        | Role::Servers
        | Role::SimNodes => {}
    }
    let node = if role == Role::Agent { node } else { WILDCARD };
    let fill = |subject: String| subject.replace(&ANY_NODE.to_string(), node);
    let mut permissions = Permissions::default();
    for subject in all_subjects() {
        let Access { publish, subscribe, is_answered } = access(subject);
        let (publish, subscribe) = (with_combined_roles(&publish), with_combined_roles(&subscribe));
        if publish.contains(&role) {
            permissions.publish.insert(fill(subject.to_string()));
        }
        if subscribe.contains(&role) {
            permissions.subscribe.insert(fill(subscription(&subject)));
            for requester in publish.iter().filter(|_| is_answered) {
                permissions.publish.extend(inbox(*requester, &subject, purpose).map(&fill));
            }
        }
    }
    permissions.subscribe.insert(fill(own_inbox(role).every()));
    permissions
}

/// The pattern that is subscribed to for a subject: one subscription covers all senders.
fn subscription(subject: &Subject) -> String {
    match subject {
        Subject::Command(_) => Subject::EVERY_COMMAND.to_owned(),
        Subject::RenewLease(_) => Subject::EVERY_RENEWAL.to_owned(),
        Subject::GetHead
        | Subject::Probe
        | Subject::ForceGarbageCollection
        | Subject::LeaseHolder(_)
        | Subject::Changes
        | Subject::Head
        | Subject::LostWrites
        | Subject::Dequeue
        | Subject::EvalLease
        | Subject::NodeRegister(_)
        | Subject::NodeHeartbeat(_)
        | Subject::NodeWork(_)
        | Subject::NodeReport(_)
        | Subject::NodeServices(_)
        | Subject::NodeDirectory(_)
        | Subject::NodeDrain(_)
        | Subject::AgentWake(_)
        | Subject::AgentFiles(_)
        | Subject::AgentTasks(_)
        | Subject::AgentStats(_)
        | Subject::AgentExec(_)
        | Subject::AgentVolumes(_)
        | Subject::ProcessMetrics(_) => subject.to_string(),
    }
}

/// The roles, and the combined roles that have their permissions.
fn with_combined_roles(roles: &[Role]) -> Vec<Role> {
    let mut all = roles.to_vec();
    // Observers may take the part of any process in tests.
    all.push(Role::Observer);
    if roles.iter().any(|role| Role::SERVICES.contains(role)) {
        all.push(Role::Servers);
    }
    if roles.contains(&Role::Agent) {
        all.push(Role::SimNodes);
    }
    all
}

/// The inbox for responses to requests that `requester` sends on a subject.
fn inbox(requester: Role, subject: &Subject, purpose: Purpose) -> Option<String> {
    match (requester, purpose) {
        (Role::SimNodes | Role::Observer, Purpose::Cluster) => None,
        (Role::Agent, _) => Some(own_inbox(Role::Agent).every()),
        (_, _) => Some(Inbox::of(requester, subject).every()),
    }
}

/// The inbox for responses to requests of a role.
fn own_inbox(role: Role) -> Inbox {
    if role == Role::Agent { Inbox::Node(ANY_NODE) } else { Inbox::Service(role) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "07070707-0707-0707-0707-070707070707";

    fn of(role: Role) -> Permissions {
        permissions(role, NODE, Purpose::Cluster)
    }

    fn set<const N: usize>(subjects: [&str; N]) -> BTreeSet<String> {
        subjects.map(str::to_owned).into()
    }

    #[test]
    fn a_node_uses_only_its_own_subjects() {
        let Permissions { publish, subscribe } = of(Role::Agent);
        let own = |subjects: &[&str]| -> BTreeSet<String> {
            subjects.iter().map(|subject| subject.replace("ID", NODE)).collect()
        };
        let sent = [
            "node.ID.register",
            "node.ID.heartbeat",
            "node.ID.work",
            "node.ID.report",
            "node.ID.services",
            "node.ID.directory",
            "node.ID.drain",
        ];
        let answers = ["inbox.api.node.ID.>", "inbox.servers.node.ID.>"];
        assert_eq!(publish, own(&[&sent[..], &answers].concat()));
        let heard = [
            "agent.ID.wake",
            "agent.ID.files",
            "agent.ID.tasks",
            "agent.ID.stats",
            "agent.ID.exec",
            "agent.ID.volumes",
        ];
        assert_eq!(subscribe, own(&[&heard[..], &["inbox.node.ID.>"]].concat()));
    }

    #[test]
    fn a_scheduler_asks_the_broker_and_sends_commands() {
        let Permissions { publish, subscribe } = of(Role::Scheduler);
        assert_eq!(
            publish,
            set(["applier.command.scheduler", "broker.dequeue", "broker.eval-lease", "metrics.scheduler.*"])
        );
        assert_eq!(subscribe, set(["feed.changes", "feed.head", "inbox.scheduler.>"]));
    }

    #[test]
    fn only_the_applier_publishes_the_feed() {
        for subject in ["feed.changes", "feed.head"] {
            let publishers = Role::ALL.map(|role| (role, of(role).publish));
            let publishers = publishers.iter().filter(|(_, publish)| publish.contains(subject));
            let publishers: Vec<_> = publishers.map(|(role, _)| *role).collect();
            assert_eq!(publishers, [Role::PlanApplier, Role::Servers]);
        }
    }

    #[test]
    fn lost_writes_are_reported_by_those_who_may() {
        for role in Role::ALL {
            let publishes = of(role).publish.contains("feed.lost-writes");
            assert_eq!(publishes || role == Role::Observer, reports_lost_writes(role), "{role}");
        }
        assert!(reports_lost_writes(Role::Servers) && !reports_lost_writes(Role::Scheduler));
    }

    #[test]
    fn a_response_goes_only_to_the_requester() {
        let answers = |role| -> BTreeSet<String> {
            of(role).publish.into_iter().filter(|subject| subject.starts_with("inbox.")).collect()
        };
        assert_eq!(
            answers(Role::EvalBroker),
            set(["inbox.eval-broker.>", "inbox.scheduler.>", "inbox.servers.>"])
        );
        assert_eq!(
            answers(Role::NodeTracker),
            set(["inbox.node-tracker.>", "inbox.node.*.>", "inbox.servers.>"])
        );
        assert_eq!(answers(Role::Api), set([]), "no process sends requests to an API process");
        assert_eq!(answers(Role::Scheduler), set([]));
    }

    #[test]
    fn simulated_nodes_are_answered_on_private_servers_only() {
        let tracker = |purpose| permissions(Role::NodeTracker, "", purpose).publish;
        let answers = "inbox.sim-nodes.>";
        assert!(
            tracker(Purpose::Simulation).contains(answers) && !tracker(Purpose::Cluster).contains(answers)
        );
        let simulated = permissions(Role::SimNodes, "", Purpose::Simulation);
        assert!(
            simulated.publish.contains("node.*.register") && simulated.subscribe.contains("agent.*.wake")
        );
    }

    #[test]
    fn all_services_in_one_process_may_do_what_each_of_them_may() {
        let together = of(Role::Servers);
        for role in Role::SERVICES {
            let own = Inbox::Service(role).every();
            let Permissions { publish, mut subscribe } = of(role);
            subscribe.remove(&own);
            assert!(
                publish.is_subset(&together.publish) && subscribe.is_subset(&together.subscribe),
                "{role}"
            );
        }
        assert!(!together.publish.contains("node.*.register"), "the servers are not a node");
    }

    #[test]
    fn every_subject_has_a_publisher_and_a_subscriber() {
        for subject in all_subjects() {
            let Access { publish, subscribe, .. } = access(subject);
            assert!(!publish.is_empty() && !subscribe.is_empty(), "{subject}");
        }
    }

    #[test]
    fn roles_may_subscribe_to_the_subjects_of_their_services() {
        let tracker = of(Role::NodeTracker).subscribe;
        let served = [
            Subject::EVERY_NODE_REGISTER,
            Subject::EVERY_NODE_HEARTBEAT,
            Subject::EVERY_NODE_WORK,
            Subject::EVERY_NODE_REPORT,
            Subject::EVERY_NODE_SERVICES,
            Subject::EVERY_NODE_DIRECTORY,
        ];
        assert!(served.iter().all(|subject| tracker.contains(*subject)));
        let api = of(Role::Api).subscribe;
        for role in SENDERS {
            assert!(api.contains(&Subject::every_metrics_of(role)), "{role}");
            assert!(of(role).publish.contains(&Subject::every_metrics_of(role)), "{role}");
        }
        assert!(!of(Role::Scheduler).subscribe.contains(&Subject::every_metrics_of(Role::Scheduler)));
    }
}
