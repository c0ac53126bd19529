//! An attacker with the credentials of a node.

use model::NodeId;
use model::node::Secret;
use nats_auth::limits::{NODE_PAYLOAD_MAX, NODE_SUBSCRIPTIONS_MAX};
use tests::harness::api::{array, text};
use tests::harness::raw_nats::{RawNats, Received};
use tests::harness::{AGENT, Cluster};
use wire::node::Heartbeat;
use wire::{Inbox, Subject, Wire as _};

use super::scene::{connect, headers, issuer, now_secs, scene};

/// Number of messages of a flood.
const FLOOD: usize = 100_000;

/// The attacker's node, and the other node.
struct Nodes {
    own: NodeId,
    other: NodeId,
}

async fn nodes(cluster: &Cluster) -> Nodes {
    let nodes = cluster.api.get("/v1/nodes").await;
    let id = |is_own: bool| {
        let node = array(&nodes).iter().find(|node| (text(node, "Name") == AGENT) == is_own);
        text(node.expect("both nodes are registered"), "ID").parse().expect("the id is valid")
    };
    Nodes { own: id(true), other: id(false) }
}

fn attacker(cluster: &Cluster, node: NodeId) -> RawNats {
    connect(cluster, &issuer(cluster).node("attacker", node, &mut rand::random, now_secs()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_receives_only_its_own_messages() {
    let mut scene = scene().await;
    let Nodes { own, other } = nodes(&scene.cluster).await;
    let mut attacker = attacker(&scene.cluster, own);
    for subject in [
        "feed.changes".to_owned(),
        "feed.head".to_owned(),
        "feed.>".to_owned(),
        ">".to_owned(),
        "*".to_owned(),
        "*.*.*".to_owned(),
        "$SYS.>".to_owned(),
        "applier.command.*".to_owned(),
        "applier.renew.>".to_owned(),
        "applier.head".to_owned(),
        "broker.dequeue".to_owned(),
        "lease.node-tracker.holder".to_owned(),
        "metrics.>".to_owned(),
        Subject::EVERY_NODE_HEARTBEAT.to_owned(),
        Subject::NodeReport(own).to_string(),
        Subject::NodeReport(other).to_string(),
        Subject::AgentWake(other).to_string(),
        Subject::AgentTasks(other).to_string(),
        Subject::EVERY_AGENT_WAKE.to_owned(),
        format!("agent.{other}.>"),
        format!("agent.{own}.>"),
        Inbox::EVERY.to_owned(),
        "inbox.api.>".to_owned(),
        "inbox.plan-applier.>".to_owned(),
        "inbox.node.*.>".to_owned(),
        Inbox::Node(other).every(),
        format!("inbox.api.node.{own}.>"),
    ] {
        scene.assert_cannot_subscribe(&mut attacker, &subject, "");
    }
    // In a queue group the attacker would take messages away from their receivers.
    scene.assert_cannot_subscribe(&mut attacker, Subject::EVERY_NODE_REGISTER, "trackers");
    scene.assert_cannot_subscribe(&mut attacker, "applier.command.*", "appliers");
    scene.assert_cannot_subscribe(&mut attacker, &Subject::AgentWake(other).to_string(), "agents");
    scene.assert_job_runs().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_publishes_only_on_its_own_subjects() {
    let mut scene = scene().await;
    let Nodes { own, other } = nodes(&scene.cluster).await;
    let mut attacker = attacker(&scene.cluster, own);
    for subject in [
        // As another node, or in its own name on subjects on which only servers publish.
        Subject::NodeRegister(other).to_string(),
        Subject::NodeHeartbeat(other).to_string(),
        Subject::NodeWork(other).to_string(),
        Subject::NodeReport(other).to_string(),
        Subject::NodeServices(other).to_string(),
        Subject::NodeDirectory(other).to_string(),
        Subject::AgentWake(other).to_string(),
        Subject::AgentWake(own).to_string(),
        Subject::AgentFiles(other).to_string(),
        Subject::AgentTasks(other).to_string(),
        Subject::AgentStats(other).to_string(),
        Subject::AgentVolumes(other).to_string(),
        format!("node.{own}.other"),
        // As a service.
        "applier.command".to_owned(),
        "applier.command.api".to_owned(),
        "applier.command.agent".to_owned(),
        "applier.command.node-tracker".to_owned(),
        "applier.renew.node-tracker".to_owned(),
        Subject::GetHead.to_string(),
        Subject::Probe.to_string(),
        Subject::ForceGarbageCollection.to_string(),
        Subject::Changes.to_string(),
        Subject::Head.to_string(),
        Subject::Dequeue.to_string(),
        Subject::EvalLease.to_string(),
        "lease.eval-broker.holder".to_owned(),
        "metrics.node-tracker.1".to_owned(),
        "metrics.agent.1".to_owned(),
        // As an applier, a broker or a tracker that answers.
        "inbox.api.token".to_owned(),
        "inbox.scheduler.token".to_owned(),
        "inbox.node-tracker.token".to_owned(),
        format!("{}.token", Inbox::Node(other)),
        format!("inbox.api.node.{other}.token"),
        // As a server of NATS.
        "$SYS.REQ.SERVER.PING".to_owned(),
        "$SYS.REQ.ACCOUNT.PING".to_owned(),
        "$JS.API.INFO".to_owned(),
        // With wildcards.
        "node.*.heartbeat".to_owned(),
        "agent.>".to_owned(),
    ] {
        scene.assert_cannot_publish(&mut attacker, &subject);
    }
    scene.assert_job_runs().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_redirect_responses_to_others() {
    let mut scene = scene().await;
    let Nodes { own, other } = nodes(&scene.cluster).await;
    let mut attacker = attacker(&scene.cluster, own);
    let subject = Subject::NodeHeartbeat(own).to_string();
    // The service that answers has permission to publish on some of these.
    for reply in [
        Subject::Changes.to_string(),
        Subject::Head.to_string(),
        "applier.command.node-tracker".to_owned(),
        "applier.renew.node-tracker".to_owned(),
        "inbox.api.token".to_owned(),
        "inbox.node-tracker.token".to_owned(),
        format!("{}.token", Inbox::Node(other)),
        Subject::AgentWake(other).to_string(),
    ] {
        let send_request = || attacker.publish(&subject, &reply, "", b"\xc1 garbage");
        scene.assert_not_answered_at(&reply, send_request).await;
        assert_eq!(attacker.errors(), [] as [&str; 0], "the request itself is permitted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_names_another_node_is_refused() {
    let mut scene = scene().await;
    let Nodes { own, other } = nodes(&scene.cluster).await;
    let mut attacker = attacker(&scene.cluster, own);
    let inbox = Inbox::Node(own).to_string() + ".token";
    attacker.subscribe_to(&inbox, "");
    let beat = wire::encode(&Heartbeat { id: other, secret: Secret("guessed".into()), boot: u32::MAX });
    attacker.publish(&Subject::NodeHeartbeat(own).to_string(), &inbox, &headers(Heartbeat::KIND), &beat);
    assert_refused(&mut attacker);
    // Malformed messages are refused as well, whatever their kind.
    for subject in [
        Subject::NodeRegister(own),
        Subject::NodeHeartbeat(own),
        Subject::NodeWork(own),
        Subject::NodeReport(own),
        Subject::NodeServices(own),
        Subject::NodeDirectory(own),
    ] {
        for (kind, body) in
            [(Heartbeat::KIND, &b"\xc1"[..]), ("node.report", b"\x81\xa2id"), ("nothing", b"")]
        {
            attacker.publish(&subject.to_string(), &inbox, &headers(kind), body);
            assert_refused(&mut attacker);
        }
    }
    let status = scene.cluster.api.get(&format!("/v1/node/{other}")).await;
    assert_eq!(text(&status, "Status"), "ready");
    scene.assert_job_runs().await;
}

fn assert_refused(attacker: &mut RawNats) {
    match attacker.message() {
        Ok(Received::Message { text, .. }) => assert!(text.contains("Drover-Kind: refusal"), "{text}"),
        other => panic!("the request was not answered: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_limits() {
    let mut scene = scene().await;
    let Nodes { own, .. } = nodes(&scene.cluster).await;

    let mut greedy = attacker(&scene.cluster, own);
    let limit = usize::try_from(NODE_SUBSCRIPTIONS_MAX).expect("the limit fits into usize");
    for number in 0..=limit {
        greedy.subscribe_to(&format!("{}.{number}", Inbox::Node(own)), "");
    }
    let errors = greedy.errors();
    assert!(errors.iter().any(|error| error.contains("maximum subscriptions exceeded")), "{errors:?}");

    let mut large = attacker(&scene.cluster, own);
    let body = vec![b'x'; usize::try_from(NODE_PAYLOAD_MAX).expect("the limit fits into usize") + 1];
    large.publish(&Subject::NodeReport(own).to_string(), "", "", &body);
    let errors = large.errors();
    assert!(errors.iter().any(|error| error.contains("Maximum Payload")), "{errors:?}");
    assert!(
        scene.arrived(|subject, text| subject.ends_with(".report") && text.starts_with("xxx")).is_empty()
    );

    let mut flood = attacker(&scene.cluster, own);
    let subject = Subject::NodeHeartbeat(own).to_string();
    for _ in 0..FLOOD {
        flood.publish(&subject, "", &headers(Heartbeat::KIND), b"\xc1");
    }
    scene.assert_job_runs().await;
}
