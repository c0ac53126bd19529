//! A client that finds a service by DNS keeps being served while an instance is killed, and while the job is updated.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tests::harness::{Cluster, free_address, jobs};
use tests::skips::skip;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::BINARY;

const SECOND: i64 = 1_000_000_000;
/// How often the client asks.
const PACE: Duration = Duration::from_millis(50);
/// How long the client waits for the name, and for the service. A machine that is busy may take that long.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most calls in a row that may fail. One instance of three is away at a time, and the client picks one at random, until
/// the check has noticed: so many failures in a row mean that DNS names instances that are away.
const FAILURES_MAX: u32 = 40;
/// A program of which the service is made.
const PERL: &str = "perl";
/// The name of the service.
const NAME: &str = "back.service.drover.";
/// The instances of the job.
const COUNT: usize = 3;

/// Serves its version and its process id by HTTP. Debian's essential packages have Perl.
const SERVER: &str = r#"exec perl -e '
    use IO::Socket::INET;
    $SIG{PIPE} = "IGNORE";
    my $server = IO::Socket::INET->new(
        LocalAddr => $ENV{NOMAD_IP_http}, LocalPort => $ENV{NOMAD_PORT_http}, Listen => 64, ReuseAddr => 1,
    ) or die "cannot listen: $!";
    while (my $client = $server->accept) {
        while (my $line = <$client>) { last if $line =~ /^\r?\n/ }
        print $client "HTTP/1.0 200 OK\r\n\r\n$ENV{VERSION} $$";
        close $client;
    }'"#;

/// The job with the service.
fn back(version: &str) -> Value {
    let mut job = jobs::service("back", SERVER);
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Count"] = json!(COUNT);
    group["Networks"] = json!([{ "DynamicPorts": [{ "Label": "http" }] }]);
    group["ShutdownDelay"] = json!(SECOND);
    group["RestartPolicy"] =
        json!({ "Attempts": 5, "Interval": 300 * SECOND, "Delay": SECOND / 10, "Mode": "delay" });
    group["Update"] = json!({
        "MaxParallel": 1,
        "HealthCheck": "checks",
        "MinHealthyTime": SECOND / 5,
        "HealthyDeadline": 120 * SECOND,
        "ProgressDeadline": 240 * SECOND,
    });
    group["Services"] = json!([{
        "Name": "back",
        "Provider": "nomad",
        "PortLabel": "http",
        "Checks": [{
            "Name": "answers",
            "Type": "http",
            "Path": "/",
            "Interval": SECOND,
            "Timeout": 30 * SECOND,
        }],
    }]);
    let task = &mut group["Tasks"][0];
    task["Env"] = json!({ "VERSION": version });
    task["Resources"] = json!({ "CPU": 1, "MemoryMB": 64 });
    job
}

/// Where the service is, in the order of the answer.
async fn resolve(dns: SocketAddr) -> Option<Vec<SocketAddr>> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.ok()?;
    socket.connect(dns).await.ok()?;
    let mut question = Message::new(rand::random(), MessageType::Query, OpCode::Query);
    question.queries.push(Query::query(Name::from_ascii(NAME).ok()?, RecordType::SRV));
    socket.send(&question.to_vec().ok()?).await.ok()?;
    let mut buffer = [0; 2_048];
    let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.ok()?.ok()?;
    let answer = Message::from_vec(buffer.get(..length)?).ok()?;
    let address = |record: &hickory_proto::rr::Record| {
        let RData::A(address) = &record.data else { return None };
        Some((record.name.to_ascii(), IpAddr::V4(address.0)))
    };
    let addresses: BTreeMap<String, IpAddr> = answer.additionals.iter().filter_map(address).collect();
    let found = answer.answers.iter().filter_map(|record| {
        let RData::SRV(service) = &record.data else { return None };
        Some(SocketAddr::new(*addresses.get(&service.target.to_ascii())?, service.port))
    });
    Some(found.collect())
}

/// The version and the process of an instance.
async fn call(instance: SocketAddr) -> Option<(String, i32)> {
    let called = async {
        let mut stream = TcpStream::connect(instance).await.ok()?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await.ok()?;
        let (_, body) = response.split_once("\r\n\r\n")?;
        let (version, process) = body.split_once(' ')?;
        Some((version.to_owned(), process.parse().ok()?))
    };
    timeout(PATIENCE, called).await.ok()?
}

/// All instances that DNS names, if there are as many as the job wants and each answers.
async fn all(dns: SocketAddr) -> Option<BTreeSet<(String, i32)>> {
    let instances = resolve(dns).await?;
    let mut answers = BTreeSet::new();
    for instance in instances {
        answers.insert(call(instance).await?);
    }
    (answers.len() == COUNT).then_some(answers)
}

/// How many of the instances that DNS names answer with this version.
async fn count_of(dns: SocketAddr, version: &str) -> usize {
    let mut count = 0;
    for instance in resolve(dns).await.unwrap_or_default() {
        count += usize::from(call(instance).await.is_some_and(|(found, _)| found == version));
    }
    count
}

/// Asks for the service and calls it, until it is stopped. Returns the most failures in a row, and how often it succeeded.
async fn keep_calling(dns: SocketAddr, stop: CancellationToken) -> (u32, u32) {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut most, mut failures, mut successes) = (0_u32, 0_u32, 0_u32);
    while !stop.is_cancelled() {
        pace.tick().await;
        let first = resolve(dns).await.and_then(|instances| instances.first().copied());
        let called = match first {
            Some(instance) => call(instance).await,
            None => None,
        };
        if called.is_some() {
            (failures, successes) = (0, successes + 1);
        } else {
            failures += 1;
            most = failures.max(most);
        }
    }
    (most, successes)
}

/// Whether the program of the service is on this machine.
fn has_perl() -> bool {
    Command::new(PERL)
        .args(["-MIO::Socket::INET", "-e", "1"])
        .output()
        .is_ok_and(|output| output.status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_by_dns_is_served_through_a_kill_and_an_update() {
    // A-20: a registration goes before its task is told to end, and an agent leaves out instances whose checks fail.
    if !has_perl() {
        let test = "a_client_that_asks_by_dns_is_served_through_a_kill_and_an_update";
        return skip(test, PERL, "there is no Perl with IO::Socket::INET");
    }
    let address = free_address();
    let dns: SocketAddr = address.parse().expect("the address is one");
    let environment = [
        ("DROVER_DNS", "true".to_owned()),
        ("DROVER_DNS_ADDRESS", address),
        ("DROVER_DNS_NO_BRIDGE", "true".to_owned()),
    ];
    let cluster = Cluster::start(BINARY, &environment).await;
    cluster.api.put("/v1/jobs", &back("one")).await;
    let before = cluster.wait_until("all instances answer", async |_| all(dns).await).await;
    let stop = CancellationToken::new();
    let client = tokio::spawn(keep_calling(dns, stop.clone()));

    let (_, killed) = before.first().expect("there are instances").clone();
    kill(Pid::from_raw(killed), Signal::SIGKILL).expect("the process can be killed");
    let is_new = |found: &BTreeSet<(String, i32)>| found.iter().all(|(_, process)| *process != killed);
    cluster
        .wait_until("the killed instance is back", async |_| all(dns).await.filter(|found| is_new(found)))
        .await;

    cluster.api.put("/v1/jobs", &back("two")).await;
    // One after the other, each with its own time.
    for count in 1..=COUNT {
        cluster
            .wait_until(&format!("{count} instances are updated"), async |_| {
                (count_of(dns, "two").await >= count).then_some(())
            })
            .await;
    }
    let is_updated = |found: &BTreeSet<(String, i32)>| found.iter().all(|(version, _)| version == "two");
    cluster
        .wait_until("all instances are updated", async |_| all(dns).await.filter(|found| is_updated(found)))
        .await;

    stop.cancel();
    let (failures, successes) = client.await.expect("the client does not panic");
    assert!(failures <= FAILURES_MAX, "{failures} failures in a row, {successes} successes");
    assert!(successes > 0);
}
