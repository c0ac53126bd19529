//! Files and logs of allocations: asked of the agent that has them, piece by piece (design §6). What people want of their
//! tasks takes the same way.
//!
//! The next piece is asked for when the one before has been taken by the client, so nothing piles up anywhere. What the
//! agent refuses becomes HTTP here; where it is allowed to look is its own business.

mod frames;
mod reader;

use std::time::Duration;

use bus::{Bus, RequestError};
use model::text::quoted;
use model::{AllocId, NodeId};
use wire::files::PROHIBITED;
use wire::tasks::TasksDone;
use wire::{Refusal, RefusalKind, Subject, Wire};

use crate::Api;
use crate::http::{Error, parse_id};

pub(crate) use self::frames::Framing;
pub(crate) use self::reader::{Source, StreamItem, StreamReader};

/// How long an agent may take to answer, beyond what it was asked to wait.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an agent may take to do something with tasks; they have their own time to end.
const TASK_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// What is said of a path that leads out of the allocation's directory.
const ESCAPES: &str = "Path escapes the alloc directory";

/// The agent that has the files of an allocation.
#[derive(Debug, Clone)]
pub(crate) struct AllocAgent {
    bus: Bus,
    node: NodeId,
    alloc: AllocId,
}

impl AllocAgent {
    /// Finds the agent.
    ///
    /// # Errors
    /// If there is no such allocation.
    pub(crate) async fn find(api: &Api, alloc: &str) -> Result<Self, Error> {
        if alloc.is_empty() {
            return Err(Error::bad_request("must provide a valid alloc id"));
        }
        let id: AllocId = parse_id("alloc", alloc)?;
        let node_of = |state: &state::State| state.alloc(id).map(|alloc| alloc.node_id());
        // An allocation stays on its node, so what this process knows is right; what it does not know may be new.
        let node = match node_of(&api.replica.snapshot()) {
            Some(node) => node,
            None => node_of(&*api.fresh_snapshot(false).await?)
                .ok_or_else(|| Error::not_found(format!("Unknown allocation {}", quoted(alloc))))?,
        };
        Ok(Self { bus: api.bus.clone(), node, alloc: id })
    }

    /// The allocation.
    pub(crate) fn alloc(&self) -> AllocId {
        self.alloc
    }

    /// Asks the agent.
    pub(crate) async fn request<Q: Wire, A: Wire>(&self, message: &Q) -> Result<A, Error> {
        self.request_waiting(message, Duration::ZERO).await.map_err(|error| self.agent_error(&error))
    }

    /// Asks the agent, which may wait a while for something to answer.
    pub(crate) async fn request_waiting<Q: Wire, A: Wire>(
        &self,
        message: &Q,
        wait: Duration,
    ) -> Result<A, RequestError> {
        self.bus.request(Subject::AgentFiles(self.node), message, wait + RESPONSE_TIMEOUT).await
    }

    /// Has the agent do something with tasks. Whatever it refuses is a failure (http-api §18).
    ///
    /// # Errors
    /// If it does not.
    pub(crate) async fn send_task_command(&self, command: &impl Wire) -> Result<(), Error> {
        let response = self
            .bus
            .request::<_, TasksDone>(Subject::AgentTasks(self.node), command, TASK_COMMAND_TIMEOUT)
            .await;
        match response {
            Ok(TasksDone {}) => Ok(()),
            Err(RequestError::Refused(refusal)) if refusal.kind != RefusalKind::NotFound => {
                Err(Error::failed(&*refusal.message))
            }
            Err(error) => Err(self.agent_error(&error)),
        }
    }

    /// Asks the agent for figures.
    ///
    /// # Errors
    /// If it has none, or there is no agent.
    pub(crate) async fn request_stats<Q: Wire, A: Wire>(&self, message: &Q) -> Result<A, Error> {
        request_stats(&self.bus, self.node, message).await
    }

    /// What the agent's failure is to the client.
    pub(crate) fn agent_error(&self, error: &RequestError) -> Error {
        agent_error(self.node, error)
    }
}

/// Asks an agent for figures.
///
/// # Errors
/// If it has none, or there is no agent.
pub(crate) async fn request_stats<Q: Wire, A: Wire>(
    bus: &Bus,
    node: NodeId,
    message: &Q,
) -> Result<A, Error> {
    let response = bus.request(Subject::AgentStats(node), message, RESPONSE_TIMEOUT).await;
    response.map_err(|error| agent_error(node, &error))
}

/// What an agent's failure is to the client (http-api §13).
fn agent_error(node: NodeId, error: &RequestError) -> Error {
    match error {
        RequestError::Refused(refusal) => refusal_error(refusal),
        RequestError::NoResponders | RequestError::TimedOut | RequestError::Disconnected => {
            Error::not_found(format!("No path to node {}", quoted(&node.to_string())))
        }
        RequestError::Unreadable(_) | RequestError::TooLarge { .. } => Error::failed(telemetry::chain(error)),
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

/// Refuses a path that leads out of the allocation's directory by itself; links the agent looks after.
///
/// # Errors
/// If it does, or is no text that a path can be.
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
