//! Short texts: credentials, durations and times, and subjects.

use api_types::{Time, duration};
use model::{Nanos, NodeId};
use nats_auth::claims::Claims;
use nats_auth::{Credentials, Key, KeyKind, NodeKey};
use serde_json::json;
use wire::inbox::is_answered_at;
use wire::{Role, Subject};

use crate::seeds::{self, SEPARATOR};
use crate::target::{Repeated, Target};

/// Files with credentials and keys for NATS, and signed claims.
pub static CREDENTIALS: Target = Target {
    name: "credentials",
    run: credentials,
    seeds: || {
        let credentials = signed();
        let key = format!(
            "-----BEGIN DROVER ACCOUNT-----\n{}\n------END DROVER ACCOUNT------\n\
             -----BEGIN DROVER NODE SIGNING SEED-----\n{}\n------END DROVER NODE SIGNING SEED------\n",
            key(KeyKind::Account).public(),
            key(KeyKind::Account).seed(),
        );
        seeds::texts([credentials.text(), key, credentials.jwt.clone(), credentials.key.seed()])
    },
    words: &[
        "-----BEGIN ",
        "NATS USER JWT",
        "USER NKEY SEED",
        "DROVER ACCOUNT",
        "DROVER NODE SIGNING SEED",
        "-----\n",
        "\n------END ",
        ".",
        "eyJ",
        "SU",
        "SA",
        "SO",
        "U",
        "A",
    ],
    repeated: &[
        Repeated { before: "", open: "a.", middle: "", close: "", after: "" },
        Repeated { before: "BEGIN NATS USER JWT\n", open: "a", middle: "", close: "", after: ".a.a\n-" },
        Repeated { before: "", open: "BEGIN NATS USER JWT\n", middle: "", close: "\n-", after: "" },
    ],
    size_max: 1 << 20,
};

/// Durations in Go's notation, and times of RFC 3339.
pub static DURATION: Target = Target {
    name: "duration",
    run: duration_or_time,
    seeds: || {
        let texts = [
            "1h30m",
            "-1.5h",
            "300ms",
            "2\u{b5}s",
            "0",
            "9223372036854775807ns",
            "-9223372036854775808ns",
            "1m0.5s",
            "2026-01-01T00:00:00Z",
            "2025-12-31T16:00:00.123456789-08:00",
            "0001-01-01T00:00:00Z",
            "2262-04-11T23:47:16.854775807Z",
            "1677-09-21T00:12:43.145224192Z",
        ];
        seeds::texts(texts)
    },
    words: &[
        "h", "m", "s", "ms", "us", "\u{b5}s", "ns", ".", "-", "+", "T", "Z", ":", "23:59", "24:00", "60",
    ],
    repeated: &[
        Repeated { before: "", open: "1h", middle: "", close: "", after: "" },
        Repeated { before: "0.", open: "9", middle: "h", close: "", after: "" },
        Repeated { before: "2026-01-01T00:00:00.", open: "1", middle: "Z", close: "", after: "" },
    ],
    size_max: 64 << 10,
};

/// Subjects of NATS, each followed by the subject for the response.
pub static SUBJECT: Target = Target {
    name: "subject",
    run: subject,
    seeds: || {
        let node = NodeId::from_bytes([7; 16]);
        let subjects = [
            Subject::Command(Role::Api),
            Subject::RenewLease(Role::EvalBroker),
            Subject::GetHead,
            Subject::Changes,
            Subject::NodeReport(node),
            Subject::NodeServices(node),
            Subject::NodeDirectory(node),
            Subject::AgentFiles(node),
            Subject::ProcessMetrics((Role::Scheduler, model::ProcessId::from_bytes([8; 16]))),
        ];
        let replies =
            ["inbox.api.x".to_owned(), format!("inbox.node.{node}.x"), format!("inbox.api.node.{node}.x")];
        let pairs = subjects
            .iter()
            .flat_map(|subject| replies.iter().map(move |reply| format!("{subject}{SEPARATOR}{reply}")));
        seeds::texts(pairs)
    },
    words: &[
        "applier.command.",
        "applier.renew.",
        "node.",
        "agent.",
        "metrics.",
        "inbox.",
        ".node.",
        "api",
        "scheduler",
        "sim-nodes",
        "observer",
        ".report",
        ".files",
        "*",
        ">",
        ".",
        "\u{1e}",
        "07070707-0707-0707-0707-070707070707",
    ],
    repeated: &[
        Repeated { before: "node", open: ".a", middle: "", close: "", after: "" },
        Repeated {
            before: "node.a.",
            open: "07070707-0707-0707-0707-070707070707.",
            middle: "",
            close: "",
            after: "",
        },
    ],
    size_max: 64 << 10,
};

fn key(kind: KeyKind) -> Key {
    Key::new(kind, &mut || [1; 32])
}

/// Credentials of a node, signed.
fn signed() -> Credentials {
    let (issuer, user) = (key(KeyKind::Account), key(KeyKind::User));
    let tags = json!({ "tags": ["node:07070707-0707-0707-0707-070707070707"] });
    let claims = Claims::new(&issuer, &user.public(), "one", 1_700_000_000, tags);
    let jwt = claims.clone().sign(&issuer);
    Credentials { jwt, claims, key: user }
}

fn credentials(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(credentials) = Credentials::read(text) {
        let _ = (credentials.node(), format!("{credentials:?}"));
        let again =
            Credentials::read(&credentials.text()).expect("credentials can be read as they were written");
        assert_eq!((again.jwt, again.claims), (credentials.jwt, credentials.claims));
    }
    if let Ok(key) = NodeKey::read(text) {
        let again = NodeKey::read(&key.text()).expect("a key can be read as it was written");
        assert_eq!(again.text(), key.text());
    }
    if let Ok(claims) = Claims::read(text) {
        let _ = claims.tag("node");
    }
    for kind in [KeyKind::Operator, KeyKind::Account, KeyKind::User] {
        if let Ok(key) = Key::from_seed(kind, text) {
            let again = Key::from_seed(kind, &key.seed()).expect("a seed can be read as it was written");
            assert_eq!(again.public(), key.public());
        }
    }
}

fn duration_or_time(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(nanos) = duration::parse(text) {
        let written = Nanos(nanos).to_string();
        assert_eq!(duration::parse(&written), Ok(nanos), "{text:?} is written as {written:?}");
    }
    if let Ok(time) = text.parse::<Time>() {
        let written = time.to_string();
        assert_eq!(written.parse::<Time>(), Ok(time), "{text:?} is written as {written:?}");
    }
}

fn subject(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (subject, reply) = text.split_once(SEPARATOR).unwrap_or((text, ""));
    if let Some(role) = Subject::role_of(subject) {
        let own = [Subject::Command(role), Subject::RenewLease(role)].map(|own| own.to_string());
        assert!(own.iter().any(|own| own == subject), "{subject:?} names the role {role}");
    }
    if is_answered_at(subject, reply) {
        assert!(reply.starts_with("inbox."), "a response to {subject:?} would be sent to {reply:?}");
    }
    let _ = (Subject::node_of(subject), Subject::agent_of(subject), Subject::publisher_of(subject));
    Subject::template(subject);
}
