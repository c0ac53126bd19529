//! Tests of the WebSockets of commands in tasks, with a fake agent.

use std::sync::Arc;
use std::time::Duration;

use actix_http::ws::{Codec, Frame, Message, hash_key};
use actix_web::web::{Bytes, BytesMut};
use bus::{Bus, Request};
use model::alloc::ClientStatus;
use model::change::Change;
use model::job::{Job, JobSpec, Task, TaskGroup};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::codec::{Decoder as _, Encoder as _};
use wire::exec::{ExecFailure, ExecInput, ExecOutput, InputPart, OutputPart, StartExec};
use wire::files::LogStream;
use wire::flow::WINDOW_BYTES;
use wire::{Refusal, RefusalKind, Subject};

use super::files::{ALLOC, NODE, cluster};
use super::harness::{Harness, Response};

/// A test that hangs fails after this time.
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The client's end of a WebSocket.
struct Client {
    connection: reqwest::Upgraded,
    codec: Codec,
    received: BytesMut,
}

fn upgraded(harness: &Harness, path: &str) -> reqwest::RequestBuilder {
    harness
        .builder("GET", path)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", KEY)
}

impl Client {
    async fn open(harness: &Harness, path: &str) -> Self {
        let response = upgraded(harness, path).send().await.unwrap();
        assert_eq!(response.status(), 101);
        let accept = response.headers()["sec-websocket-accept"].as_bytes();
        assert_eq!(accept, hash_key(KEY.as_bytes()));
        let codec = Codec::new().client_mode().max_size(1 << 20);
        Self { connection: response.upgrade().await.unwrap(), codec, received: BytesMut::new() }
    }

    async fn send(&mut self, message: Message) {
        let mut bytes = BytesMut::new();
        self.codec.encode(message, &mut bytes).unwrap();
        self.connection.write_all(&bytes).await.unwrap();
    }

    async fn say(&mut self, message: &Value) {
        self.send(Message::Text(message.to_string().into())).await;
    }

    /// The next frame that is no ping.
    async fn frame(&mut self) -> Frame {
        let next = async {
            loop {
                match self.codec.decode(&mut self.received).unwrap() {
                    Some(Frame::Ping(_)) => {}
                    Some(frame) => return frame,
                    None => assert!(self.connection.read_buf(&mut self.received).await.unwrap() > 0),
                }
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("a frame arrives in time")
    }

    async fn message(&mut self) -> Value {
        let frame = self.frame().await;
        let Frame::Text(text) = frame else { panic!("{frame:?}") };
        serde_json::from_slice(&text).unwrap()
    }

    /// The code and text of the close frame, which is the next one.
    async fn closed(&mut self) -> (u16, String) {
        let frame = self.frame().await;
        let Frame::Close(Some(reason)) = frame else { panic!("{frame:?}") };
        (reason.code.into(), reason.description.unwrap_or_default())
    }
}

/// A fake agent, which does what the task of a command is called: `refuse` refuses, `fail` fails, `gap` leaves out a
/// message, `flood` sends as much as it may and then exits. Any other repeats its input until that ends, and then exits
/// with the length of the input.
async fn serve(bus: Bus) {
    let mut requests = bus.serve(Subject::AgentExec(NODE).to_string()).await.unwrap();
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            // What else comes belongs to a session that is over.
            let Ok(start) = request.body::<StartExec>() else { continue };
            match &*start.task {
                "refuse" => {
                    let message = "unknown task name \"refuse\"".into();
                    request.refuse(Refusal { kind: RefusalKind::Invalid, message }).await;
                }
                "fail" => {
                    let failure =
                        ExecFailure { kind: RefusalKind::NotReady, message: "failed to start".into() };
                    send(&request, &[OutputPart::Started, OutputPart::Failed(failure)], 0).await;
                }
                "gap" => {
                    send(&request, &[OutputPart::Started], 0).await;
                    send(&request, &[OutputPart::Alive], 2).await;
                }
                "flood" => {
                    let chunk = Bytes::from(vec![b'x'; 16 << 10]);
                    let count = usize::try_from(WINDOW_BYTES).unwrap() / (17 << 10);
                    let data = OutputPart::Data(LogStream::Stdout, chunk);
                    let parts = [vec![OutputPart::Started], vec![data; count], vec![OutputPart::Exited(0)]];
                    send(&request, &parts.concat(), 0).await;
                }
                _ => echo(&mut requests, &request).await,
            }
        }
    });
}

async fn send(request: &Request, parts: &[OutputPart], first: u64) {
    let replies = request.replies().unwrap();
    for (number, part) in (first..).zip(parts) {
        replies.send(&ExecOutput { number, part: part.clone() }).await.unwrap();
    }
}

async fn echo(requests: &mut bus::Requests, request: &Request) {
    send(request, &[OutputPart::Started], 0).await;
    let (mut next, mut length) = (1, 0);
    while let Some(message) = requests.next().await {
        let input: ExecInput = message.body().unwrap();
        assert_eq!(input.session, request.id());
        let parts = match input.part {
            InputPart::Data(data) => {
                length += i64::try_from(data.len()).unwrap();
                vec![OutputPart::Data(LogStream::Stdout, data)]
            }
            InputPart::Resize(size) => {
                let text = format!("{} {}", size.height, size.width);
                vec![OutputPart::Data(LogStream::Stderr, text.into_bytes().into())]
            }
            InputPart::Closed => vec![
                OutputPart::Closed(LogStream::Stdout),
                OutputPart::Closed(LogStream::Stderr),
                OutputPart::Exited(length),
            ],
            InputPart::End => return,
            InputPart::Grant(_) | InputPart::Alive => vec![],
        };
        send(request, &parts, next).await;
        next += parts.len() as u64;
        if matches!(parts.last(), Some(OutputPart::Exited(_))) {
            return;
        }
    }
}

async fn harness() -> Harness {
    let harness = Harness::with(cluster()).await;
    serve(harness.bus.clone()).await;
    harness
}

fn path(task: &str) -> String {
    format!("/v1/client/allocation/{ALLOC}/exec?task={task}&command=%5B%22cat%22%5D&tty=false")
}

fn data(stream: &str, base64: &str) -> Value {
    json!({ stream: { "data": base64 } })
}

#[actix_web::test]
async fn a_command_gets_input_and_the_user_its_output_and_exit_code() {
    let harness = harness().await;
    let mut client = Client::open(&harness, &path("t")).await;
    client.say(&json!({})).await;
    client.say(&json!({ "stdin": { "data": "bHMK" } })).await;
    assert_eq!(client.message().await, data("stdout", "bHMK"));
    client.say(&json!({ "tty_size": { "height": 24, "width": 80 } })).await;
    assert_eq!(client.message().await, data("stderr", "MjQgODA="));
    client.say(&json!({ "stdin": { "close": true } })).await;
    assert_eq!(client.message().await, json!({ "stdout": { "close": true } }));
    assert_eq!(client.message().await, json!({ "stderr": { "close": true } }));
    assert_eq!(client.message().await, json!({ "exited": true, "result": { "exit_code": 3 } }));
    assert_eq!(client.closed().await, (1000, String::new()));
}

#[actix_web::test]
async fn what_goes_wrong_is_told_in_the_close_frame() {
    let harness = harness().await;
    let unknown =
        "/v1/client/allocation/00000000-0000-4000-8000-000000000000/exec?task=t&command=%5B%22a%22%5D";
    let no_task = format!("/v1/client/allocation/{ALLOC}/exec?command=%5B%22a%22%5D");
    let no_command = format!("/v1/client/allocation/{ALLOC}/exec?task=t&command=%5B%5D");
    for (path, code, text) in [
        (path("refuse"), 1008, "unknown task name \"refuse\""),
        (path("fail"), 1011, "failed to start"),
        (path("gap"), 1011, "a message of the session was lost (expected number 1, received 2)"),
        (no_task, 1008, "must provide task name"),
        (no_command, 1008, "command is not present"),
        (unknown.to_owned(), 1008, "Unknown allocation \"00000000-0000-4000-8000-000000000000\""),
        ("/v1/job/none/action?action=a&task=t&group=g".to_owned(), 1008, "Unknown job \"none\""),
        ("/v1/job/fs/action?task=t".to_owned(), 1008, "must provide action name"),
        ("/v1/job/fs/action?action=a".to_owned(), 1008, "must provide task name"),
    ] {
        let mut client = Client::open(&harness, &path).await;
        assert_eq!(client.closed().await, (code, text.to_owned()), "{path}");
    }
    let mut client = Client::open(&harness, &path("t")).await;
    client.say(&json!({ "stdout": {} })).await;
    let (code, text) = client.closed().await;
    assert!(code == 1008 && text.starts_with("unexpected message type"), "{code} {text}");
}

#[actix_web::test]
async fn a_handshake_is_expected_if_it_is_announced() {
    let harness = harness().await;
    let path = format!("{}&ws_handshake=true", path("t"));
    let mut client = Client::open(&harness, &path).await;
    client.say(&json!({ "version": 1, "auth_token": "" })).await;
    client.say(&json!({ "stdin": { "close": true } })).await;
    for _ in 0..2 {
        client.message().await;
    }
    assert_eq!(client.message().await, json!({ "exited": true, "result": {} }));
    let mut client = Client::open(&harness, &path).await;
    client.say(&json!({ "version": 2, "auth_token": "" })).await;
    assert_eq!(client.closed().await.0, 1008);
}

#[actix_web::test]
async fn requests_without_a_whole_handshake_are_answered_as_in_the_rules() {
    let harness = harness().await;
    let base = format!("/v1/client/allocation/{ALLOC}/exec?task=t");
    for (query, text) in [
        ("", "failed to marshal command into json: unexpected end of JSON input"),
        (
            "&command=%5B%22a%22%5D&tty=x",
            "tty value is not a boolean: strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
        ("&command=%5B%22a%22%5D", "websocket connection not found in context"),
    ] {
        assert_eq!(harness.get(&format!("{base}{query}")).await.error(), (500, text));
    }
    assert_eq!(harness.put("/v1/job/x/action", "").await.error().0, 500);
    let wrong = upgraded(&harness, &path("t")).header("Sec-WebSocket-Version", "8");
    let response = Response::new(wrong).await;
    assert_eq!((response.status.as_u16(), response.header("x-content-type-options")), (400, "nosniff"));
    assert!(response.text.starts_with("Bad Request\nfailed to upgrade connection: websocket: "));
    let foreign = upgraded(&harness, &path("t")).header("Origin", "https://evil.example");
    assert_eq!(Response::new(foreign).await.status, 403, "a page of another site opens no WebSocket");
}

#[actix_web::test]
async fn all_output_arrives_before_the_end() {
    let harness = harness().await;
    let mut client = Client::open(&harness, &path("flood")).await;
    let mut count = 0;
    loop {
        let message = client.message().await;
        if message["exited"] == true {
            break;
        }
        assert!(message["stdout"]["data"].as_str().unwrap().starts_with("eHh4"));
        count += 1;
    }
    assert_eq!(count, usize::try_from(WINDOW_BYTES).unwrap() / (17 << 10));
    assert_eq!(client.closed().await.0, 1000);
}

/// The cluster whose job has an action.
fn with_action() -> Vec<Change> {
    let action = api_types::Action {
        name: Some("greet".to_owned()),
        command: Some("/bin/echo".to_owned()),
        args: Some(vec!["hello".to_owned()]),
    };
    let task = Task { name: "t".into(), actions: vec![action], ..Task::default() };
    let group = TaskGroup { name: "g".into(), tasks: vec![task], ..TaskGroup::default() };
    let mut changes = cluster();
    let Change::Job(job) = &changes[0] else { panic!("the job comes first") };
    let spec = JobSpec { task_groups: vec![group].into(), ..JobSpec::clone(&job.spec) };
    let job = Job { spec: Arc::new(spec), ..Job::clone(job) };
    changes[0] = Change::Job(Arc::new(job));
    changes
}

#[actix_web::test]
async fn an_action_runs_the_command_that_its_job_names() {
    let harness = Harness::with(with_action()).await;
    let mut requests = harness.bus.serve(Subject::AgentExec(NODE).to_string()).await.unwrap();
    harness.bus.flush().await.unwrap();
    let actions = harness.get("/v1/job/fs/actions").await.json();
    assert_eq!((&actions[0]["Name"], &actions[0]["Args"]), (&json!("greet"), &json!(["hello"])));
    assert_eq!(
        harness.get("/v1/job/none/actions").await.error(),
        (500, "Unknown job \"none\""),
        "as in the rules"
    );
    let path = format!("/v1/job/fs/action?action=greet&task=t&allocID={ALLOC}&tty=true");
    let _client = Client::open(&harness, &path).await;
    let request = tokio::time::timeout(PATIENCE, requests.next()).await.unwrap().unwrap();
    let start: StartExec = request.body().unwrap();
    assert_eq!((start.alloc, &*start.task, start.tty), (ALLOC, "t", true));
    assert_eq!(start.command, ["/bin/echo", "hello"]);
    let status = harness.replica.snapshot().alloc(ALLOC).unwrap().client_status();
    assert_eq!(status, ClientStatus::Pending);
    for (query, text) in [
        ("action=nope&task=t&allocID=ALLOC", "action nope not found in task t"),
        ("action=greet&task=u&allocID=ALLOC", "task u not found in allocation ALLOC"),
        ("action=greet&task=t&group=g", "job fs has no running allocation in group g"),
        ("action=greet&task=t", "must provide an allocation ID or a task group"),
    ] {
        let filled = |text: &str| text.replace("ALLOC", &ALLOC.to_string());
        let mut client = Client::open(&harness, &filled(&format!("/v1/job/fs/action?{query}"))).await;
        assert_eq!(client.closed().await, (1008, filled(text)), "{query}");
    }
}
