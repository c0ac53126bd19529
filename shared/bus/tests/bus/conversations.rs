//! Conversations between a service and an agent, with the permissions that their credentials have.

use std::time::Duration;

use async_nats::HeaderMap;
use bus::{Bus, Conversation, Request, RequestError, Requests};
use bytes::Bytes;
use model::{AllocId, NodeId};
use wire::exec::{ExecInput, ExecOutput, InputPart, OutputPart, StartExec};
use wire::{Refusal, RefusalKind, Role, Subject};

use crate::scene::{Scene, next, soon};

const NODE: NodeId = NodeId::from_bytes([7; 16]);
const SUBJECT: Subject = Subject::AgentExec(NODE);
const WITHIN: Duration = Duration::from_secs(30);

fn start() -> StartExec {
    StartExec {
        alloc: AllocId::from_bytes([1; 16]),
        task: "web".into(),
        command: vec!["ls".to_owned()],
        tty: false,
        requester: "127.0.0.1:1".into(),
    }
}

fn output(number: u64) -> ExecOutput {
    ExecOutput { number, part: OutputPart::Alive }
}

async fn agent(scene: &Scene) -> (Bus, Requests) {
    let bus = soon(Bus::connect_agent(&scene.agent_args(), NODE)).await.unwrap();
    let requests = bus.serve(SUBJECT.to_string()).await.unwrap();
    bus.flush().await.unwrap();
    (bus, requests)
}

async fn api(scene: &Scene) -> Bus {
    soon(Bus::connect(&scene.args(Role::Api), Role::Api)).await.unwrap()
}

/// Opens a conversation. The server may process its first message before the agent's subscription.
async fn begin(api: &Bus, requests: &mut Requests) -> (Conversation, Request) {
    soon(async {
        loop {
            let mut conversation = api.converse(SUBJECT, &start(), WITHIN).await.unwrap();
            tokio::select! {
                request = requests.next() => return (conversation, request.unwrap()),
                failed = conversation.next::<ExecOutput>() => {
                    assert!(matches!(failed, Err(RequestError::NoResponders)), "{failed:?}");
                }
            }
        }
    })
    .await
}

async fn received(conversation: &mut Conversation) -> Result<ExecOutput, RequestError> {
    soon(conversation.next::<ExecOutput>()).await
}

#[tokio::test]
async fn both_sides_send_many_messages_in_order() {
    let scene = Scene::new().await;
    let (agent, mut requests) = agent(&scene).await;
    let api = api(&scene).await;
    let (mut conversation, opening) = begin(&api, &mut requests).await;
    assert_eq!((opening.id(), opening.body::<StartExec>().unwrap()), (conversation.id(), start()));
    let replies = opening.replies().unwrap();
    for number in 0..100 {
        soon(replies.send(&output(number))).await.unwrap();
        let part = InputPart::Data(Bytes::from(vec![b'x'; 1_000]));
        let input = ExecInput { session: conversation.id(), number, part };
        soon(conversation.send(&input)).await.unwrap();
    }
    for number in 0..100 {
        assert_eq!(received(&mut conversation).await.unwrap(), output(number));
        assert_eq!(next(&mut requests).await.body::<ExecInput>().unwrap().number, number);
    }
    assert_eq!((api.refused(), agent.refused()), (None, None), "NATS permits all of it");
}

#[tokio::test]
async fn an_agent_that_is_not_there_or_refuses_is_noticed() {
    let scene = Scene::new().await;
    let api = api(&scene).await;
    let mut conversation = soon(api.converse(SUBJECT, &start(), WITHIN)).await.unwrap();
    assert!(matches!(received(&mut conversation).await, Err(RequestError::NoResponders)));

    let (_agent, mut requests) = agent(&scene).await;
    let (mut conversation, opening) = begin(&api, &mut requests).await;
    let refusal = Refusal { kind: RefusalKind::Invalid, message: "no such task".into() };
    opening.refuse(refusal.clone()).await;
    match received(&mut conversation).await {
        Err(RequestError::Refused(refused)) => assert_eq!(refused, refusal),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_answers_only_where_its_requester_reads() {
    let scene = Scene::new().await;
    let (agent, mut requests) = agent(&scene).await;
    let client = scene.client().await;
    begin(&api(&scene).await, &mut requests).await;
    for reply in ["feed.changes", "inbox.api.token", "inbox.scheduler.node.x.y"] {
        client
            .publish_with_reply_and_headers(SUBJECT.to_string(), reply, HeaderMap::new(), Bytes::new())
            .await
            .unwrap();
        assert!(next(&mut requests).await.replies().is_none(), "{reply}");
    }
    drop(agent);
}

#[tokio::test]
async fn a_lost_connection_ends_a_conversation() {
    let scene = Scene::new().await;
    let (_agent, mut requests) = agent(&scene).await;
    let api = api(&scene).await;
    let (mut conversation, _opening) = begin(&api, &mut requests).await;
    scene.nats.kill9().await.unwrap();
    assert!(matches!(received(&mut conversation).await, Err(RequestError::Disconnected)));
}
