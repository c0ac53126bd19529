//! Routes of the files and logs of allocations (http-api §13), of commands for their tasks, and of garbage on nodes (§18).

use actix_web::http::StatusCode;
use actix_web::web::Bytes;
use api_types::Time;
use futures::{StreamExt as _, TryStreamExt as _};
use model::text::quoted;
use model::{AllocId, Text};
use serde::{Deserialize, Serialize};
use wire::files::{FileInfo, LogPosition, LogStream, Origin, StatFile};
use wire::tasks::{RemoveEnded, RestartTasks, SignalTasks};

use super::Request;
use crate::Api;
use crate::admission::Problems;
use crate::agent_client::{AllocAgent, ESCAPES, Source, StreamReader, check_path, send_task_command};
use crate::http::{Body, BodyStream, Error, Framing, PermitKind, Query, Response, decode, integer};

const TEXT: &str = "text/plain; charset=utf-8";
/// Content type of files whose type is unknown.
const UNKNOWN_TYPE: &str = "application/octet-stream";
/// How an agent refuses a command for tasks that are not running.
const NOT_RUNNING: &str = "Task not running";

/// A file in responses.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocFileInfo<'a> {
    name: &'a str,
    is_dir: bool,
    size: u64,
    file_mode: &'a str,
    mod_time: Option<Time>,
    content_type: &'a str,
}

impl<'a> AllocFileInfo<'a> {
    fn new(info: &'a FileInfo, content_type: &'a str) -> Self {
        let FileInfo { name, is_dir, size, mode, modified, .. } = info;
        Self {
            name,
            is_dir: *is_dir,
            size: *size,
            file_mode: mode,
            mod_time: (*modified).into(),
            content_type,
        }
    }
}

/// Lists a directory.
pub(crate) async fn list(api: &Api, request: &Request) -> Result<Response, Error> {
    let path = Some(request.query.text("path")).filter(|path| !path.is_empty()).unwrap_or("/");
    let agent = agent_for(api, request, path).await?;
    let listing = agent.list(path, &api.response_memory).await?;
    let entries: Vec<_> = listing.entries.iter().map(|info| AllocFileInfo::new(info, "")).collect();
    Ok(Response::json(&entries))
}

/// Describes a file.
pub(crate) async fn stat(api: &Api, request: &Request) -> Result<Response, Error> {
    let path = file(request)?;
    let agent = agent_for(api, request, path).await?;
    let info = stat_file(&agent, path).await?;
    let content_type = info.content_type.as_deref().unwrap_or(UNKNOWN_TYPE);
    Ok(Response::json(&AllocFileInfo::new(&info, content_type)))
}

/// Checks that a request names an allocation. It is looked up only after the parameters have been checked.
fn check_alloc(request: &Request) -> Result<(), Error> {
    match request.id() {
        "" => Err(Error::bad_request("must provide a valid alloc id")),
        _ => Ok(()),
    }
}

/// The file path of a request.
fn file(request: &Request) -> Result<&str, Error> {
    check_alloc(request)?;
    match request.query.text("path") {
        "" => Err(Error::bad_request("must provide a file name")),
        path => Ok(path),
    }
}

/// The agent of the requested allocation, for a path within the allocation's directory.
async fn agent_for(api: &Api, request: &Request, path: &str) -> Result<AllocAgent, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    check_path(path).map(|()| agent)
}

async fn stat_file(agent: &AllocAgent, path: &str) -> Result<FileInfo, Error> {
    agent.request(&StatFile { alloc: agent.alloc(), path: path.into() }).await
}

/// Reads a whole file.
pub(crate) async fn cat(api: &Api, request: &Request) -> Result<Response, Error> {
    let path = file(request)?;
    let agent = agent_for(api, request, path).await?;
    let info = stat_file(&agent, path).await?;
    if info.is_dir {
        return Err(is_directory(path));
    }
    let content_type = safe_content_type(info.content_type.as_deref().unwrap_or(UNKNOWN_TYPE)).to_owned();
    let source = Source::File { path: path.into(), from: Origin::Start(0) };
    let pieces = StreamReader::start(api, agent, source, false, Framing::Plain).await?;
    Ok(contents(content_type, pieces))
}

fn is_directory(path: &str) -> Error {
    Error::bad_request(format!("file {} is a directory", quoted(path)))
}

/// Response with the contents of a file.
fn contents(content_type: String, pieces: Option<BodyStream>) -> Response {
    Response::ok(match pieces {
        Some(pieces) => Body::OtherStream { content_type, is_untrusted: true, pieces },
        None => Body::text(""),
    })
}

/// Replaces content types that browsers execute or render by plain text. JSON is text here: it is known by the name of the
/// file only.
fn safe_content_type(content_type: &str) -> &str {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_active =
        ["html", "javascript", "ecmascript", "xml", "svg", "wasm"].iter().any(|part| kind.contains(part));
    match kind.as_str() {
        _ if is_active => "text/plain",
        "application/json" => TEXT,
        _ => content_type,
    }
}

/// Reads a part of a file.
pub(crate) async fn read_at(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let path = file(request)?;
    let offset = number("offset", query.text("offset")).map_err(Error::bad_request)?;
    let limit = match query.text("limit") {
        "" => 0,
        text => number("limit", text).map_err(Error::bad_request)?,
    };
    // 0 is no limit.
    let bytes_max = if limit == 0 { u64::MAX } else { u64::try_from(limit).unwrap_or_default() };
    let agent = agent_for(api, request, path).await?;
    if stat_file(&agent, path).await?.is_dir {
        return Err(is_directory(path));
    }
    let from = u64::try_from(offset).map_err(|_| Error::bad_request(cannot_seek(&agent, path, offset)))?;
    let source = Source::File { path: path.into(), from: Origin::Start(from) };
    let pieces = StreamReader::start(api, agent, source, false, Framing::Plain).await?;
    Ok(contents(TEXT.to_owned(), pieces.map(|pieces| limited(pieces, bytes_max))))
}

/// Cuts a stream at the client's limit. Data is read only as the client takes it.
fn limited(pieces: BodyStream, mut remaining: u64) -> BodyStream {
    let limited = pieces.map_ok(move |piece: Bytes| {
        let taken = piece.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
        remaining -= taken as u64;
        piece.slice(..taken)
    });
    limited.try_take_while(|piece| std::future::ready(Ok(!piece.is_empty()))).boxed_local()
}

/// Parses a number like Go. The error text names the parameter.
fn number(name: &str, text: &str) -> Result<i64, String> {
    integer(text).map_err(|problem| {
        format!("error parsing {name}: strconv.ParseInt: parsing {}: {problem}", quoted(text))
    })
}

/// Error text for a file offset before the beginning.
fn cannot_seek(agent: &AllocAgent, path: &str, offset: i64) -> String {
    let path = path.trim_start_matches('/');
    format!("can't seek to offset {offset}: seek {}/{path}: invalid argument", agent.alloc())
}

/// Streams a file in frames. It is followed beyond its end by default.
pub(crate) async fn stream(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let path = file(request)?;
    let offset = offset(query).map_err(Error::failed)?;
    let is_from_end = is_from_end(query)?;
    let follow = boolean(query, "follow", true).map_err(Error::failed)?;
    let agent = AllocAgent::find(api, request.id()).await?;
    // Here a missing file is a 400, and so is a path that leads out of the directory.
    let as_bad_request = |error: Error| match error.status == StatusCode::NOT_FOUND || error.text == ESCAPES {
        true => Error { status: StatusCode::BAD_REQUEST, ..error },
        false => error,
    };
    check_path(path).map_err(|error| Error::bad_request(error.text))?;
    if stat_file(&agent, path).await.map_err(as_bad_request)?.is_dir {
        return Err(is_directory(path));
    }
    let from = match (is_from_end, u64::try_from(offset)) {
        (true, distance) => Origin::End(distance.unwrap_or_default()),
        (false, Ok(offset)) => Origin::Start(offset),
        (false, Err(_)) => return Err(Error::failed(cannot_seek(&agent, path, offset))),
    };
    let source = Source::File { path: path.into(), from };
    let pieces = StreamReader::start(api, agent, source, follow, Framing::Frames).await?;
    Ok(Response::ok(pieces.map_or(Body::Empty, |pieces| streamed(TEXT, pieces))))
}

fn streamed(content_type: &str, pieces: BodyStream) -> Body {
    Body::OtherStream { content_type: content_type.to_owned(), is_untrusted: false, pieces }
}

fn boolean(query: &Query, name: &str, default: bool) -> Result<bool, String> {
    query.flag(name, default).map_err(|_| {
        let value = quoted(query.text(name));
        format!("failed to parse {name} field to boolean: strconv.ParseBool: parsing {value}: invalid syntax")
    })
}

fn offset(query: &Query) -> Result<i64, String> {
    match query.text("offset") {
        "" => Ok(0),
        text => number("offset", text),
    }
}

fn is_from_end(query: &Query) -> Result<bool, Error> {
    match query.text("origin") {
        "" | "start" => Ok(false),
        "end" => Ok(true),
        _ => Err(Error::bad_request("origin must be start or end")),
    }
}

/// Where to read a task's output. A negative offset from the start counts from the end.
fn log_origin(offset: i64, is_from_end: bool) -> Origin {
    match (is_from_end, u64::try_from(offset)) {
        (true, distance) => Origin::End(distance.unwrap_or_default()),
        (false, Ok(offset)) => Origin::Start(offset),
        (false, Err(_)) => Origin::End(offset.unsigned_abs()),
    }
}

/// Reads or follows the output of a task.
pub(crate) async fn logs(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    check_alloc(request)?;
    let task = match query.text("task") {
        "" => return Err(Error::bad_request("must provide task name")),
        task => Text::from(task),
    };
    let stream = match query.text("type") {
        "stdout" => LogStream::Stdout,
        "stderr" => LogStream::Stderr,
        _ => return Err(Error::bad_request("must provide log type (stdout/stderr)")),
    };
    let follow = boolean(query, "follow", false).map_err(Error::bad_request)?;
    let plain = boolean(query, "plain", false).map_err(Error::bad_request)?;
    let offset = offset(query).map_err(Error::bad_request)?;
    let from = LogPosition::Origin(log_origin(offset, is_from_end(query)?));
    let agent = AllocAgent::find(api, request.id()).await?;
    let (framing, content_type) =
        if plain { (Framing::Plain, "text/plain") } else { (Framing::Frames, "application/json") };
    let source = Source::Logs { task, stream, from };
    let pieces = StreamReader::start(api, agent, source, follow, framing).await?;
    let pieces = pieces.unwrap_or_else(|| Box::pin(futures::stream::empty()));
    Ok(Response::ok(streamed(content_type, pieces)))
}

/// Body of a restart.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct RestartRequest {
    task_name: Option<String>,
    all_tasks: Option<bool>,
}

/// Body of a signal.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SignalRequest {
    task: Option<String>,
    signal: Option<String>,
}

/// Response to a task command. Clients reject an empty body here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskCommandDone {
    index: u64,
}

/// Restarts tasks (http-api §18).
pub(crate) async fn restart(api: &Api, request: &Request) -> Result<Response, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    let body: RestartRequest = match request.body.is_empty() {
        true => RestartRequest::default(),
        false => decode(&request.body, &api.limits).map_err(|error| Error::failed(error.text))?,
    };
    let command = RestartTasks {
        alloc: agent.alloc(),
        task: task_name(body.task_name),
        all: body.all_tasks.unwrap_or_default(),
    };
    let _permit = api.permits.take(PermitKind::TaskCommand)?;
    agent.send_task_command(&command).await?;
    Ok(Response::json(&TaskCommandDone { index: 0 }))
}

/// Sends a signal to tasks (http-api §18).
pub(crate) async fn signal(api: &Api, request: &Request) -> Result<Response, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    let body: SignalRequest = decode(&request.body, &api.limits)
        .map_err(|error| Error::bad_request(format!("Failed to decode body: {}", error.text)))?;
    let signal = body.signal.unwrap_or_default().into();
    let command = SignalTasks { alloc: agent.alloc(), task: task_name(body.task), signal };
    let _permit = api.permits.take(PermitKind::TaskCommand)?;
    let sent = agent.send_task_command(&command).await;
    sent.map_err(|error| signal_refused(api, agent.alloc(), command.task.as_ref(), error))?;
    Ok(Response::json(&TaskCommandDone { index: 0 }))
}

/// Why a signal was refused (http-api §18): an unknown task, and each task that is not running if none was named.
fn signal_refused(api: &Api, alloc: AllocId, task: Option<&Text>, error: Error) -> Error {
    let state = api.replica.snapshot();
    let Some(alloc) = state.alloc(alloc).filter(|_| error.status == StatusCode::INTERNAL_SERVER_ERROR) else {
        return error;
    };
    let mut names = alloc.common().resources.tasks.iter().map(|task| &task.name);
    match task {
        Some(task) if !names.any(|name| name == task) => Error::failed("Task not found"),
        None if error.text == NOT_RUNNING => {
            let mut problems = Problems::default();
            names.for_each(|name| problems.add(format!("Failed to signal task: {name}, err: {NOT_RUNNING}")));
            if problems.is_empty() { error } else { Error::failed(problems.to_string()) }
        }
        Some(_) | None => error,
    }
}

/// Reading and setting the schedules of tasks belong to Nomad Enterprise (http-api §18).
pub(crate) async fn pause(api: &Api, request: &Request) -> Result<Response, Error> {
    AllocAgent::find(api, request.id()).await?;
    Err(Error::failed("Enterprise only"))
}

fn task_name(task: Option<String>) -> Option<Text> {
    task.filter(|task| !task.is_empty()).map(Text::from)
}

/// Removes the files of an allocation that has ended from its node (http-api §18).
pub(crate) async fn collect_alloc(api: &Api, request: &Request) -> Result<Response, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    let _permit = api.permits.take(PermitKind::TaskCommand)?;
    agent.send_task_command(&RemoveEnded { alloc: Some(agent.alloc()) }).await?;
    Ok(Response::ok(Body::Empty))
}

/// Removes the files of all allocations of a node that have ended (http-api §18).
pub(crate) async fn collect_node(api: &Api, request: &Request) -> Result<Response, Error> {
    // Here an unknown node is a 500.
    let as_failure = |error: Error| match error.status {
        StatusCode::NOT_FOUND => Error { status: StatusCode::INTERNAL_SERVER_ERROR, ..error },
        _ => error,
    };
    let node = api.node_of(&request.query).await.map_err(as_failure)?;
    let _permit = api.permits.take(PermitKind::TaskCommand)?;
    send_task_command(&api.bus, node, &RemoveEnded { alloc: None }).await?;
    Ok(Response::ok(Body::Empty))
}

/// Response for any other file operation.
pub(crate) fn unknown(_: &Api, _: &Request) -> Result<Response, Error> {
    Err(Error::not_found("Invalid method"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_served_as_plain_text() {
        for (given, shown) in [
            ("text/html; charset=utf-8", "text/plain"),
            ("application/javascript", "text/plain"),
            ("image/svg+xml", "text/plain"),
            ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
            ("image/png", "image/png"),
            ("application/json", "text/plain; charset=utf-8"),
        ] {
            assert_eq!(safe_content_type(given), shown);
        }
    }

    /// http-api §13.
    #[test]
    fn numbers_and_words_of_files() {
        let query = |text| Query::parse("", text);
        assert_eq!((offset(&query("offset=-4")), offset(&query(""))), (Ok(-4), Ok(0)));
        assert_eq!((is_from_end(&query("origin=end")), is_from_end(&query(""))), (Ok(true), Ok(false)));
        assert_eq!(is_from_end(&query("origin=middle")).unwrap_err().text, "origin must be start or end");
        assert_eq!(
            offset(&query("offset=x")).unwrap_err(),
            r#"error parsing offset: strconv.ParseInt: parsing "x": invalid syntax"#
        );
        assert_eq!(
            boolean(&query("follow=x"), "follow", true).unwrap_err(),
            r#"failed to parse follow field to boolean: strconv.ParseBool: parsing "x": invalid syntax"#
        );
        assert_eq!((log_origin(-5, false), log_origin(5, true)), (Origin::End(5), Origin::End(5)));
        assert_eq!(log_origin(5, false), Origin::Start(5));
    }
}
