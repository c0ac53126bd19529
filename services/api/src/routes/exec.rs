//! Routes of commands in tasks: any command, and the actions that jobs name (http-api §14, §11.3).

use model::job::{Task, TaskGroup};
use model::text::quoted;
use model::{AllocId, JobKey, Text};
use state::{AllocRef, State};
use telemetry::clock;

use super::Request;
use super::job::key;
use crate::Api;
use crate::agent_client::AllocAgent;
use crate::exec::{ExecRequest, Wanted};
use crate::http::{Error, PermitKind, Response, parse_id};

/// Runs a command in a task.
pub(crate) async fn exec(api: &Api, request: &Request) -> Result<Response, Error> {
    let command = read_command(request.query.text("command"))?;
    let tty = read_tty(request)?;
    request.socket.is_wanted()?;
    let wanted = async {
        let agent = AllocAgent::find(api, request.id()).await?;
        let task = match request.query.text("task") {
            "" => return Err(Error::bad_request("must provide task name")),
            task => Text::from(task),
        };
        if command.first().is_none_or(String::is_empty) {
            return Err(Error::bad_request("command is not present"));
        }
        Ok(Wanted { agent, task, command, tty })
    };
    serve(api, request, wanted).await
}

/// Runs an action of a job in one of its allocations.
pub(crate) async fn action(api: &Api, request: &Request) -> Result<Response, Error> {
    request.socket.is_wanted()?;
    let wanted = async {
        let tty = read_tty(request)?;
        let (action, task) = match (request.query.text("action"), request.query.text("task")) {
            ("", _) => return Err(Error::bad_request("must provide action name")),
            (_, "") => return Err(Error::bad_request("must provide task name")),
            named => named,
        };
        let state = api.fresh_snapshot(false).await?;
        let alloc = alloc_of_action(&state, request)?;
        let command = command_of_action(alloc, task, action)?;
        Ok(Wanted { agent: AllocAgent::of(&api.bus, alloc), task: task.into(), command, tty })
    };
    serve(api, request, wanted).await
}

/// Makes the WebSocket and serves the command. What is wrong with the command is told there.
async fn serve(
    api: &Api,
    request: &Request,
    wanted: impl Future<Output = Result<Wanted, Error>>,
) -> Result<Response, Error> {
    let permit = api.permits.take(PermitKind::Exec)?;
    let (socket, response) = request.socket.accept();
    let Some(socket) = socket else { return Ok(response) };
    let session = ExecRequest {
        socket,
        wanted: wanted.await,
        handshake: request.query.text("ws_handshake") == "true",
        token: request.socket.token().to_owned(),
        requester: request.socket.peer(),
        permit,
        stop: api.stop.clone(),
    };
    session.spawn();
    Ok(response)
}

/// Parses the command of a request, which is a list as JSON.
fn read_command(text: &str) -> Result<Vec<String>, Error> {
    let problem = |problem: String| Error::failed(format!("failed to marshal command into json: {problem}"));
    if text.is_empty() {
        return Err(problem("unexpected end of JSON input".to_owned()));
    }
    serde_json::from_str::<Option<Vec<String>>>(text)
        .map(Option::unwrap_or_default)
        .map_err(|error| problem(error.to_string()))
}

fn read_tty(request: &Request) -> Result<bool, Error> {
    request.query.flag("tty", false).map_err(|error| {
        let problem = error.text.split_once("strconv.").map_or("", |(_, problem)| problem);
        Error::failed(format!("tty value is not a boolean: strconv.{problem}"))
    })
}

/// The allocation that a request for an action names, or a running one of the group that it names.
fn alloc_of_action<'s>(state: &'s State, request: &Request) -> Result<AllocRef<'s>, Error> {
    let job = key(request);
    let (id, group) = (request.query.text("allocID"), request.query.text("group"));
    if state.job(&job).is_none() {
        return Err(Error::not_found(format!("Unknown job {}", quoted(&job.id))));
    }
    if !id.is_empty() {
        let absent = || Error::bad_request(format!("job {} does not have allocation {id}", job.id));
        let id: AllocId = parse_id("alloc", id)?;
        return state.alloc(id).filter(|alloc| *alloc.job_key() == job).ok_or_else(absent);
    }
    let random = u128::from_le_bytes(clock::random_bytes());
    pick_running(state, &job, group, random)
}

fn pick_running<'s>(
    state: &'s State,
    job: &JobKey,
    group: &str,
    random: u128,
) -> Result<AllocRef<'s>, Error> {
    if group.is_empty() {
        return Err(Error::bad_request("must provide an allocation ID or a task group"));
    }
    let runs = |alloc: &AllocRef<'_>| {
        &**alloc.group_name() == group && alloc.client_status() == model::alloc::ClientStatus::Running
    };
    let running: Vec<AllocRef<'s>> = state.allocs_of_job(job).filter(runs).collect();
    let none = || Error::bad_request(format!("job {} has no running allocation in group {group}", job.id));
    let count = running.len().max(1) as u128;
    running.into_iter().nth((random % count) as usize).ok_or_else(none)
}

/// The command that an allocation's job names (A-25.5).
fn command_of_action(alloc: AllocRef<'_>, task: &str, action: &str) -> Result<Vec<String>, Error> {
    let mut tasks = alloc.group().into_iter().flat_map(|group: &TaskGroup| group.tasks.iter());
    let found: Option<&Task> = tasks.find(|found| &*found.name == task);
    let found = found
        .ok_or_else(|| Error::bad_request(format!("task {task} not found in allocation {}", alloc.id())))?;
    let named = found.actions.iter().find(|found| found.name.as_deref() == Some(action));
    let named =
        named.ok_or_else(|| Error::bad_request(format!("action {action} not found in task {task}")))?;
    let command = named.command.iter().chain(named.args.iter().flatten());
    Ok(command.cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_list_of_texts() {
        assert_eq!(read_command(r#"["ls","-l"]"#), Ok(vec!["ls".to_owned(), "-l".to_owned()]));
        assert_eq!(read_command("[]"), Ok(vec![]));
        assert_eq!(read_command("null"), Ok(vec![]));
        for text in ["", "x", "{}", "[1]"] {
            let error = read_command(text).unwrap_err();
            assert_eq!(error.status.as_u16(), 500, "{text}");
            assert!(error.text.starts_with("failed to marshal command into json: "), "{}", error.text);
        }
        assert!(read_command("").unwrap_err().text.ends_with("unexpected end of JSON input"));
    }
}
