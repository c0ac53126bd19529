//! A cluster, an auditor, and an attacker with credentials.

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

/// A second agent, the victim of the first one's node.
const VICTIM: &str = "agent@victim";

pub(super) struct Scene {
    pub(super) cluster: Cluster,
    auditor: RawNats,
    attempts: Cell<u32>,
}

/// A cluster with two nodes.
pub(super) async fn scene() -> Scene {
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT, VICTIM]).collect();
    let nats = NatsOptions { access: NatsAccess::Credentials(Purpose::Cluster), ..NatsOptions::default() };
    let cluster = Cluster::start_with(BINARY, &[], &names, nats).await;
    let mut auditor = connect(&cluster, &auditor(issuer(&cluster)));
    auditor.subscribe(">", "");
    assert_eq!(auditor.errors(), [] as [&str; 0]);
    Scene { cluster, auditor, attempts: Cell::new(0) }
}

pub(super) fn issuer(cluster: &Cluster) -> &Issuer {
    cluster.nats.issuer().expect("it lets in by credentials")
}

pub(super) fn connect(cluster: &Cluster, credentials: &Credentials) -> RawNats {
    RawNats::connect(&cluster.nats.url(), Some(credentials)).expect("the credentials are good")
}

/// Credentials of a role, as the cluster's operator makes them.
pub(super) fn of_role(cluster: &Cluster, role: Role) -> Credentials {
    issuer(cluster).service(role, &mut rand::random, now_secs()).expect("the role has credentials")
}

/// Somebody whom everything is permitted. No command makes such credentials.
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
    /// A text that no other message contains.
    fn mark(&self) -> String {
        self.attempts.set(self.attempts.get() + 1);
        format!("attempt-{}", self.attempts.get())
    }

    /// Asserts that NATS refuses to let the attacker publish on a subject, and that nothing arrives there.
    pub(super) fn assert_cannot_publish(&mut self, attacker: &mut RawNats, subject: &str) {
        let mark = self.mark();
        attacker.publish(subject, "", "", mark.as_bytes());
        let errors = attacker.errors();
        let is_refused = errors.iter().any(|error| error.contains("Permissions Violation for Publish"));
        assert!(is_refused, "publishing on {subject}: {errors:?}");
        let arrived = self.arrived(|_, text| text.contains(&mark));
        assert!(arrived.is_empty(), "{subject} was published on: {arrived:?}");
    }

    /// Asserts that NATS refuses to let the attacker subscribe, in a queue group if that is not empty, and that what is
    /// published there does not reach the attacker.
    pub(super) fn assert_cannot_subscribe(&mut self, attacker: &mut RawNats, subject: &str, queue: &str) {
        attacker.subscribe(subject, queue);
        let errors = attacker.errors();
        let is_refused = errors.iter().any(|error| error.contains("Permissions Violation for Subscription"));
        assert!(is_refused, "subscribing to {subject} {queue}: {errors:?}");
        let mark = self.mark();
        let published = subject.replace(['*', '>'], "x");
        if !published.starts_with('$') {
            self.auditor.publish(&published, "", "", mark.as_bytes());
            assert!(
                !self.arrived(|_, text| text.contains(&mark)).is_empty(),
                "the auditor publishes on {published}"
            );
        }
        let heard = attacker.flush();
        assert!(!heard.iter().any(|heard| contains(heard, &mark)), "{subject} was heard: {heard:?}");
    }

    /// Asserts that an answer which the attacker wants on a subject does not go there: `ask` sends the request with that reply
    /// subject.
    pub(super) async fn assert_not_answered_at(&mut self, reply: &str, ask: impl FnOnce()) {
        self.arrived(|_, _| true);
        ask();
        // What came later than the request is handled when a job that is registered now runs.
        self.assert_places().await;
        let answered = self.arrived(|subject, text| {
            subject == reply && (text.contains("Drover-Kind: refusal") || text.contains("Drover-Kind: node."))
        });
        assert!(answered.is_empty(), "the answer came at {reply}: {answered:?}");
    }

    /// What the auditor heard since it was asked last, and is such.
    pub(super) fn arrived(&mut self, is_such: impl Fn(&str, &str) -> bool) -> Vec<Received> {
        let mut heard = self.auditor.flush();
        heard.retain(
            |heard| matches!(heard, Received::Message { subject, text, .. } if is_such(subject, text)),
        );
        heard
    }

    /// Asserts that a job is placed on the nodes and runs, and that nothing has ended.
    pub(super) async fn assert_places(&mut self) {
        let job = self.mark();
        self.cluster.api.put("/v1/jobs", &jobs::mock_service(&job, 1)).await;
        self.cluster.wait_for_alloc(&job, "running").await;
        self.cluster.assert_alive();
    }
}

fn contains(received: &Received, mark: &str) -> bool {
    matches!(received, Received::Message { text, .. } if text.contains(mark))
}

/// Header lines of a message of this kind.
pub(super) fn headers(kind: &str) -> String {
    format!("Drover-Kind: {kind}\r\nDrover-Version: 1\r\nDrover-Deadline-Ms: 20000\r\n")
}
