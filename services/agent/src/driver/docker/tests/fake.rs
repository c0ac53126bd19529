//! A container engine that runs nothing: it answers on a Unix socket as an engine does, and tests decide what its containers
//! write and when they end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// A container.
#[derive(Debug, Clone, Default)]
pub(super) struct FakeContainer {
    pub(super) name: String,
    pub(super) body: Value,
    pub(super) status: String,
    pub(super) exit_code: i64,
    pub(super) oom_killed: bool,
    /// Time in nanoseconds, stream, and text.
    pub(super) output: Vec<(i64, u8, String)>,
}

/// What the engine has.
#[derive(Debug, Default)]
pub(super) struct World {
    /// Ids of images by name.
    pub(super) images: BTreeMap<String, String>,
    /// Containers by id.
    pub(super) containers: BTreeMap<String, FakeContainer>,
    /// Requests, without those that only ask.
    pub(super) requests: Vec<String>,
    /// Whether pulls wait.
    pub(super) pulls_wait: bool,
    /// Why pulls fail.
    pub(super) pull_error: Option<String>,
    created: usize,
}

/// The engine. It ends when it is dropped.
pub(super) struct FakeEngine {
    dir: tempfile::TempDir,
    shared: Shared,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    world: Arc<Mutex<World>>,
    changed: Arc<watch::Sender<u64>>,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let outcome = change(&mut self.world());
        self.changed.send_modify(|version| *version += 1);
        outcome
    }

    /// Waits until there is an answer.
    async fn until<T>(&self, mut answer: impl FnMut(&mut World) -> Option<T>) -> T {
        let mut changes = self.changed.subscribe();
        loop {
            if let Some(found) = answer(&mut self.world()) {
                return found;
            }
            changes.changed().await.unwrap();
        }
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeEngine {
    /// Starts an engine with the image `web:1`.
    pub(super) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("engine.sock")).unwrap();
        let world = World { images: [("web:1".into(), "sha256:web".into())].into(), ..World::default() };
        let shared = Shared { world: Arc::new(Mutex::new(world)), changed: Arc::new(watch::Sender::new(0)) };
        let serving = tokio::spawn(serve(listener, shared.clone()));
        Self { dir, shared, serving }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.path().join("engine.sock")
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut World)) {
        self.shared.change(change);
    }

    /// The only container.
    pub(super) fn container(&self) -> (String, FakeContainer) {
        let world = self.world();
        assert_eq!(world.containers.len(), 1, "{:?}", world.containers.keys());
        let (id, container) = world.containers.first_key_value().unwrap();
        (id.clone(), container.clone())
    }

    /// The only container writes to a stream.
    pub(super) fn write(&self, nanos: i64, stream: u8, text: &str) {
        self.shared.change(|world| {
            let mut container = world.containers.first_entry().unwrap();
            container.get_mut().output.push((nanos, stream, text.to_owned()));
        });
    }

    /// The only container ends.
    pub(super) fn end(&self, exit_code: i64, oom_killed: bool) {
        self.shared.change(|world| {
            let mut container = world.containers.first_entry().unwrap();
            let container = container.get_mut();
            container.status = "exited".into();
            (container.exit_code, container.oom_killed) = (exit_code, oom_killed);
        });
    }
}

async fn serve(listener: UnixListener, shared: Shared) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer(stream, shared.clone()));
    }
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    body: Value,
}

async fn read(stream: &mut UnixStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    while bytes.len() < end + length.unwrap_or(0) {
        stream.read_buf(&mut bytes).await.ok()?;
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Some(Request {
        method,
        path: decoded(path),
        query: pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
        body: serde_json::from_slice(&bytes[end..]).unwrap_or_default(),
    })
}

async fn answer(mut stream: UnixStream, shared: Shared) {
    let Some(request) = read(&mut stream).await else { return };
    if request.method != "GET" {
        shared.world().requests.push(format!("{} {}", request.method, request.path));
    }
    let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let (status, body) = match (request.method.as_str(), parts.as_slice()) {
        ("GET", ["version"]) => (200, json!({ "Version": "99.0", "Components": [{ "Name": "Engine" }] })),
        ("GET", ["info"]) => (200, json!({ "OSType": "linux", "NCPU": 4, "Runtimes": { "runc": {} } })),
        ("GET", ["networks", "bridge"]) => {
            (200, json!({ "IPAM": { "Config": [{ "Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1" }] } }))
        }
        ("POST", ["images", "create"]) => return pull(&mut stream, &request, &shared).await,
        ("GET", ["images", name @ .., "json"]) => match shared.world().images.get(&name.join("/")) {
            Some(id) => (200, json!({ "Id": id })),
            None => (404, json!({ "message": "No such image" })),
        },
        ("DELETE", ["images", name @ ..]) => {
            let id = name.join("/");
            shared.change(|world| world.images.retain(|_, found| *found != id));
            (200, json!([]))
        }
        ("POST", ["containers", "create"]) => create(&request, &shared),
        ("GET", ["containers", "json"]) => (200, list(&shared)),
        ("GET", ["containers", id, "logs"]) => return logs(&mut stream, id, &request, &shared).await,
        ("POST", ["containers", id, "wait"]) => {
            let ended = |world: &mut World| {
                world.containers.get(*id).is_none_or(|found| found.status == "exited").then_some(())
            };
            shared.until(ended).await;
            (200, json!({ "StatusCode": 0 }))
        }
        ("GET", ["containers", _, "stats"]) => (
            200,
            json!({ "cpu_stats": { "cpu_usage": { "total_usage": 5 } }, "memory_stats": { "usage": 7 } }),
        ),
        ("GET", ["containers", id, "json"]) => inspect(id, &shared),
        ("POST", ["containers", id, "start"]) => change_status(id, &shared, "running", 0),
        ("POST", ["containers", id, "stop"]) => change_status(id, &shared, "exited", 143),
        ("POST", ["containers", id, "kill"]) => {
            if request.query["signal"] == "SIGTERM" {
                change_status(id, &shared, "exited", 143)
            } else {
                (204, Value::Null)
            }
        }
        ("DELETE", ["containers", id]) => {
            let found = shared.change(|world| world.containers.remove(*id));
            if found.is_some() {
                (204, Value::Null)
            } else {
                (404, json!({ "message": "No such container" }))
            }
        }
        ("POST", ["containers", _, "exec"]) => (201, json!({ "Id": "e1" })),
        ("POST", ["exec", "e1", "start"]) => return echo(&mut stream).await,
        ("GET", ["exec", "e1", "json"]) => (200, json!({ "Running": false, "ExitCode": 7, "Pid": 0 })),
        (method, _) => (404, json!({ "message": format!("unexpected {method} {}", request.path) })),
    };
    send(&mut stream, status, body).await;
}

async fn send(stream: &mut UnixStream, status: u16, body: Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // Fails if the client has gone.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

async fn pull(stream: &mut UnixStream, request: &Request, shared: &Shared) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"status\":\"Pulling\"}\n").await;
    let error = shared.until(|world| (!world.pulls_wait).then(|| world.pull_error.clone())).await;
    let line = match error {
        Some(error) => json!({ "error": error }),
        None => {
            let name = format!("{}:{}", request.query["fromImage"], request.query["tag"]);
            shared.change(|world| world.images.insert(name.clone(), format!("sha256:{name}")));
            json!({ "status": "Pull complete", "id": "a" })
        }
    };
    let _ = stream.write_all(format!("{line}\n").as_bytes()).await;
}

fn create(request: &Request, shared: &Shared) -> (u16, Value) {
    let name = request.query["name"].clone();
    shared.change(|world| {
        if world.containers.values().any(|found| found.name == name) {
            return (409, json!({ "message": "Conflict. The container name is already in use" }));
        }
        world.created += 1;
        let id = format!("c{}", world.created);
        let container = FakeContainer {
            name,
            body: request.body.clone(),
            status: "created".into(),
            ..FakeContainer::default()
        };
        world.containers.insert(id.clone(), container);
        (201, json!({ "Id": id }))
    })
}

fn change_status(id: &str, shared: &Shared, status: &str, exit_code: i64) -> (u16, Value) {
    shared.change(|world| match world.containers.get_mut(id) {
        Some(container) if container.status == status => (304, Value::Null),
        Some(container) => {
            (container.status, container.exit_code) = (status.to_owned(), exit_code);
            (204, Value::Null)
        }
        None => (404, json!({ "message": "No such container" })),
    })
}

fn inspect(id: &str, shared: &Shared) -> (u16, Value) {
    let world = shared.world();
    let found = world.containers.iter().find(|(other, container)| *other == id || container.name == id);
    let Some((id, container)) = found else { return (404, json!({ "message": "No such container" })) };
    let state = json!({
        "Status": container.status, "Running": container.status == "running",
        "OOMKilled": container.oom_killed, "ExitCode": container.exit_code, "Error": "",
    });
    let networks = json!({ "bridge": { "IPAddress": "172.17.0.2", "GlobalIPv6Address": "" } });
    let labels = &container.body["Labels"];
    let settings = json!({ "Networks": networks });
    (200, json!({ "Id": id, "State": state, "Config": { "Labels": labels }, "NetworkSettings": settings }))
}

fn list(shared: &Shared) -> Value {
    let world = shared.world();
    let all = world.containers.iter().map(|(id, container)| {
        json!({ "Id": id, "Created": 100, "Names": [container.name], "Labels": container.body["Labels"] })
    });
    all.collect()
}

/// Sends the output from a time on, and follows it until the container ends.
async fn logs(stream: &mut UnixStream, id: &str, request: &Request, shared: &Shared) {
    let since = &request.query["since"];
    let (secs, nanos) = since.split_once('.').unwrap();
    let since = secs.parse::<i64>().unwrap() * NANOS_PER_SEC + nanos.parse::<i64>().unwrap();
    if stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await.is_err() {
        return;
    }
    let mut sent = 0;
    loop {
        let next = |world: &mut World| {
            let container = world.containers.get(id)?;
            match container.output.get(sent) {
                Some(entry) => Some(Some(entry.clone())),
                None => (container.status == "exited").then_some(None),
            }
        };
        let Some((nanos, kind, text)) = shared.until(next).await else { return };
        sent += 1;
        if nanos < since {
            continue;
        }
        let time = format!("1970-01-01T00:00:{:02}.{:09}Z", nanos / NANOS_PER_SEC, nanos % NANOS_PER_SEC);
        let entry = format!("{time} {text}");
        let length = u32::try_from(entry.len()).unwrap().to_be_bytes();
        let frame = [&[kind, 0, 0, 0][..], &length[..], entry.as_bytes()].concat();
        if stream.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// A command that repeats its input, and says when it has ended.
async fn echo(stream: &mut UnixStream) {
    let head = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut input = Vec::new();
    stream.read_to_end(&mut input).await.unwrap();
    for (kind, text) in [(1, input.as_slice()), (2, b"bye")] {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        stream.write_all(&[&[kind, 0, 0, 0][..], &length[..], text].concat()).await.unwrap();
    }
}
