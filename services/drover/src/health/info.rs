//! What a process says about itself to the cluster (`drover cluster status`), made from its health. Pure.

use model::{Text, Timestamp};
use telemetry::metrics::catalogue::APPLIER;
use wire::Role;
use wire::metrics::{PartHealth, ProcessInfo};

use super::facts::{DatabaseMatch, Facts, LogFailure, Nats, ProbeResult};

/// What does not change while a process runs.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) role: Role,
    /// Name of the host.
    pub(crate) host: Text,
    /// Id of the process on its host.
    pub(crate) pid: u32,
    /// When it started.
    pub(crate) started: Timestamp,
}

/// What the process says about itself.
pub(super) fn info(facts: &Facts, identity: &Identity) -> ProcessInfo {
    let Identity { role, host, pid, started } = identity;
    ProcessInfo {
        host: host.clone(),
        pid: *pid,
        version: env!("CARGO_PKG_VERSION").into(),
        started: *started,
        services: services(*role, facts),
        index: facts.replica,
        head: facts.head.map(|head| head.index),
        nats: nats(&facts.nats),
        database: database(facts),
    }
}

/// The services of a process with this role.
fn services(role: Role, facts: &Facts) -> Vec<Text> {
    if role != Role::Servers {
        return vec![role.as_str().into()];
    }
    let singletons = facts.parts.singletons.iter().map(|singleton| singleton.as_str());
    let others = [Role::Scheduler, Role::Api].map(Role::as_str);
    let agent = facts.parts.agent.then_some(Role::Agent.as_str());
    [APPLIER].into_iter().chain(singletons).chain(others).chain(agent).map(Text::from).collect()
}

const UNKNOWN: PartHealth = PartHealth { is_known: false, problem: None };
const GOOD: PartHealth = PartHealth { is_known: true, problem: None };

fn bad(problem: impl Into<Text>) -> PartHealth {
    PartHealth { is_known: true, problem: Some(problem.into()) }
}

fn nats(nats: &Nats) -> PartHealth {
    match nats {
        Nats::NotYet => UNKNOWN,
        Nats::Lost(ago) => bad(format!("lost the connection {} s ago", ago.as_secs())),
        Nats::Refuses(what) => bad(what.as_str()),
        Nats::Connected => GOOD,
    }
}

/// The applier probes its database. The others know whether they could read it last time, and whether it is the applier's.
fn database(facts: &Facts) -> PartHealth {
    let failed = |since: u64, error: &str| bad(format!("has not answered for {since} s: {error}"));
    if let DatabaseMatch::Other(both) = &facts.database_match {
        return bad(both.as_str());
    }
    if let Some(LogFailure { since, error }) = &facts.log_failure {
        return failed(since.as_secs(), error);
    }
    if !facts.parts.applier {
        return if facts.database_match == DatabaseMatch::Same { GOOD } else { UNKNOWN };
    }
    match &facts.database {
        ProbeResult::Pending => UNKNOWN,
        ProbeResult::Succeeded { .. } => GOOD,
        ProbeResult::Failed { since, error } => failed(since.as_secs(), error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::Index;

    use super::super::facts::{Announced, Lease, Parts};
    use super::*;

    fn facts(parts: Parts) -> Facts {
        Facts {
            service: "it",
            parts,
            up: Duration::from_secs(60),
            beat_ago: Duration::ZERO,
            is_ending: false,
            nats: Nats::Connected,
            replica: Some(Index(7)),
            behind_for: Duration::ZERO,
            head: Some(Announced { index: Index(9), ago: Duration::ZERO }),
            applier_lease: Lease::UNKNOWN,
            leases: Vec::new(),
            database: ProbeResult::Pending,
            database_match: DatabaseMatch::Same,
            log_failure: None,
            api: ProbeResult::Pending,
            registration: None,
        }
    }

    fn identity(role: Role) -> Identity {
        Identity { role, host: "host1".into(), pid: 7, started: Timestamp::from_secs(1) }
    }

    #[test]
    fn a_process_names_its_services_and_what_it_lacks() {
        let one = info(&facts(Parts::EVAL_BROKER), &identity(Role::EvalBroker));
        assert_eq!(one.services, [Text::from("eval-broker")]);
        assert_eq!((one.index, one.head), (Some(Index(7)), Some(Index(9))));
        assert_eq!((&*one.host, one.pid, one.started), ("host1", 7, Timestamp::from_secs(1)));
        let all = info(&facts(Parts { agent: true, ..Parts::SERVERS }), &identity(Role::Servers));
        let names = "plan-applier eval-broker node-tracker deployment-watcher scheduler api agent";
        assert_eq!(all.services.join(" "), names);
    }

    #[test]
    fn a_process_says_what_is_wrong_with_its_database_and_its_connection() {
        let failing = |facts: &Facts| {
            let info = info(facts, &identity(Role::Api));
            [info.nats, info.database].map(|health| health.problem.unwrap_or_default().to_string())
        };
        assert_eq!(failing(&facts(Parts::API)), ["", ""]);
        let lost = Facts { nats: Nats::Lost(Duration::from_secs(3)), ..facts(Parts::API) };
        assert_eq!(failing(&lost), ["lost the connection 3 s ago", ""]);
        let failure = LogFailure { since: Duration::from_secs(5), error: "refused".to_owned() };
        let unread = Facts { log_failure: Some(failure), ..facts(Parts::API) };
        assert_eq!(failing(&unread), ["", "has not answered for 5 s: refused"]);
        let other =
            Facts { database_match: DatabaseMatch::Other("a, not b".to_owned()), ..facts(Parts::API) };
        assert_eq!(failing(&other), ["", "a, not b"]);
        let error = "timed out".to_owned();
        let silent = ProbeResult::Failed { since: Duration::from_secs(9), error };
        let applier = Facts { database: silent, ..facts(Parts::PLAN_APPLIER) };
        assert_eq!(failing(&applier), ["", "has not answered for 9 s: timed out"]);
    }

    #[test]
    fn what_is_not_known_is_not_good() {
        assert_eq!(database(&facts(Parts::PLAN_APPLIER)), UNKNOWN);
        assert_eq!(database(&facts(Parts::API)), GOOD);
        let early = Facts { database_match: DatabaseMatch::Unknown, nats: Nats::NotYet, ..facts(Parts::API) };
        assert_eq!((database(&early), nats(&early.nats)), (UNKNOWN, UNKNOWN));
    }
}
