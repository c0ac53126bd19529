//! What a check of a service is: what its runs do, when they are, and what their results mean. The results of a
//! check that Consul runs come from there. Pure.

use std::net::SocketAddr;
use std::path::PathBuf;

use model::job::OnUpdate;
use model::{Nanos, Text};

/// What the result of a check means for the health of its allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It has to pass.
    Healthiness,
    /// It has to have run (`on_update = "ignore"`).
    Readiness,
}

impl Mode {
    /// The word of the API (http-api §18).
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Healthiness => "healthiness",
            Self::Readiness => "readiness",
        }
    }
}

/// When failures of a check restart a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestartRule {
    /// The number of intervals, at least 1. A check that is unhealthy for one interval less restarts the task.
    pub(crate) limit: u32,
    /// The time after a start in which nothing counts.
    pub(crate) grace: Nanos,
}

/// A check of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Its id, which changes with what it does.
    pub(crate) id: Text,
    /// The name of the allocation, which the API calls the group.
    pub(crate) group: Text,
    /// The task of its service; empty for a service of the group.
    pub(crate) task: Text,
    /// The name of its service.
    pub(crate) service: Text,
    /// Its name.
    pub(crate) name: Text,
    /// What its result means.
    pub(crate) mode: Mode,
    /// The time from the end of a run to the next one.
    pub(crate) interval: Nanos,
    /// How long a run may take.
    pub(crate) timeout: Nanos,
    /// When it restarts the task, if it ever does.
    pub(crate) restart: Option<RestartRule>,
    /// Who runs it.
    pub(crate) runner: Runner,
}

/// Who runs a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The agent: what a run does, or why it fails.
    Agent(Result<Probe, Text>),
    /// Consul, with which the service is registered.
    Consul(InConsul),
    /// The agent runs a program in a task, and tells Consul what it says.
    Script(Script),
}

/// A check that runs a program in a task. Its service is registered with Consul.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// The task that it runs in.
    pub(crate) task: Text,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// The id of the check in Consul.
    pub(crate) check_id: Text,
    /// The rest of what Consul has of it, and what its statuses mean.
    pub(crate) in_consul: InConsul,
}

/// A check that Consul has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InConsul {
    /// The id of the service in Consul.
    pub(crate) service_id: Text,
    /// The name of the check in Consul.
    pub(crate) name: Text,
    /// Which statuses are good enough for a deployment.
    pub(crate) on_update: Option<OnUpdate>,
    /// Whether warnings restart nothing.
    pub(crate) ignores_warnings: bool,
}

/// What a run of a check does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Where it connects to.
    pub(crate) address: SocketAddr,
    /// The network namespace that it connects from, as a file; `None` is the node's.
    pub(crate) namespace: Option<PathBuf>,
    /// The HTTP request that it sends; `None` only connects.
    pub(crate) request: Option<HttpRequest>,
}

/// The HTTP request of a probe, as the job describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    /// Whether and how TLS is used.
    pub(crate) tls: Option<Tls>,
    /// The method.
    pub(crate) method: Text,
    /// The path with the query.
    pub(crate) target: Text,
    /// The headers.
    pub(crate) headers: Vec<(Text, Text)>,
    /// The body.
    pub(crate) body: Text,
}

/// TLS settings of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    /// Whether the server's certificate is verified.
    pub(crate) verify: bool,
    /// The name that the certificate must be for; empty is the address.
    pub(crate) server_name: Text,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A check with this id that connects to an address every ten seconds.
    pub(crate) fn tcp(id: &str, address: SocketAddr) -> Check {
        Check {
            id: id.into(),
            group: "site.app[0]".into(),
            task: Text::default(),
            service: "web".into(),
            name: "alive".into(),
            mode: Mode::Healthiness,
            interval: Nanos::from_secs(10),
            timeout: Nanos::from_secs(2),
            restart: None,
            runner: Runner::Agent(Ok(Probe { address, namespace: None, request: None })),
        }
    }
}
