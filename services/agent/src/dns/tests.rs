//! The server on sockets of this machine, with a resolver that is a socket, too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use model::NodeId;
use model::service::{ServiceKey, ServiceRegistration};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::directory::{FoundServices, QueryResult, ServiceName, ServiceQuery};
use wire::node::WorkIndex;
use wire::services::ServicesDigest;

use super::forward::{read_message, write_message};
use super::message::tests::asking;
use super::*;
use crate::networks::settings::tests::bridge;
use crate::node::dns::{DnsArgs, Resolvers};
use crate::testing::{NOW, alloc_id};

/// How often a port is chosen, and how often a resolver is asked. A port that is free for UDP may be taken for TCP, and on a
/// machine that is busy a resolver may take too long.
const TRIES_MAX: u32 = 100;
/// How long a test waits for a response.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server. It ends with its tasks.
struct Running {
    address: SocketAddr,
    directory: Directory,
    _tasks: JoinSet<()>,
}

impl Running {
    fn start(resolvers: Resolvers) -> Self {
        let args = DnsArgs {
            dns_enabled: true,
            dns_address: "127.0.0.1:0".parse().unwrap(),
            dns_no_bridge: true,
            ..DnsArgs::default()
        };
        let settings = DnsSettings { resolvers, ..DnsSettings::new(args).unwrap().unwrap() };
        let mut bound = (0..TRIES_MAX).filter_map(|_| Dns::bind(settings.clone(), &bridge()).ok());
        let dns = bound.next().expect("a port is free");
        assert_eq!(dns.on_bridge, None);
        let (address, directory, mut tasks) =
            (dns.listeners[0].address, Directory::default(), JoinSet::new());
        dns.run(directory.clone(), Arc::default(), NodeId::from_bytes([9; 16]), &mut tasks);
        Self { address, directory, _tasks: tasks }
    }

    /// Enters a service with so many instances, as the servers would tell of it.
    fn know(&self, service: &str, instances: u8) {
        let names = ServiceQuery::Names { namespace: "default".into() };
        let query = ServiceQuery::Instances { namespace: "default".into(), name: service.into() };
        for query in [&names, &query] {
            drop(self.directory.watch(query.clone()).unwrap());
        }
        let instance = |number: u8| {
            let id = number.to_string().into();
            Arc::new(ServiceRegistration {
                key: ServiceKey { namespace: "default".into(), name: service.into(), id },
                node_id: NodeId::from_bytes([1; 16]),
                datacenter: "dc1".into(),
                job_id: "job".into(),
                alloc_id: alloc_id(number),
                tags: Vec::new(),
                address: format!("10.0.0.{number}").into(),
                port: 8_000,
                create_index: Default::default(),
                modify_index: Default::default(),
            })
        };
        let digest = ServicesDigest::default();
        let listed = vec![ServiceName { name: service.into(), tags: Vec::new() }];
        let results = vec![
            QueryResult { query: names, digest, instances: Vec::new(), names: listed, left_out: 0 },
            QueryResult {
                query,
                digest,
                instances: (0..instances).map(instance).collect(),
                names: Vec::new(),
                left_out: 0,
            },
        ];
        self.directory.answered(FoundServices { at: WorkIndex::default(), results }, NOW);
    }

    async fn ask_by_udp(&self, name: &str, kind: RecordType) -> Message {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(&asking(name, kind, None), self.address).await.unwrap();
        let mut buffer = [0; 2_048];
        let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
        Message::from_vec(&buffer[..length]).unwrap()
    }

    async fn ask_by_tcp(&self, name: &str, kind: RecordType) -> Message {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        write_message(&mut stream, &asking(name, kind, None)).await.unwrap();
        let reply = timeout(PATIENCE, read_message(&mut stream, 65_535)).await.unwrap().unwrap();
        Message::from_vec(&reply).unwrap()
    }
}

#[tokio::test]
async fn services_are_answered_and_long_answers_come_by_tcp() {
    let server = Running::start(Resolvers::Nobody);
    server.know("web", 3);
    let reply = server.ask_by_udp("web.service.drover.", RecordType::A).await;
    assert_eq!((reply.metadata.id, reply.answers.len()), (7, 3));
    server.know("many", 200);
    let cut = server.ask_by_udp("many.service.drover.", RecordType::SRV).await;
    assert!(cut.metadata.truncation && cut.answers.len() < 200);
    let whole = server.ask_by_tcp("many.service.drover.", RecordType::SRV).await;
    assert_eq!((whole.metadata.truncation, whole.answers.len()), (false, 200));
    let none = server.ask_by_udp("unheard-of.service.drover.", RecordType::A).await;
    assert_eq!(none.metadata.response_code, ResponseCode::NXDomain);
}

#[test]
fn a_server_on_all_addresses_is_on_the_bridge_too() {
    for (address, expected) in
        [("0.0.0.0:53", true), ("[::]:53", true), ("0.0.0.0:8600", false), ("127.0.0.1:53", false)]
    {
        assert_eq!(includes_bridge(address.parse().unwrap()), expected, "{address}");
    }
}

#[tokio::test]
async fn without_resolvers_other_names_are_refused() {
    let server = Running::start(Resolvers::Nobody);
    let reply = server.ask_by_udp("www.example.", RecordType::A).await;
    assert_eq!(reply.metadata.response_code, ResponseCode::Refused);
}

#[tokio::test]
async fn other_names_are_forwarded_and_forged_responses_are_dropped() {
    let resolver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let server = Running::start(Resolvers::Given(vec![resolver.local_addr().unwrap()]));
    let mut resolving: JoinSet<()> = JoinSet::new();
    resolving.spawn(async move {
        let mut buffer = [0; 2_048];
        loop {
            let (length, from) = resolver.recv_from(&mut buffer).await.unwrap();
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let mut reply = Message::response(question.metadata.id, question.metadata.op_code);
            reply.queries = question.queries;
            let mut forged = reply.clone();
            forged.metadata.id = reply.metadata.id.wrapping_add(1);
            forged.metadata.response_code = ResponseCode::Refused;
            reply.metadata.response_code = ResponseCode::NXDomain;
            for message in [forged, reply] {
                // Fails if the server does not wait any more.
                let _ = resolver.send_to(&message.to_vec().unwrap(), from).await;
            }
        }
    });
    let mut reply = server.ask_by_udp("wWw.example.", RecordType::A).await;
    for _ in 0..TRIES_MAX {
        // The resolver took too long.
        if reply.metadata.response_code != ResponseCode::ServFail {
            break;
        }
        reply = server.ask_by_udp("wWw.example.", RecordType::A).await;
    }
    assert_eq!((reply.metadata.id, reply.metadata.response_code), (7, ResponseCode::NXDomain));
}
