//! What is down when nothing can be served, as far as this process knows. The reference's text for it must not change, so the
//! log and `agent/health` say more.

use std::time::Duration;

use crate::Api;
use crate::http::{Error, NO_LEADER};

/// What this process knows about the parts that it depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Facts {
    /// How long the connection to NATS has been lost.
    nats_lost: Option<Duration>,
    /// What NATS does not permit to this process.
    nats_refuses: Option<String>,
    /// Why the database that this process reads is not the state that the plan applier writes.
    wrong_database: Option<&'static str>,
    /// How long this process has not been able to read the log in the database, and why.
    database_fails: Option<(Duration, String)>,
    /// Time since the last message of the plan applier.
    applier_heard: Option<Duration>,
    /// Whether that was recently.
    is_applier_known: bool,
}

impl Facts {
    /// What is down, a text for each part.
    fn outages(&self) -> Vec<String> {
        let mut outages = Vec::new();
        if let Some(lost) = self.nats_lost {
            outages.push(format!("nats: the connection was lost {} s ago", lost.as_secs()));
        }
        if let Some(refusal) = &self.nats_refuses {
            outages.push(format!("nats: {refusal}"));
        }
        if let Some(problem) = self.wrong_database {
            outages.push(format!("database: {problem}"));
        }
        if let Some((failing, error)) = &self.database_fails {
            outages.push(format!("database: not read for {} s: {error}", failing.as_secs()));
        }
        if !self.is_applier_known && self.wrong_database.is_none() {
            let since = match self.applier_heard {
                Some(ago) => format!("for {} s", ago.as_secs()),
                None => "since this server started".to_owned(),
            };
            let why = match self.nats_lost {
                Some(_) => "",
                None => ": none is active, or it cannot reach NATS or PostgreSQL",
            };
            outages.push(format!("plan-applier: not heard of {since}{why}"));
        }
        outages
    }
}

impl Api {
    /// The error of requests that need an active applier. Only the log says what is down: the web interface compares the text
    /// (http-api §5.4).
    pub(crate) fn no_leader(&self) -> Error {
        Error { detail: self.outages().join("; "), ..Error::unavailable(NO_LEADER) }
    }

    /// What is down, a text for each part.
    pub(crate) fn outages(&self) -> Vec<String> {
        let database_fails =
            self.contact.log_failure().map(|failure| (failure.since.elapsed(), failure.error));
        let facts = Facts {
            nats_lost: self.bus.outage(),
            nats_refuses: self.bus.refused(),
            wrong_database: self.wrong_database(),
            database_fails,
            applier_heard: self.contact.heard_ago(),
            is_applier_known: self.contact(true).1,
        };
        facts.outages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_is_down_is_named() {
        let secs = |secs| Some(Duration::from_secs(secs));
        let healthy = Facts { applier_heard: secs(1), is_applier_known: true, ..Facts::default() };
        assert_eq!(healthy.outages(), [""; 0]);
        let silent = Facts { applier_heard: secs(12), is_applier_known: false, ..healthy.clone() };
        assert_eq!(
            silent.outages(),
            ["plan-applier: not heard of for 12 s: none is active, or it cannot reach NATS or PostgreSQL"]
        );
        let cut_off = Facts { nats_lost: secs(11), ..silent };
        assert_eq!(
            cut_off.outages(),
            ["nats: the connection was lost 11 s ago", "plan-applier: not heard of for 12 s"]
        );
        let refusal = "NATS does not permit to publish on applier.head".to_owned();
        let refused = Facts { nats_refuses: Some(refusal), ..healthy.clone() };
        assert_eq!(refused.outages(), ["nats: NATS does not permit to publish on applier.head"]);
        let database_fails = Some((Duration::from_secs(9), "connection refused".to_owned()));
        let unread = Facts { database_fails, ..healthy.clone() };
        assert_eq!(unread.outages(), ["database: not read for 9 s: connection refused"]);
        let wrong_database = Some("this server reads another database");
        let other = Facts { wrong_database, is_applier_known: false, ..healthy };
        assert_eq!(other.outages(), ["database: this server reads another database"]);
    }
}
