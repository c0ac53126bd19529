//! Tests with a Consul agent that only keeps what it is told.

use std::sync::{Arc, Mutex, MutexGuard};

use model::AllocId;
use model::job::{Service, ServiceProvider};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::node::consul::{ConsulArgs, Token};
use crate::services::address::Endpoint;
use crate::services::desired::Owner;
use crate::services::{Advertised, Registering, Services};
use crate::testing::{alloc_id, eventually};

const NODE: NodeId = NodeId::from_bytes([3; 16]);
const TOKEN: &str = "s3cret";

/// What the Consul agent has.
#[derive(Default)]
struct World {
    /// Services by id, as they were registered.
    services: BTreeMap<String, Value>,
    /// How many requests came.
    requests: usize,
    /// How many of them came without the token.
    without_token: usize,
    /// The name of a service that is refused.
    refused: &'static str,
    /// Whether every request fails.
    is_broken: bool,
}

/// A Consul agent. It ends when it is dropped.
struct Fake {
    address: String,
    world: Arc<Mutex<World>>,
    serving: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Fake {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let world: Arc<Mutex<World>> = Arc::default();
        let shared = Arc::clone(&world);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, world, serving }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// The names of its services, sorted.
    fn names(&self) -> Vec<String> {
        let world = self.world();
        let names = world.services.values().filter_map(|service| service["Name"].as_str());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    }

    /// A connection to it.
    fn consul(&self) -> Consul {
        let args = ConsulArgs {
            consul_address: self.address.clone(),
            consul_token: Token(TOKEN.to_owned()),
            ..ConsulArgs::default()
        };
        Consul::new(&ConsulSettings::new(args).unwrap().unwrap()).unwrap()
    }
}

/// Answers one request, and closes the connection.
async fn serve(mut stream: TcpStream, world: Arc<Mutex<World>>) {
    let mut received = Vec::new();
    let (head, body_start) = loop {
        let mut buffer = [0; 4_096];
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return };
        received.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            break (head.to_ascii_lowercase(), head.len() + 4);
        }
    };
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(other, _)| *other == name).map(|(_, value)| value.to_owned()).next()
    };
    let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
    while received.len() < body_start + length {
        let mut buffer = [0; 4_096];
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return };
        received.extend_from_slice(&buffer[..count]);
    }
    let body = received[body_start..].to_vec();
    let (status, answer) = {
        let mut world = world.lock().unwrap();
        world.requests += 1;
        world.without_token += usize::from(header("x-consul-token").as_deref() != Some(TOKEN));
        answer(&mut world, head.lines().next().unwrap_or_default(), &body)
    };
    let answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}", answer.len());
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// The status and the body of an answer. The line of the request is in small letters.
fn answer(world: &mut World, line: &str, body: &[u8]) -> (&'static str, String) {
    let target = line.split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    if world.is_broken {
        return ("500 Internal Server Error", "no leader".to_owned());
    }
    if path == "/v1/agent/self" {
        let about = json!({ "Config": { "Version": "1.20.1", "Datacenter": "east" } });
        return ("200 OK", about.to_string());
    }
    if path == "/v1/agent/services" {
        return ("200 OK", json!(world.services).to_string());
    }
    if path == "/v1/agent/service/register" {
        let service: Value = serde_json::from_slice(body).unwrap();
        if service["Name"] == world.refused {
            return ("400 Bad Request", "no such thing".to_owned());
        }
        world.services.insert(service["ID"].as_str().unwrap().to_owned(), service);
        return ("200 OK", String::new());
    }
    if let Some(id) = path.strip_prefix("/v1/agent/service/deregister/") {
        return match world.services.remove(id) {
            Some(_) => ("200 OK", String::new()),
            None => ("404 Not Found", "unknown service id".to_owned()),
        };
    }
    ("404 Not Found", String::new())
}

/// The services of a task, which are to be registered.
fn register(services: &Services, alloc: AllocId, names: &[&str]) -> Result<(), String> {
    let advertised: Vec<Advertised> = names
        .iter()
        .map(|name| Advertised {
            service: Service {
                name: (*name).into(),
                port_label: "http".into(),
                provider: Some(ServiceProvider::Consul),
                ..Service::default()
            },
            endpoint: Endpoint { address: "10.0.0.1".into(), port: 8_080 },
            checks: Vec::new(),
        })
        .collect();
    services.register(&Registering {
        alloc,
        owner: Owner::Task("server".into()),
        name: "server",
        is_canary: false,
        services: &advertised,
    })
}

#[tokio::test]
async fn services_come_and_go_with_their_tasks() {
    let fake = Fake::start().await;
    let services = Services { consul: Some(fake.consul()), ..Services::default() };
    let running = tokio::spawn(services.consul.clone().unwrap().run(NODE));
    register(&services, alloc_id(1), &["web", "api"]).unwrap();
    eventually("both are registered", || fake.names() == ["api", "web"]).await;
    register(&services, alloc_id(1), &["web"]).unwrap();
    eventually("one is withdrawn", || fake.names() == ["web"]).await;
    services.withdraw(alloc_id(1), Owner::Task("server".into())).await;
    eventually("all are withdrawn", || fake.names().is_empty()).await;
    assert_eq!(fake.world().without_token, 0);
    running.abort();
}

#[tokio::test]
async fn what_consul_has_lost_is_registered_again_and_what_is_left_over_is_removed() {
    let fake = Fake::start().await;
    let earlier = Services { consul: Some(fake.consul()), ..Services::default() };
    register(&earlier, alloc_id(1), &["left-over"]).unwrap();
    let owner = NODE.to_string();
    earlier.consul.as_ref().unwrap().synchronize(&owner).await.unwrap();
    assert_eq!(fake.names(), ["left-over"]);
    fake.world().services.insert("theirs".into(), json!({ "ID": "theirs", "Name": "theirs" }));
    let services = Services { consul: Some(fake.consul()), ..Services::default() };
    register(&services, alloc_id(2), &["web"]).unwrap();
    let consul = services.consul.clone().unwrap();
    consul.synchronize(&owner).await.unwrap();
    assert_eq!(fake.names(), ["theirs", "web"]);
    fake.world().services.clear();
    consul.synchronize(&owner).await.unwrap();
    assert_eq!(fake.names(), ["web"]);
}

#[tokio::test]
async fn nothing_is_removed_of_an_allocation_that_is_being_restored() {
    let fake = Fake::start().await;
    let earlier = Services { consul: Some(fake.consul()), ..Services::default() };
    register(&earlier, alloc_id(1), &["web"]).unwrap();
    let owner = NODE.to_string();
    earlier.consul.as_ref().unwrap().synchronize(&owner).await.unwrap();
    let services = Services { consul: Some(fake.consul()), ..Services::default() };
    let task = Owner::Task("server".into());
    let service = Service { provider: Some(ServiceProvider::Consul), ..Service::default() };
    services.expect(alloc_id(1), &task, &[service]);
    let consul = services.consul.clone().unwrap();
    consul.synchronize(&owner).await.unwrap();
    assert_eq!(fake.names(), ["web"]);
    services.ended(alloc_id(1), &task);
    consul.synchronize(&owner).await.unwrap();
    assert!(fake.names().is_empty(), "the task has ended meanwhile");
}

#[tokio::test]
async fn a_refused_service_does_not_stand_in_the_way_of_others() {
    let fake = Fake::start().await;
    fake.world().refused = "bad";
    let services = Services { consul: Some(fake.consul()), ..Services::default() };
    register(&services, alloc_id(1), &["bad", "web"]).unwrap();
    let consul = services.consul.clone().unwrap();
    let error = consul.synchronize(&NODE.to_string()).await.unwrap_err();
    assert_eq!(error.to_string(), "Consul answers 400 Bad Request: no such thing");
    assert_eq!(fake.names(), ["web"]);
    assert_eq!(consul.registry.desired().pending(), 1, "it is tried again");
    register(&services, alloc_id(2), &["other"]).unwrap();
    consul.synchronize(&NODE.to_string()).await.unwrap_err();
    assert_eq!(fake.names(), ["other", "web"]);
    assert!(consul.registry.desired().is_accepted(alloc_id(2)), "an end need not wait for the refused one");
}

#[tokio::test]
async fn consul_that_is_away_is_registered_with_later() {
    let fake = Fake::start().await;
    fake.world().is_broken = true;
    let services = Services { consul: Some(fake.consul()), ..Services::default() };
    register(&services, alloc_id(1), &["web"]).unwrap();
    let running = tokio::spawn(services.consul.clone().unwrap().run(NODE));
    eventually("it was tried", || fake.world().requests > 0).await;
    assert!(fake.names().is_empty());
    fake.world().is_broken = false;
    eventually("it is registered", || fake.names() == ["web"]).await;
    running.abort();
}

#[tokio::test]
async fn the_node_shows_its_consul() {
    let fake = Fake::start().await;
    let consul = fake.consul();
    let attributes = consul.attributes();
    let running = tokio::spawn(consul.fingerprint());
    eventually("Consul is found", || !attributes.borrow().is_empty()).await;
    assert_eq!(&*attributes.borrow()["consul.datacenter"], "east");
    running.abort();
}

#[test]
fn a_node_without_consul_refuses_its_services() {
    let error = register(&Services::default(), alloc_id(1), &["web"]).unwrap_err();
    assert!(error.starts_with("service \"web\" is to be registered in Consul"), "{error}");
}
