//! The route of the cluster's processes, which is Drover's own: who is there, what each does, and how it does.

use model::cluster::Singleton;
use model::{Epoch, Index, Timestamp};
use serde::Serialize;
use telemetry::metrics::catalogue::APPLIER;
use wire::metrics::PartHealth;

use super::Request;
use crate::Api;
use crate::cluster_metrics::{Member, MemberService, ServiceState};
use crate::http::{Error, Response};

/// Response with all processes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Cluster {
    /// Index of the last change set that the applier announced.
    head: Option<Index>,
    /// The server processes. Agents are nodes, and are listed as such.
    processes: Vec<Process>,
    /// The services without an active process.
    without_active: Vec<&'static str>,
    nodes: Nodes,
}

/// A process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Process {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    host: String,
    #[serde(rename = "PID")]
    pid: u32,
    version: String,
    /// By the clock of its host.
    start_time: Timestamp,
    /// `alive` or `silent`.
    status: &'static str,
    /// Milliseconds since its last message.
    heard_ago_ms: u64,
    services: Vec<Service>,
    /// Index of its replica.
    index: Option<Index>,
    /// How many change sets its replica lacked of those that it knew of.
    behind: Option<u64>,
    #[serde(rename = "NATS")]
    nats: Health,
    database: Health,
}

/// A service of a process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    name: String,
    /// `active`, `standby`, `running`, or `unknown` for a process that is silent.
    state: &'static str,
    /// Epoch of the lease of an active process.
    epoch: Option<Epoch>,
}

/// Whether something works, as a process sees it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Health {
    /// `ok`, `failing` or `unknown`.
    status: &'static str,
    message: String,
}

/// Number of nodes by status.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Nodes {
    ready: u32,
    down: u32,
    disconnected: u32,
    /// All nodes, whatever their status.
    total: usize,
}

/// Lists the processes.
pub(crate) fn read(api: &Api, _: &Request) -> Result<Response, Error> {
    let state = api.replica.snapshot();
    let head = api.contact.head();
    let newest_epoch = |service: &str| {
        let singleton = Singleton::ALL.iter().find(|singleton| singleton.as_str() == service);
        match singleton {
            Some(singleton) => state.lease(*singleton).map(|lease| lease.epoch),
            None => head.filter(|_| service == APPLIER).map(|head| head.epoch),
        }
    };
    let members = api.metrics.members(newest_epoch);
    let mut nodes = Nodes { total: state.node_count(), ..Nodes::default() };
    for page in state.node_pages() {
        nodes.ready = nodes.ready.saturating_add(page.ready.count_ones());
        nodes.down = nodes.down.saturating_add(page.down.count_ones());
        nodes.disconnected = nodes.disconnected.saturating_add(page.disconnected.count_ones());
    }
    Ok(Response::json(&Cluster {
        head: head.map(|head| head.index),
        without_active: without_active(&members),
        processes: members.into_iter().map(Process::from).collect(),
        nodes,
    }))
}

/// The singletons for which no process is the active one.
fn without_active(members: &[Member]) -> Vec<&'static str> {
    let singletons = [APPLIER].into_iter().chain(Singleton::ALL.iter().map(|singleton| singleton.as_str()));
    let is_active = |name: &str| {
        let mut services = members.iter().flat_map(|member| &member.services);
        services.any(|service| service.name == name && matches!(service.state, ServiceState::Active(_)))
    };
    singletons.filter(|name| !is_active(name)).collect()
}

impl From<Member> for Process {
    fn from(member: Member) -> Self {
        let Member { id, name, info, heard_ago, is_silent, services } = member;
        let behind = info.index.map(|index| info.head.map_or(0, |head| head.0.saturating_sub(index.0)));
        Self {
            id: id.to_string(),
            name: name.to_string(),
            host: info.host.to_string(),
            pid: info.pid,
            version: info.version.to_string(),
            start_time: info.started,
            status: if is_silent { "silent" } else { "alive" },
            heard_ago_ms: u64::try_from(heard_ago.as_millis()).unwrap_or(u64::MAX),
            services: services.into_iter().map(Service::from).collect(),
            index: info.index,
            behind,
            nats: Health::from(&info.nats),
            database: Health::from(&info.database),
        }
    }
}

impl From<MemberService> for Service {
    fn from(service: MemberService) -> Self {
        let (state, epoch) = match service.state {
            ServiceState::Active(epoch) => ("active", Some(epoch)),
            ServiceState::Standby => ("standby", None),
            ServiceState::Running => ("running", None),
            ServiceState::Unknown => ("unknown", None),
        };
        Self { name: service.name.to_string(), state, epoch }
    }
}

impl From<&PartHealth> for Health {
    fn from(health: &PartHealth) -> Self {
        let status = match (&health.problem, health.is_known) {
            (Some(_), _) => "failing",
            (None, true) => "ok",
            (None, false) => "unknown",
        };
        Self { status, message: health.problem.as_deref().unwrap_or_default().to_owned() }
    }
}
