//! Requests to agents: files, logs, resource usage and task commands of allocations, and resource usage of nodes
//! (`docs/architecture/agents.md`).
//!
//! The next piece of a file is requested only after the client has taken the previous one, so nothing accumulates. Refusals
//! of the agent become HTTP errors here. The agent decides which files may be read.

mod listing;
mod reader;

use std::time::Duration;

use bus::{Bus, Conversation, RequestError};
use model::text::quoted;
use model::{AllocId, NodeId};
use state::{AllocRef, State};
use wire::exec::StartExec;
use wire::files::PROHIBITED;
use wire::tasks::TasksDone;
use wire::{Refusal, RefusalKind, Subject, Wire};

use crate::Api;
use crate::http::{Error, Query, parse_id};

pub(crate) use self::reader::{Source, StreamReader};

/// Timeout of a request to an agent, beyond the time that it is asked to wait.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a task command. It is long because tasks get their own time to stop.
const TASK_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a request about host volumes. It is long because plugins get their own time.
const VOLUME_TIMEOUT: Duration = Duration::from_secs(65);
/// Time in which an agent must have started a command in a task.
pub(crate) const EXEC_START_TIMEOUT: Duration = Duration::from_secs(15);
/// Error text for a path that leaves the allocation's directory.
pub(crate) const ESCAPES: &str = "Path escapes the alloc directory";

/// The agent that runs an allocation.
#[derive(Debug, Clone)]
pub(crate) struct AllocAgent {
    bus: Bus,
    node: NodeId,
    alloc: AllocId,
}

impl AllocAgent {
    /// Finds the agent of an allocation.
    ///
    /// # Errors
    /// If the id is malformed or the allocation does not exist.
    pub(crate) async fn find(api: &Api, alloc: &str) -> Result<Self, Error> {
        if alloc.is_empty() {
            return Err(Error::bad_request("must provide a valid alloc id"));
        }
        let id: AllocId = parse_id("alloc lookup failed: ", alloc)?;
        let node_of = |state: &State| state.alloc(id).map(|alloc| alloc.node_id());
        // An allocation never changes its node, so a known node is right. An allocation that the replica does not know may
        // be new.
        let node = match node_of(&api.replica.snapshot()) {
            Some(node) => node,
            None => node_of(&*api.fresh_snapshot(false).await?)
                .ok_or_else(|| Error::not_found(format!("Unknown allocation {}", quoted(alloc))))?,
        };
        Ok(Self { bus: api.bus.clone(), node, alloc: id })
    }

    /// The agent of an allocation that was found in a state.
    pub(crate) fn of(bus: &Bus, alloc: AllocRef<'_>) -> Self {
        Self { bus: bus.clone(), node: alloc.node_id(), alloc: alloc.id() }
    }

    /// Opens a session with the agent for a command in a task.
    ///
    /// # Errors
    /// If the agent cannot be reached.
    pub(crate) async fn start_exec(&self, start: &StartExec) -> Result<Conversation, Error> {
        let opened = self.bus.converse(Subject::AgentExec(self.node), start, EXEC_START_TIMEOUT).await;
        opened.map_err(|error| {
            let text = telemetry::chain(&error);
            let is_too_large = matches!(error, bus::Error::TooLarge { .. });
            if is_too_large { Error::bad_request(text) } else { Error::unavailable(text) }
        })
    }

    /// Id of the allocation.
    pub(crate) fn alloc(&self) -> AllocId {
        self.alloc
    }

    /// Sends a request to the agent.
    ///
    /// # Errors
    /// If the agent refuses or does not answer.
    pub(crate) async fn request<Q: Wire, A: Wire>(&self, message: &Q) -> Result<A, Error> {
        self.request_waiting(message, Duration::ZERO).await.map_err(|error| self.agent_error(&error))
    }

    /// Sends a request to which the agent may wait up to `wait` before it answers.
    ///
    /// # Errors
    /// If the agent refuses or does not answer.
    pub(crate) async fn request_waiting<Q: Wire, A: Wire>(
        &self,
        message: &Q,
        wait: Duration,
    ) -> Result<A, RequestError> {
        self.bus.request(Subject::AgentFiles(self.node), message, wait + RESPONSE_TIMEOUT).await
    }

    /// Sends a command for tasks to the agent. A refusal becomes a 500 (http-api §18).
    ///
    /// # Errors
    /// If the agent refuses or does not answer.
    pub(crate) async fn send_task_command(&self, command: &impl Wire) -> Result<(), Error> {
        send_task_command(&self.bus, self.node, command).await
    }

    /// Requests resource usage from the agent.
    ///
    /// # Errors
    /// If the agent refuses or does not answer.
    pub(crate) async fn request_stats<Q: Wire, A: Wire>(&self, message: &Q) -> Result<A, Error> {
        request_stats(&self.bus, self.node, message).await
    }

    /// Converts the agent's failure into the error for the client.
    pub(crate) fn agent_error(&self, error: &RequestError) -> Error {
        agent_error(self.node, error)
    }
}

impl Api {
    /// The node that a request names, or the node of this process.
    ///
    /// # Errors
    /// If the node does not exist, or the request names none and this process is not a node.
    pub(crate) async fn node_of(&self, query: &Query) -> Result<NodeId, Error> {
        self.node_named(query.text("node_id")).await
    }

    /// The node with this id, or the node of this process if the id is empty.
    ///
    /// # Errors
    /// If the node does not exist, or the id is empty and this process is not a node.
    pub(crate) async fn node_named(&self, id: &str) -> Result<NodeId, Error> {
        let id: NodeId = match id {
            "" => {
                let missing = || Error::bad_request("No local Node and node_id not provided");
                return self.colocated.node.ok_or_else(missing);
            }
            id => parse_id("node lookup failed: ", id)?,
        };
        let is_there = |state: &State| state.node(id).is_some();
        if is_there(&self.replica.snapshot()) || is_there(&*self.fresh_snapshot(false).await?) {
            return Ok(id);
        }
        Err(Error::not_found(format!("Unknown node {id}")))
    }
}

/// Sends a command for the tasks of a node to its agent. A refusal becomes a 500 (http-api §18).
///
/// # Errors
/// If the agent refuses or does not answer.
pub(crate) async fn send_task_command(bus: &Bus, node: NodeId, command: &impl Wire) -> Result<(), Error> {
    let subject = Subject::AgentTasks(node);
    match bus.request::<_, TasksDone>(subject, command, TASK_COMMAND_TIMEOUT).await {
        Ok(TasksDone {}) => Ok(()),
        Err(RequestError::Refused(refusal)) if refusal.kind != RefusalKind::NotFound => {
            Err(Error::failed(&*refusal.message))
        }
        Err(error) => Err(agent_error(node, &error)),
    }
}

/// Requests resource usage from the agent of a node.
///
/// # Errors
/// If the agent refuses or does not answer.
pub(crate) async fn request_stats<Q: Wire, A: Wire>(
    bus: &Bus,
    node: NodeId,
    message: &Q,
) -> Result<A, Error> {
    let response = bus.request(Subject::AgentStats(node), message, RESPONSE_TIMEOUT).await;
    response.map_err(|error| agent_error(node, &error))
}

/// Sends a request about host volumes to the agent of a node. Every failure is a 500 (http-api §22).
///
/// # Errors
/// If the agent refuses or does not answer.
pub(crate) async fn request_volumes<Q: Wire, A: Wire>(
    bus: &Bus,
    node: NodeId,
    message: &Q,
) -> Result<A, Error> {
    let response = bus.request(Subject::AgentVolumes(node), message, VOLUME_TIMEOUT).await;
    response.map_err(|error| {
        if let RequestError::Refused(refusal) = &error {
            return Error::failed(&*refusal.message);
        }
        Error::unavailable(agent_error(node, &error).text)
    })
}

/// Converts an agent's failure into the error for the client (http-api §13).
fn agent_error(node: NodeId, error: &RequestError) -> Error {
    match error {
        RequestError::Refused(refusal) => refusal_error(refusal),
        RequestError::NoResponders | RequestError::TimedOut | RequestError::Disconnected => {
            Error::not_found(format!("No path to node {}", quoted(&node.to_string())))
        }
        RequestError::Unreadable(_) | RequestError::TooLarge { .. } => {
            Error::unavailable(telemetry::chain(error))
        }
    }
}

fn refusal_error(refusal: &Refusal) -> Error {
    let text = &*refusal.message;
    match refusal.kind {
        RefusalKind::NotFound => Error::not_found(text),
        RefusalKind::Invalid if text.contains(PROHIBITED) || text.contains(ESCAPES) => Error::failed(text),
        RefusalKind::Invalid => Error::bad_request(text),
        RefusalKind::Conflict
        | RefusalKind::NotReady
        | RefusalKind::Outdated
        | RefusalKind::Deposed
        | RefusalKind::Forbidden
        | RefusalKind::OutcomeUnknown => Error::failed(text),
    }
}

/// Checks that a path does not leave the allocation's directory by `..`. The agent checks symbolic links.
///
/// # Errors
/// If the path leaves the directory or contains a null character.
pub(crate) fn check_path(path: &str) -> Result<(), Error> {
    if path.contains('\0') {
        return Err(Error::bad_request("the path holds a null character"));
    }
    let mut depth = 0_usize;
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => depth = depth.checked_sub(1).ok_or_else(|| Error::failed(ESCAPES))?,
            _ => depth += 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        for good in ["", "/", "a/../b", "/t/local/./x"] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        for bad in ["..", "../..", "/../x", "a/../../etc/passwd"] {
            let error = check_path(bad).unwrap_err();
            assert_eq!((error.status.as_u16(), error.text.as_str()), (500, ESCAPES), "{bad}");
        }
        assert_eq!(check_path("a\0").unwrap_err().status.as_u16(), 400);
    }

    #[test]
    fn refusals_keep_their_words_and_get_their_status() {
        let status = |kind, message: &str| {
            let error = refusal_error(&Refusal { kind, message: message.into() });
            assert_eq!(error.text, message);
            error.status.as_u16()
        };
        assert_eq!(status(RefusalKind::NotFound, "stat /x: no such file or directory"), 404);
        assert_eq!(status(RefusalKind::Invalid, "Reading secret file prohibited: /t/secrets/s"), 500);
        assert_eq!(status(RefusalKind::Invalid, ESCAPES), 500);
        assert_eq!(status(RefusalKind::Invalid, "unknown task name \"x\""), 400);
        assert_eq!(status(RefusalKind::NotReady, "starting"), 500);
    }
}
