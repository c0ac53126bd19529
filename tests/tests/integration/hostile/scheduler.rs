//! An attacker with the credentials of a scheduler.

use model::cluster::Singleton;
use model::{Epoch, JobKey, NodeId, ProcessId, Timestamp};
use tests::harness::api::{array, text};
use tests::harness::jobs;
use tests::harness::raw_nats::Received;
use wire::command::{
    CollectGarbage, Command, DeregisterJob, DeregisterNodes, Garbage, NodeLiveness, TakeLease, UpdateEvals,
    UpdateNodes,
};
use wire::{Inbox, Role, Subject, Wire as _};

use super::scene::{connect, headers, of_role, scene};

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_cannot_send_as_another_role() {
    let mut scene = scene().await;
    let mut attacker = connect(&scene.cluster, &of_role(&scene.cluster, Role::Scheduler));
    for subject in [
        "feed.changes",
        "feed.head",
        "applier.command.api",
        "applier.command.plan-applier",
        "applier.command.servers",
        "applier.command",
        "applier.renew.eval-broker",
        "applier.renew.scheduler",
        "applier.head",
        "applier.probe",
        "applier.garbage",
        "lease.eval-broker.holder",
        "node.x.heartbeat",
        "agent.x.wake",
        "agent.x.tasks",
        "inbox.api.token",
        "inbox.scheduler.token",
        "inbox.node.x.token",
        "metrics.api.1",
        "$SYS.REQ.SERVER.PING",
    ] {
        scene.assert_cannot_publish(&mut attacker, subject);
    }
    for subject in [
        ">",
        "$SYS.>",
        "applier.command.*",
        "applier.renew.*",
        "applier.head",
        "broker.dequeue",
        "broker.eval-lease",
        "node.*.register",
        "agent.*.wake",
        "inbox.>",
        "inbox.api.>",
        "inbox.node.*.>",
        "lease.eval-broker.holder",
        "metrics.>",
    ] {
        scene.assert_cannot_subscribe(&mut attacker, subject, "");
    }
    scene.assert_cannot_subscribe(&mut attacker, "broker.dequeue", "brokers");
    scene.assert_job_runs().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_submits_plans_and_commits_nothing_else() {
    let mut scene = scene().await;
    scene.cluster.api.put("/v1/jobs", &jobs::mock_service("victim", 1)).await;
    let victim = scene.cluster.wait_for_alloc("victim", "running").await;
    let node: NodeId = text(&victim, "NodeID").parse().expect("the id is valid");
    let mut attacker = connect(&scene.cluster, &of_role(&scene.cluster, Role::Scheduler));
    let inbox = Inbox::Service(Role::Scheduler).to_string() + ".token";
    attacker.subscribe_to(&inbox, "");
    let job = JobKey::new("default", "victim");
    let process = ProcessId::from_bytes([9; 16]);
    for command in [
        Command::DeregisterJob(DeregisterJob {
            job,
            purge: true,
            eval_priority: None,
            no_shutdown_delay: true,
        }),
        Command::DeregisterNodes(DeregisterNodes { nodes: vec![node] }),
        Command::UpdateNodes(UpdateNodes {
            epoch: Epoch(u64::MAX),
            sign: NodeLiveness::Missed,
            nodes: vec![node],
        }),
        Command::UpdateEvals(UpdateEvals {
            epoch: Epoch(u64::MAX),
            updates: Vec::new(),
            creates: Vec::new(),
            forget_unblocked_before: None,
        }),
        Command::CollectGarbage(CollectGarbage {
            before: Timestamp::from_secs(i64::from(u32::MAX)),
            garbage: Garbage::Nodes(vec![node]),
        }),
        Command::TakeLease(TakeLease { service: Singleton::EvalBroker, process, gone: None }),
        Command::TakeLease(TakeLease { service: Singleton::NodeTracker, process, gone: None }),
    ] {
        let subject = Subject::Command(Role::Scheduler).to_string();
        attacker.publish(&subject, &inbox, &headers(Command::KIND), &wire::encode(&command));
        match attacker.message() {
            Ok(Received::Message { text, .. }) => {
                assert!(
                    text.contains("Drover-Kind: refusal") && text.contains("Forbidden"),
                    "{command:?}: {text}"
                );
                assert!(text.contains("the role scheduler may not send"), "{text}");
            }
            other => panic!("{command:?}: the command was not answered: {other:?}"),
        }
    }
    let jobs = scene.cluster.api.get("/v1/jobs").await;
    assert!(array(&jobs).iter().any(|job| text(job, "ID") == "victim" && text(job, "Status") == "running"));
    let status = scene.cluster.api.get(&format!("/v1/node/{node}")).await;
    assert_eq!(text(&status, "Status"), "ready");

    // A reply subject does not make the applier publish elsewhere.
    for reply in ["feed.changes", "inbox.api.token", "applier.command.plan-applier"] {
        let send_request =
            || attacker.publish(&Subject::Command(Role::Scheduler).to_string(), reply, "", b"\xc1");
        scene.assert_not_answered_at(reply, send_request).await;
    }
}
