//! Judges the health of a process: live, ready, and if not, why. Pure.

use std::fmt;
use std::time::Duration;

use model::node::NodeStatus;

use super::facts::{Announced, DatabaseMatch, Facts, Lease, LogFailure, Nats, ProbeResult};
use super::report::{Check, Report};

/// A process whose event loop has not run for this long is not live. Loading the state of a large cluster may hold up the
/// loop for a second or two.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// A process whose replica has been behind for this long is not ready.
const BEHIND_MAX: Duration = Duration::from_secs(10);
/// A process that has received no announcement of a plan applier for this long is not ready. A standby takes over within
/// seconds, and clients should not be turned away for that.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// How late the response to a heartbeat may be before the node is not ready.
const HEARTBEAT_LATE_MAX: Duration = Duration::from_secs(5);

/// Whether the process is live. If not, it should be killed.
pub(crate) fn live(facts: &Facts) -> Report {
    report(facts, ["live", "not live"], vec![event_loop(facts)])
}

/// Whether the process is ready to do its work. A standby is ready.
pub(crate) fn ready(facts: &Facts) -> Report {
    let parts = facts.parts;
    let mut checks = vec![event_loop(facts)];
    if facts.is_ending {
        checks.push(bad("shutdown", "the process is ending"));
    }
    checks.push(nats(facts));
    if parts.replica {
        checks.push(database(facts));
        checks.push(replica(facts));
        checks.push(plan_applier(facts));
    }
    checks.extend(leases(facts));
    if parts.api {
        checks.push(probed("api", &facts.api, facts.up));
    }
    if parts.agent {
        checks.push(node(facts));
    }
    report(facts, ["ready", "not ready"], checks)
}

fn report(facts: &Facts, [good, bad]: [&str; 2], checks: Vec<Check>) -> Report {
    let status = if checks.iter().all(|check| check.ok) { good } else { bad };
    Report {
        status: status.to_owned(),
        service: facts.service.to_owned(),
        role: role(facts).to_owned(),
        checks,
    }
}

/// `active` if the process holds a lease; empty if it runs no service that needs one.
fn role(facts: &Facts) -> &'static str {
    if !facts.parts.applier && facts.parts.singletons.is_empty() {
        ""
    } else if is_held(&facts.applier_lease) || facts.leases.iter().any(|(_, lease)| is_held(lease)) {
        "active"
    } else {
        "standby"
    }
}

fn event_loop(facts: &Facts) -> Check {
    let ago = Span(facts.beat_ago);
    if facts.beat_ago < STUCK_AFTER {
        good("event-loop", format!("ran {ago} ago"))
    } else {
        bad("event-loop", format!("has not run for {ago}: the process is stuck"))
    }
}

fn nats(facts: &Facts) -> Check {
    match &facts.nats {
        Nats::Connected => good("nats", "connected"),
        Nats::Refuses(what) => bad("nats", what),
        Nats::Lost(since) => bad("nats", format!("the connection was lost {} ago", Span(*since))),
        Nats::NotYet => {
            bad("nats", format!("not connected since the process started {} ago", Span(facts.up)))
        }
    }
}

/// Only the plan applier depends on a database that answers. For the others it is enough that the database is the one
/// that the plan applier writes: without it they still answer from memory.
fn database(facts: &Facts) -> Check {
    if let DatabaseMatch::Other(both) = &facts.database_match {
        return bad("database", both.as_str());
    }
    if facts.parts.applier {
        let probed = probed("database", &facts.database, facts.up);
        if !probed.ok {
            return probed;
        }
    }
    let failure = facts.log_failure.as_ref();
    let failure =
        failure.map(|LogFailure { since, error }| format!("not read for {}: {error}", Span(*since)));
    let is_same = facts.database_match == DatabaseMatch::Same;
    match (is_same, failure) {
        (true, None) => good("database", "the one that the plan applier writes"),
        (true, Some(failure)) => good("database", format!("the one that the plan applier writes, {failure}")),
        (false, Some(failure)) => bad("database", failure),
        (false, None) => {
            let up = Span(facts.up);
            let message = format!("not compared with the plan applier's since the process started {up} ago");
            bad("database", message)
        }
    }
}

fn replica(facts: &Facts) -> Check {
    let Some(index) = facts.replica else {
        let message =
            format!("not loaded from the database since the process started {} ago", Span(facts.up));
        return bad("replica", message);
    };
    let lag = facts.head.map_or(0, |head| head.index.0.saturating_sub(index.0));
    if facts.behind_for < BEHIND_MAX {
        return good("replica", format!("loaded, at index {index}, {lag} behind the plan applier"));
    }
    let since = Span(facts.behind_for);
    bad(
        "replica",
        format!("at index {index}, {lag} behind the plan applier, and has not caught up for {since}"),
    )
}

fn plan_applier(facts: &Facts) -> Check {
    match facts.head {
        Some(Announced { index, ago }) if ago < SILENT_MAX => {
            good("plan-applier", format!("announced index {index} {} ago", Span(ago)))
        }
        Some(Announced { ago, .. }) => {
            bad("plan-applier", format!("not heard of for {}: nothing can be written", Span(ago)))
        }
        None => bad("plan-applier", format!("not heard of since the process started {} ago", Span(facts.up))),
    }
}

/// A process is ready whether it holds the lease or stands by.
fn leases(facts: &Facts) -> impl Iterator<Item = Check> {
    let applier = facts.parts.applier.then(|| good("plan-applier-lease", lease(&facts.applier_lease)));
    let others = facts.parts.singletons.iter().map(|singleton| {
        let known = facts.leases.iter().find(|(known, _)| known == singleton);
        good(&format!("{singleton}-lease"), lease(known.map_or(&Lease::UNKNOWN, |(_, lease)| lease)))
    });
    applier.into_iter().chain(others)
}

fn is_held(lease: &Lease) -> bool {
    matches!(lease, Lease::Held { .. })
}

/// Whether this process holds a lease; if not, since when, why, and who does.
fn lease(lease: &Lease) -> String {
    let (lost, holder) = match lease {
        Lease::Held { epoch } => return format!("active, epoch {epoch}"),
        Lease::NotHeld { lost, holder } => (lost, holder),
    };
    let lost = lost.as_ref().map_or(String::new(), |lost| {
        format!(", lost epoch {} {} ago ({})", lost.epoch, Span(lost.ago), lost.reason)
    });
    let holder = holder.map_or("no other process is known to be active".to_owned(), |holder| {
        format!("process {} is active, epoch {}", holder.process, holder.epoch)
    });
    format!("standing by{lost}; {holder}")
}

fn probed(name: &str, probed: &ProbeResult, up: Duration) -> Check {
    match probed {
        ProbeResult::Pending => bad(name, format!("not reached since the process started {} ago", Span(up))),
        ProbeResult::Succeeded { ago } => good(name, format!("answered {} ago", Span(*ago))),
        ProbeResult::Failed { since, error } => {
            bad(name, format!("has not answered for {}: {error}", Span(*since)))
        }
    }
}

fn node(facts: &Facts) -> Check {
    let Some(registration) = facts.registration else {
        let message =
            format!("not registered with the servers since the process started {} ago", Span(facts.up));
        return bad("node", message);
    };
    let (ago, ttl) = (Span(registration.last_contact_ago), Span(registration.ttl));
    if registration.last_contact_ago > registration.ttl + HEARTBEAT_LATE_MAX {
        let message =
            format!("no heartbeat was answered for {ago}, which was due within {ttl}; tasks run on");
        return bad("node", message);
    }
    match registration.status {
        NodeStatus::Ready => good("node", format!("ready, as the servers said {ago} ago")),
        status @ (NodeStatus::Initializing | NodeStatus::Down | NodeStatus::Disconnected) => {
            bad("node", format!("{status}, as the servers said {ago} ago"))
        }
    }
}

fn good(name: &str, message: impl Into<String>) -> Check {
    Check { name: name.to_owned(), ok: true, message: message.into() }
}

fn bad(name: &str, message: impl Into<String>) -> Check {
    Check { name: name.to_owned(), ok: false, message: message.into() }
}

/// A duration for people: tenths of seconds below ten seconds, then whole seconds, then minutes.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0.as_secs();
        match secs {
            0..10 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            10..600 => write!(f, "{secs} s"),
            _ => write!(f, "{} min", secs / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent::Registration;
    use model::cluster::Singleton;
    use model::{Epoch, Index, ProcessId};

    use super::super::facts::{Holder, LostLease, Parts};
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// A process that passes all checks.
    fn healthy(parts: Parts) -> Facts {
        Facts {
            service: "it",
            parts,
            up: secs(60),
            beat_ago: Duration::from_millis(300),
            is_ending: false,
            nats: Nats::Connected,
            replica: Some(Index(40)),
            behind_for: Duration::ZERO,
            head: Some(Announced { index: Index(42), ago: Duration::from_millis(400) }),
            applier_lease: Lease::UNKNOWN,
            leases: Vec::new(),
            database: ProbeResult::Succeeded { ago: secs(1) },
            database_match: DatabaseMatch::Same,
            log_failure: None,
            api: ProbeResult::Succeeded { ago: secs(1) },
            registration: Some(Registration {
                status: NodeStatus::Ready,
                last_contact_ago: secs(6),
                ttl: secs(5),
            }),
        }
    }

    /// The failed checks.
    fn why_not(facts: &Facts) -> Vec<String> {
        let report = ready(facts);
        assert_eq!(report.status == "ready", report.is_ok());
        let wrong = report.checks.into_iter().filter(|check| !check.ok);
        wrong.map(|check| format!("{}: {}", check.name, check.message)).collect()
    }

    fn shown(report: &Report) -> String {
        let checks = report.checks.iter();
        let checks = checks.map(|check| format!("{} {} {}\n", check.name, check.ok, check.message));
        format!("{} {} {:?}\n{}", report.service, report.status, report.role, checks.collect::<String>())
    }

    #[test]
    fn each_part_of_a_healthy_process_is_reported() {
        let parts = Parts { agent: true, ..Parts::SERVERS };
        let leases = vec![(Singleton::EvalBroker, Lease::Held { epoch: Epoch(3) })];
        let facts = Facts { applier_lease: Lease::Held { epoch: Epoch(2) }, leases, ..healthy(parts) };
        insta::assert_snapshot!(shown(&ready(&facts)), @r#"
        it ready "active"
        event-loop true ran 0.3 s ago
        nats true connected
        database true the one that the plan applier writes
        replica true loaded, at index 40, 2 behind the plan applier
        plan-applier true announced index 42 0.4 s ago
        plan-applier-lease true active, epoch 2
        eval-broker-lease true active, epoch 3
        node-tracker-lease true standing by; no other process is known to be active
        deployment-watcher-lease true standing by; no other process is known to be active
        api true answered 1.0 s ago
        node true ready, as the servers said 6.0 s ago
        "#);
        insta::assert_snapshot!(shown(&live(&facts)), @r#"
        it live "active"
        event-loop true ran 0.3 s ago
        "#);
    }

    #[test]
    fn each_part_alone_is_judged_by_what_it_needs() {
        let broken = |parts| Facts {
            nats: Nats::Lost(secs(4)),
            replica: None,
            head: None,
            database: ProbeResult::Failed { since: secs(700), error: "connection refused".to_owned() },
            database_match: DatabaseMatch::Unknown,
            log_failure: Some(LogFailure { since: secs(59), error: "connection refused".to_owned() }),
            api: ProbeResult::Pending,
            registration: None,
            ..healthy(parts)
        };
        insta::assert_snapshot!(shown(&ready(&broken(Parts::API))), @r#"
        it not ready ""
        event-loop true ran 0.3 s ago
        nats false the connection was lost 4.0 s ago
        database false not read for 59 s: connection refused
        replica false not loaded from the database since the process started 60 s ago
        plan-applier false not heard of since the process started 60 s ago
        api false not reached since the process started 60 s ago
        "#);
        insta::assert_snapshot!(shown(&ready(&broken(Parts::PLAN_APPLIER))), @r#"
        it not ready "standby"
        event-loop true ran 0.3 s ago
        nats false the connection was lost 4.0 s ago
        database false has not answered for 11 min: connection refused
        replica false not loaded from the database since the process started 60 s ago
        plan-applier false not heard of since the process started 60 s ago
        plan-applier-lease true standing by; no other process is known to be active
        "#);
        insta::assert_snapshot!(shown(&ready(&broken(Parts::EVAL_BROKER))), @r#"
        it not ready "standby"
        event-loop true ran 0.3 s ago
        nats false the connection was lost 4.0 s ago
        database false not read for 59 s: connection refused
        replica false not loaded from the database since the process started 60 s ago
        plan-applier false not heard of since the process started 60 s ago
        eval-broker-lease true standing by; no other process is known to be active
        "#);
        insta::assert_snapshot!(shown(&ready(&broken(Parts::AGENT))), @r#"
        it not ready ""
        event-loop true ran 0.3 s ago
        nats false the connection was lost 4.0 s ago
        node false not registered with the servers since the process started 60 s ago
        "#);
    }

    #[test]
    fn a_standby_is_ready_and_says_so() {
        let standby = healthy(Parts::NODE_TRACKER);
        let report = ready(&standby);
        assert_eq!((report.status.as_str(), report.role.as_str()), ("ready", "standby"));
        let held = || Lease::Held { epoch: Epoch(7) };
        let active = Facts { leases: vec![(Singleton::NodeTracker, held())], ..standby };
        assert_eq!(ready(&active).role, "active");
        assert_eq!(ready(&healthy(Parts::PLAN_APPLIER)).role, "standby");
        assert_eq!(ready(&Facts { applier_lease: held(), ..healthy(Parts::PLAN_APPLIER) }).role, "active");
        assert_eq!(ready(&healthy(Parts::SCHEDULER)).role, "");
    }

    #[test]
    fn a_process_that_may_not_use_its_subjects_is_not_ready() {
        let nats = Nats::Refuses("NATS does not permit to publish on applier.head".to_owned());
        let facts = Facts { nats, ..healthy(Parts::API) };
        assert_eq!(why_not(&facts), ["nats: NATS does not permit to publish on applier.head"]);
        assert_eq!(live(&facts).status, "live");
    }

    #[test]
    fn a_lost_lease_says_since_when_and_who_has_it() {
        let message = |lost, holder| {
            let leases = vec![(Singleton::EvalBroker, Lease::NotHeld { lost, holder })];
            let report = ready(&Facts { leases, ..healthy(Parts::EVAL_BROKER) });
            assert_eq!((report.status.as_str(), report.role.as_str()), ("ready", "standby"));
            report
                .checks
                .into_iter()
                .find(|check| check.name == "eval-broker-lease")
                .map(|check| check.message)
        };
        let reason = "not renewed in time".to_owned();
        let lost = Some(LostLease { epoch: Epoch(3), ago: secs(34), reason });
        let holder = Some(Holder { process: ProcessId::from_bytes([7; 16]), epoch: Epoch(4) });
        let texts = [message(lost.clone(), None), message(lost, holder), message(None, holder)];
        let text = texts.map(Option::unwrap_or_default).join("\n").replace("; ", ";\n  ");
        insta::assert_snapshot!(text, @r"
        standing by, lost epoch 3 34 s ago (not renewed in time);
          no other process is known to be active
        standing by, lost epoch 3 34 s ago (not renewed in time);
          process 07070707-0707-0707-0707-070707070707 is active, epoch 4
        standing by;
          process 07070707-0707-0707-0707-070707070707 is active, epoch 4
        ");
    }

    #[test]
    fn a_process_on_another_database_than_the_applier_is_not_ready() {
        let both = "this process uses the database a, but the plan applier writes b";
        let other = |parts| Facts { database_match: DatabaseMatch::Other(both.to_owned()), ..healthy(parts) };
        for parts in [Parts::API, Parts::PLAN_APPLIER, Parts::NODE_TRACKER] {
            assert_eq!(why_not(&other(parts)), [format!("database: {both}")]);
        }
        let facts = Facts { database_match: DatabaseMatch::Unknown, ..healthy(Parts::API) };
        assert_eq!(
            why_not(&facts),
            ["database: not compared with the plan applier's since the process started 60 s ago"]
        );
        // The other services answer from memory while the database does not answer.
        let failure = LogFailure { since: secs(30), error: "connection refused".to_owned() };
        let facts = Facts { log_failure: Some(failure), ..healthy(Parts::API) };
        assert_eq!(why_not(&facts), [""; 0]);
    }

    #[test]
    fn a_stuck_event_loop_is_neither_live_nor_ready() {
        let facts = Facts { beat_ago: secs(12), ..healthy(Parts::SCHEDULER) };
        assert_eq!(live(&facts).status, "not live");
        assert_eq!(why_not(&facts), ["event-loop: has not run for 12 s: the process is stuck"]);
        let in_time = Facts { beat_ago: STUCK_AFTER - Duration::from_millis(1), ..facts };
        assert_eq!((live(&in_time).status.as_str(), why_not(&in_time)), ("live", vec![]));
    }

    #[test]
    fn an_ending_process_lives_but_is_not_ready() {
        let facts = Facts { is_ending: true, ..healthy(Parts::API) };
        assert_eq!(live(&facts).status, "live");
        assert_eq!(why_not(&facts), ["shutdown: the process is ending"]);
    }

    #[test]
    fn a_lag_counts_once_it_lasts() {
        let facts = Facts { behind_for: secs(9), ..healthy(Parts::API) };
        assert_eq!(why_not(&facts), [""; 0]);
        let facts = Facts { behind_for: secs(14), ..facts };
        assert_eq!(
            why_not(&facts),
            ["replica: at index 40, 2 behind the plan applier, and has not caught up for 14 s"]
        );
    }

    #[test]
    fn a_failover_of_the_applier_makes_nobody_unready() {
        let silent = |ago| Facts { head: Some(Announced { index: Index(40), ago }), ..healthy(Parts::API) };
        assert_eq!(why_not(&silent(secs(29))), [""; 0]);
        assert_eq!(
            why_not(&silent(secs(41))),
            ["plan-applier: not heard of for 41 s: nothing can be written"]
        );
    }

    #[test]
    fn a_node_is_ready_while_heartbeats_are_answered() {
        let node = |status, last_contact_ago| Facts {
            registration: Some(Registration { status, last_contact_ago, ttl: secs(5) }),
            ..healthy(Parts::AGENT)
        };
        assert_eq!(why_not(&node(NodeStatus::Ready, secs(10))), [""; 0]);
        assert_eq!(
            why_not(&node(NodeStatus::Ready, secs(11))),
            ["node: no heartbeat was answered for 11 s, which was due within 5.0 s; tasks run on"]
        );
        assert_eq!(
            why_not(&node(NodeStatus::Initializing, secs(1))),
            ["node: initializing, as the servers said 1.0 s ago"]
        );
    }
}
