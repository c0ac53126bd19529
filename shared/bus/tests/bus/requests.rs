//! Requests, responses, refusals and failures.

use std::time::Duration;

use async_nats::HeaderMap;
use bus::{Batched, Bus, EchoMonitor, Error, Request, RequestError};
use futures::StreamExt;
use model::node::{NodeStatus, Secret};
use model::{Index, NodeId};
use tokio::task::JoinHandle;
use wire::envelope::{COMMAND_BYTES_MAX, HEADER_TRACE};
use wire::node::{Heartbeat, NodeResponse, Report, ReportAccepted, Wake, WorkIndex};
use wire::{Refusal, RefusalKind, Subject};

use crate::scene::{Scene, next, soon};

const NODE: NodeId = NodeId::from_bytes([7; 16]);
const SUBJECT: Subject = Subject::NodeHeartbeat(NODE);
const WITHIN: Duration = Duration::from_secs(30);
/// Interval at which batched messages are polled.
const EVERY: Duration = Duration::from_millis(20);
/// Longer than an echo takes.
const DEAF: Duration = Duration::from_secs(1);

fn heartbeat() -> Heartbeat {
    Heartbeat { id: NODE, secret: Secret::default(), boot: 3 }
}

fn at(index: u64) -> WorkIndex {
    WorkIndex { index: Index(index), ..WorkIndex::default() }
}

fn ready() -> NodeResponse {
    NodeResponse { status: NodeStatus::Ready, ttl_ms: 5, work_index: at(9), report_all: None, services: None }
}

fn refusal() -> Refusal {
    Refusal { kind: RefusalKind::NotFound, message: "node not found".into() }
}

async fn ask(bus: &Bus, within: Duration) -> Result<NodeResponse, RequestError> {
    soon(bus.request(SUBJECT, &heartbeat(), within)).await
}

/// Sends the request until a process responds. The server may process the request before the subscription.
async fn ask_until_served(bus: &Bus) -> NodeResponse {
    loop {
        match ask(bus, WITHIN).await {
            Err(RequestError::NoResponders) => tokio::task::yield_now().await,
            answered => return answered.unwrap(),
        }
    }
}

/// Waits until the receive lag is above or below the limit.
async fn until(echo_monitor: &EchoMonitor, is_deaf: bool) {
    soon(async {
        while (echo_monitor.receive_lag() > DEAF) != is_deaf {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Responds to every heartbeat.
async fn answer_all(bus: &Bus) -> JoinHandle<()> {
    let mut requests = bus.serve(Subject::EVERY_NODE_HEARTBEAT).await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            if let Some((request, _)) = request.read::<Heartbeat>().await {
                request.answer(&ready()).await;
            }
        }
    })
}

#[tokio::test]
async fn responses_to_ended_processes_are_reported_as_undelivered() {
    let scene = Scene::new().await;
    let (server, bus, client) = (scene.bus().await, scene.bus().await, scene.client().await);
    let mut requests = server.serve(Subject::EVERY_NODE_HEARTBEAT).await.unwrap();
    let (answers, mut undelivered) = server.answers().await.unwrap();
    let asking = tokio::spawn(async move { ask_until_served(&bus).await });
    answers.send(next(&mut requests).await, &ready(), "heard").await;
    assert_eq!(soon(asking).await.unwrap(), ready());

    client.publish_with_reply(SUBJECT.to_string(), "inbox.observer.nobody.1", "".into()).await.unwrap();
    answers.send(next(&mut requests).await, &ready(), "unheard").await;
    assert_eq!(soon(undelivered.next()).await, Some("unheard"));
}

#[tokio::test]
async fn a_request_is_answered() {
    let scene = Scene::new().await;
    let (server, bus) = (scene.bus().await, scene.bus().await);
    let mut requests = server.serve(Subject::EVERY_NODE_HEARTBEAT).await.unwrap();
    let id = bus.new_request_id();
    let body = heartbeat();
    let asking = async {
        loop {
            // The server may process the request before the subscription.
            let answer = bus.request_as::<_, NodeResponse>(SUBJECT, id, &body, WITHIN).await;
            if !matches!(answer, Err(RequestError::NoResponders)) {
                return answer.unwrap();
            }
        }
    };
    let answering = async {
        let request = next(&mut requests).await;
        assert_eq!(request.subject(), SUBJECT.to_string());
        assert_eq!(request.id(), id);
        assert!((WITHIN / 2..=WITHIN).contains(&request.remaining()));
        assert!(request.is::<Heartbeat>() && !request.is::<Wake>());
        assert_eq!(request.body::<Heartbeat>().unwrap(), body);
        request.answer(&ready()).await;
    };
    let (answer, ()) = soon(async { tokio::join!(asking, answering) }).await;
    assert_eq!(answer, ready());
}

#[tokio::test]
async fn a_request_may_be_refused_or_have_no_responder() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    assert!(matches!(ask(&bus, WITHIN).await, Err(RequestError::NoResponders)));

    let mut requests = bus.serve(Subject::EVERY_NODE_HEARTBEAT).await.unwrap();
    let refusing = async { next(&mut requests).await.refuse(refusal()).await };
    let (answer, ()) = tokio::join!(ask(&bus, WITHIN), refusing);
    assert!(matches!(answer, Err(RequestError::Refused(found)) if found == refusal()));
}

#[tokio::test]
async fn timed_out_requests_are_not_served() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut requests = bus.serve(Subject::EVERY_NODE_HEARTBEAT).await.unwrap();
    let answer = ask(&bus, Duration::from_millis(50)).await;
    assert!(matches!(answer, Err(RequestError::TimedOut)));

    // The time of a request begins when it arrives, which may be later than its sender waits on a machine that is busy.
    tokio::time::sleep(DEAF).await;
    let answering = async {
        let request = next(&mut requests).await;
        assert!(request.remaining() > Duration::from_secs(1), "this is not the request that timed out");
        request.answer(&ready()).await;
    };
    let (answer, ()) = tokio::join!(ask(&bus, WITHIN), answering);
    assert_eq!(answer.unwrap(), ready());
}

#[tokio::test]
async fn an_undecodable_request_is_refused_and_the_service_continues() {
    let scene = Scene::new().await;
    let (bus, client) = (scene.bus().await, scene.client().await);
    let answering = answer_all(&bus).await;
    let wake: Wake = Wake { work_index: at(1), news: None };
    let wrong = bus.request::<_, NodeResponse>(SUBJECT, &wake, WITHIN);
    let Err(RequestError::Refused(refusal)) = soon(wrong).await else {
        panic!("a message of another kind must be refused")
    };
    assert_eq!(refusal.kind, RefusalKind::Invalid);
    assert_eq!(&*refusal.message, r#"message of kind "agent.wake" instead of "node.heartbeat""#);

    let bare = soon(client.request(SUBJECT.to_string(), "hello".into())).await.unwrap();
    assert_eq!(bare.headers.unwrap().get("Drover-Kind").unwrap().as_str(), "refusal");

    // A response may be of another kind, too.
    let body = heartbeat();
    let wrong = bus.request::<_, ReportAccepted>(SUBJECT, &body, WITHIN);
    assert!(matches!(soon(wrong).await, Err(RequestError::Unreadable(_))));
    assert_eq!(ask(&bus, WITHIN).await.unwrap(), ready());
    answering.abort();
}

#[tokio::test]
async fn messages_that_are_too_large_are_not_sent() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut requests = bus.serve(Subject::EVERY_NODE_HEARTBEAT).await.unwrap();
    let large = Refusal { message: "x".repeat(COMMAND_BYTES_MAX * 2).into(), ..refusal() };
    let result = soon(bus.request::<_, NodeResponse>(SUBJECT, &large, WITHIN)).await;
    assert!(matches!(result, Err(RequestError::TooLarge { .. })), "{result:?}");
    assert!(matches!(bus.publish(SUBJECT, &large).await, Err(Error::TooLarge { .. })));

    let answering = async { next(&mut requests).await.answer(&large).await };
    let (answer, ()) = tokio::join!(ask(&bus, WITHIN), answering);
    let Err(RequestError::Refused(refusal)) = answer else { panic!("the sender must get a refusal") };
    assert!(refusal.message.starts_with("the response is too large"), "{}", refusal.message);
}

#[tokio::test]
async fn a_message_needs_no_answer() {
    let scene = Scene::new().await;
    let bus = scene.bus().await;
    let mut reports = bus.serve(Subject::EVERY_NODE_REPORT).await.unwrap();
    let report = Report { id: NODE, secret: Secret::default(), boot: 1, all_since: None, allocs: Vec::new() };
    bus.publish(Subject::NodeReport(NODE), &report).await.unwrap();
    let (request, found) = next(&mut reports).await.read::<Report>().await.unwrap();
    assert_eq!(found, report);
    request.answer(&ReportAccepted { index: Index(1) }).await;
}

#[tokio::test]
async fn a_message_carries_its_trace() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let scene = Scene::new().await;
    let (bus, client) = (scene.bus().await, scene.client().await);
    let mut requests = bus.serve(Subject::EVERY_NODE_HEARTBEAT).await.unwrap();
    // Once this message has arrived, the server has processed the subscription, for all senders.
    bus.publish(SUBJECT, &heartbeat()).await.unwrap();
    assert_eq!(next(&mut requests).await.trace(), None);
    for value in ["nonsense", TRACE] {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER_TRACE, value);
        client.publish_with_headers(SUBJECT.to_string(), headers, "".into()).await.unwrap();
    }
    assert_eq!(next(&mut requests).await.trace(), None);
    let traced = next(&mut requests).await;
    assert_eq!(traced.trace(), TRACE.parse().ok());
    assert!(traced.span().is_disabled(), "nothing exports spans here");
}

#[tokio::test]
async fn answers_to_an_agent_go_to_its_own_inbox() {
    let scene = Scene::new().await;
    let (bus, client) = (scene.bus().await, scene.client().await);
    let agent = Bus::connect_agent(&scene.agent_args(), NODE).await.unwrap();
    let mut answers = client.subscribe(wire::Inbox::Node(NODE).every()).await.unwrap();
    client.flush().await.unwrap();
    let answering = answer_all(&bus).await;
    while ask(&agent, WITHIN).await.is_err() {}
    soon(answers.next()).await.unwrap();
    answering.abort();
}

#[tokio::test]
async fn a_request_waits_for_the_connection() {
    let mut scene = Scene::new().await;
    let bus = scene.bus().await;
    let answering = answer_all(&bus).await;
    scene.nats.kill9().await.unwrap();
    while !matches!(bus.publish(SUBJECT, &heartbeat()).await, Err(Error::Disconnected)) {}
    assert!(matches!(ask(&bus, Duration::from_millis(50)).await, Err(RequestError::Disconnected)));

    let restarting = async { scene.nats.restart().await.unwrap() };
    let (answer, ()) = tokio::join!(ask(&bus, WITHIN), restarting);
    assert_eq!(answer.unwrap(), ready());
    answering.abort();
}

#[tokio::test]
async fn batched_requests_arrive_together_and_are_answered() {
    let scene = Scene::new().await;
    let (server, bus) = (scene.bus().await, scene.bus().await);
    let gathered = server.serve_batched(Subject::EVERY_NODE_HEARTBEAT, EVERY).await.unwrap();
    let mut requests = gathered.requests;
    let asking = tokio::spawn(async move {
        assert_eq!(tokio::join!(ask_until_served(&bus), ask_until_served(&bus)), (ready(), ready()));
    });
    let mut answered = 0;
    while answered < 2 {
        for request in soon(requests.next_many()).await {
            assert_eq!(request.body::<Heartbeat>().unwrap(), heartbeat());
            request.answer(&ready()).await;
            answered += 1;
        }
    }
    soon(asking).await.unwrap();
}

#[tokio::test]
async fn a_batching_service_learns_of_reconnections() {
    let mut scene = Scene::new().await;
    let (server, bus) = (scene.bus().await, scene.bus().await);
    let gathered = server.serve_batched(Subject::EVERY_NODE_HEARTBEAT, EVERY).await;
    let Batched { mut requests, mut reconnections, .. } = gathered.unwrap();
    scene.nats.kill9().await.unwrap();
    scene.nats.restart().await.unwrap();
    soon(reconnections.next()).await;

    let asking = tokio::spawn(async move { ask_until_served(&bus).await });
    soon(requests.next_many()).await.remove(0).answer(&ready()).await;
    assert_eq!(soon(asking).await.unwrap(), ready());
}

#[tokio::test]
async fn a_batching_service_knows_when_it_received_nothing() {
    let mut scene = Scene::new().await;
    let server = scene.bus().await;
    let gathered = server.serve_batched(Subject::EVERY_NODE_HEARTBEAT, EVERY).await.unwrap();
    let Batched { mut requests, echo_monitor, .. } = gathered;
    let until = async |is_deaf| until(&echo_monitor, is_deaf).await;
    // The echoes have to be handled like all other messages.
    let _dealing = tokio::spawn(async move { while !requests.next_many().await.is_empty() {} });
    until(false).await;
    let paused = scene.nats.pause();
    until(true).await;
    drop(paused);
    until(false).await;

    scene.nats.kill9().await.unwrap();
    until(true).await;
    scene.nats.restart().await.unwrap();
    until(false).await;
}

#[tokio::test]
async fn requests_waiting_in_a_batch_are_not_lost_and_count_as_lag() {
    let scene = Scene::new().await;
    let (server, bus) = (scene.bus().await, scene.bus().await);
    let gathered = server.serve_batched(Subject::EVERY_NODE_HEARTBEAT, EVERY).await.unwrap();
    let Batched { mut requests, echo_monitor, .. } = gathered;
    while !matches!(ask(&bus, Duration::from_millis(50)).await, Err(RequestError::TimedOut)) {}
    until(&echo_monitor, true).await;

    let late = soon(requests.next_many()).await;
    assert_eq!(late.iter().map(Request::is_waited_for).collect::<Vec<_>>(), [false]);
    assert!(echo_monitor.receive_lag() > DEAF, "it is still being handled");
    let _more = tokio::spawn(async move { requests.next_many().await });
    until(&echo_monitor, false).await;
}
