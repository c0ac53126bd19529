//! A cluster, an auditor, and connections for attackers.

use std::cell::Cell;

use nats_auth::claims::Claims;
use nats_auth::{Credentials, Issuer, Key, KeyKind};
use private_servers::{NatsAccess, NatsOptions};
use serde_json::json;
use tests::harness::raw_nats::{RawNats, Received};
use tests::harness::{AGENT, Cluster, SERVICES, jobs};
use wire::Role;
use wire::permissions::Purpose;

use crate::BINARY;

/// A second agent, whose node is the target of attacks.
const VICTIM: &str = "agent@victim";

pub(super) struct Scene {
    pub(super) cluster: Cluster,
    auditor: RawNats,
    attempts: Cell<u32>,
}

/// Starts a cluster with two nodes.
pub(super) async fn scene() -> Scene {
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT, VICTIM]).collect();
    let nats = NatsOptions { access: NatsAccess::Credentials(Purpose::Cluster), ..NatsOptions::default() };
    let cluster = Cluster::start_with(BINARY, &[], &names, nats).await;
    let mut auditor = connect(&cluster, &auditor(issuer(&cluster)));
    auditor.subscribe_to(">", "");
    assert_eq!(auditor.errors(), [] as [&str; 0]);
    Scene { cluster, auditor, attempts: Cell::new(0) }
}

pub(super) fn issuer(cluster: &Cluster) -> &Issuer {
    cluster.nats.issuer().expect("NATS uses credentials")
}

pub(super) fn connect(cluster: &Cluster, credentials: &Credentials) -> RawNats {
    RawNats::connect(&cluster.nats.url(), Some(credentials)).expect("the credentials are accepted")
}

/// Makes credentials of a role, as the cluster's operator does.
pub(super) fn of_role(cluster: &Cluster, role: Role) -> Credentials {
    issuer(cluster).service(role, &mut rand::random, now_secs()).expect("the role has credentials")
}

/// Makes credentials with all permissions. No command makes such credentials.
fn auditor(issuer: &Issuer) -> Credentials {
    let key = Key::new(KeyKind::User, &mut rand::random);
    let nats = json!({
        "type": "user", "version": 2, "issuer_account": issuer.account.public(),
        "subs": -1, "data": -1, "payload": -1,
        "pub": { "allow": [">"] }, "sub": { "allow": [">"] },
    });
    let claims = Claims::new(&issuer.service_signer, &key.public(), "auditor", now_secs(), nats);
    Credentials { jwt: claims.clone().sign(&issuer.service_signer), claims, key }
}

pub(super) fn now_secs() -> i64 {
    telemetry::clock::now().as_secs()
}

impl Scene {
    /// Returns a text that no other message contains.
    fn mark(&self) -> String {
        self.attempts.set(self.attempts.get() + 1);
        format!("attempt-{}", self.attempts.get())
    }

    /// Asserts that NATS refuses to publish on a subject, and that no message arrives there.
    pub(super) fn assert_cannot_publish(&mut self, attacker: &mut RawNats, subject: &str) {
        let mark = self.mark();
        attacker.publish(subject, "", "", mark.as_bytes());
        let errors = attacker.errors();
        let is_refused = errors.iter().any(|error| error.contains("Permissions Violation for Publish"));
        assert!(is_refused, "publishing on {subject}: {errors:?}");
        let arrived = self.arrived(|_, text| text.contains(&mark));
        assert!(arrived.is_empty(), "a message arrived on {subject}: {arrived:?}");
    }

    /// Asserts that NATS refuses to subscribe, in a queue group if `queue` is not empty, and that messages published
    /// there do not reach the attacker.
    pub(super) fn assert_cannot_subscribe(&mut self, attacker: &mut RawNats, subject: &str, queue: &str) {
        attacker.subscribe_to(subject, queue);
        let errors = attacker.errors();
        let is_refused = errors.iter().any(|error| error.contains("Permissions Violation for Subscription"));
        assert!(is_refused, "subscribing to {subject} {queue}: {errors:?}");
        let mark = self.mark();
        let published = subject.replace(['*', '>'], "x");
        if !published.starts_with('$') {
            self.auditor.publish(&published, "", "", mark.as_bytes());
            assert!(
                !self.arrived(|_, text| text.contains(&mark)).is_empty(),
                "the auditor can publish on {published}"
            );
        }
        let received = attacker.flush();
        assert!(
            !received.iter().any(|message| contains(message, &mark)),
            "received from {subject}: {received:?}"
        );
    }

    /// Asserts that no answer arrives on the reply subject of a request. `send_request` sends the request with that
    /// reply subject.
    pub(super) async fn assert_not_answered_at(&mut self, reply: &str, send_request: impl FnOnce()) {
        self.arrived(|_, _| true);
        send_request();
        // When a job that is registered now runs, messages that were sent before have been handled.
        self.assert_job_runs().await;
        let answered = self.arrived(|subject, text| {
            subject == reply && (text.contains("Drover-Kind: refusal") || text.contains("Drover-Kind: node."))
        });
        assert!(answered.is_empty(), "the answer arrived at {reply}: {answered:?}");
    }

    /// Returns the messages that the auditor has received since the last call and that match.
    pub(super) fn arrived(&mut self, matches_message: impl Fn(&str, &str) -> bool) -> Vec<Received> {
        let mut received = self.auditor.flush();
        received.retain(
            |received| matches!(received, Received::Message { subject, text, .. } if matches_message(subject, text)),
        );
        received
    }

    /// Asserts that a new job is placed and runs, and that no process has exited.
    pub(super) async fn assert_job_runs(&mut self) {
        let job = self.mark();
        self.cluster.api.put("/v1/jobs", &jobs::mock_service(&job, 1)).await;
        self.cluster.wait_for_alloc(&job, "running").await;
        self.cluster.assert_alive();
    }
}

fn contains(received: &Received, mark: &str) -> bool {
    matches!(received, Received::Message { text, .. } if text.contains(mark))
}

/// Header lines of a message of a kind.
pub(super) fn headers(kind: &str) -> String {
    format!("Drover-Kind: {kind}\r\nDrover-Version: 1\r\nDrover-Deadline-Ms: 20000\r\n")
}
