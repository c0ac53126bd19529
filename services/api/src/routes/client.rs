//! Routes of the files and logs of allocations (http-api §13), of commands for their tasks, and of garbage on nodes (§18).

use actix_web::http::StatusCode;
use actix_web::web::Bytes;
use api_types::Time;
use futures::{StreamExt as _, TryStreamExt as _};
use model::Text;
use model::text::quoted;
use serde::{Deserialize, Serialize};
use wire::files::{FileInfo, LogPosition, LogStream, Origin, StatFile};
use wire::tasks::{RemoveEnded, RestartTasks, SignalTasks};

use super::Request;
use crate::Api;
use crate::agent_client::{AllocAgent, Source, StreamReader, check_path, send_task_command};
use crate::http::{Body, BodyStream, Error, Framing, PermitKind, Query, Response, decode};

const TEXT: &str = "text/plain; charset=utf-8";
/// Content type of files whose type is unknown.
const UNKNOWN_TYPE: &str = "application/octet-stream";

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
    let agent = AllocAgent::find(api, request.id()).await?;
    let path = Some(request.query.text("path")).filter(|path| !path.is_empty()).unwrap_or("/");
    check_path(path)?;
    let listing = agent.list(path, &api.response_memory).await?;
    let entries: Vec<_> = listing.entries.iter().map(|info| AllocFileInfo::new(info, "")).collect();
    Ok(Response::json(&entries))
}

/// Describes a file.
pub(crate) async fn stat(api: &Api, request: &Request) -> Result<Response, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    let info = stat_file(&agent, file(&request.query)?).await?;
    let content_type = info.content_type.as_deref().unwrap_or(UNKNOWN_TYPE);
    Ok(Response::json(&AllocFileInfo::new(&info, content_type)))
}

async fn stat_file(agent: &AllocAgent, path: &str) -> Result<FileInfo, Error> {
    agent.request(&StatFile { alloc: agent.alloc(), path: path.into() }).await
}

/// The file path of a request.
fn file(query: &Query) -> Result<&str, Error> {
    match query.text("path") {
        "" => Err(Error::bad_request("must provide a file name")),
        path => check_path(path).map(|()| path),
    }
}

/// Reads a whole file.
pub(crate) async fn cat(api: &Api, request: &Request) -> Result<Response, Error> {
    let agent = AllocAgent::find(api, request.id()).await?;
    let path = file(&request.query)?;
    let info = stat_file(&agent, path).await?;
    if info.is_dir {
        return Err(is_directory(path));
    }
    let content_type = safe_content_type(info.content_type.as_deref().unwrap_or(UNKNOWN_TYPE)).to_owned();
    let source = Source::File { path: path.into(), from: Origin::Start(0) };
    let pieces = StreamReader::start(api, agent, source, false, Framing::Plain).await?;
    Ok(Response::ok(Body::OtherStream { content_type, pieces }))
}

fn is_directory(path: &str) -> Error {
    Error::bad_request(format!("file {} is a directory", quoted(path)))
}

/// Replaces content types that browsers execute or render by plain text.
fn safe_content_type(content_type: &str) -> &str {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_active =
        ["html", "javascript", "ecmascript", "xml", "svg", "wasm"].iter().any(|part| kind.contains(part));
    if is_active { "text/plain" } else { content_type }
}

/// Reads a part of a file.
pub(crate) async fn read_at(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let agent = AllocAgent::find(api, request.id()).await?;
    let path = file(query)?;
    let offset = offset(query.text("offset")).map_err(Error::bad_request)?;
    let mut remaining = match query.text("limit") {
        "" => u64::MAX,
        text => number("limit", text).map_err(Error::bad_request)?,
    };
    if stat_file(&agent, path).await?.is_dir {
        return Err(is_directory(path));
    }
    // The stream is cut at the client's limit. Data is read only as the client takes it.
    let source = Source::File { path: path.into(), from: Origin::Start(offset) };
    let pieces = StreamReader::start(api, agent, source, false, Framing::Plain).await?;
    let limited = pieces
        .map_ok(move |piece: Bytes| {
            let taken = piece.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
            remaining -= taken as u64;
            piece.slice(..taken)
        })
        .try_take_while(|piece| std::future::ready(Ok(!piece.is_empty())));
    Ok(Response::ok(Body::OtherStream { content_type: TEXT.to_owned(), pieces: limited.boxed_local() }))
}

fn offset(text: &str) -> Result<u64, String> {
    number("offset", text)
}

/// Parses a number. The error text names the parameter.
fn number(name: &str, text: &str) -> Result<u64, String> {
    let number = text.parse::<i64>().map_err(|_| {
        format!("error parsing {name}: strconv.ParseInt: parsing {}: invalid syntax", quoted(text))
    })?;
    u64::try_from(number).map_err(|_| format!("can't seek to {name} {number}: invalid argument"))
}

/// Streams a file in frames. It is followed beyond its end by default.
pub(crate) async fn stream(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let agent = AllocAgent::find(api, request.id()).await?;
    let path = file(query)?;
    let follow = follow(query, true)?;
    let from = origin(query)?;
    // Here a missing file is a 400.
    let as_bad_request = |error: Error| match error.status {
        StatusCode::NOT_FOUND => Error { status: StatusCode::BAD_REQUEST, ..error },
        _ => error,
    };
    if stat_file(&agent, path).await.map_err(as_bad_request)?.is_dir {
        return Err(is_directory(path));
    }
    let source = Source::File { path: path.into(), from };
    framed(StreamReader::start(api, agent, source, follow, Framing::Frames).await?)
}

fn framed(pieces: BodyStream) -> Result<Response, Error> {
    Ok(Response::ok(Body::OtherStream { content_type: TEXT.to_owned(), pieces }))
}

fn follow(query: &Query, default: bool) -> Result<bool, Error> {
    query.flag("follow", default).map_err(|error| {
        let problem = error.text.split_once("strconv.").map_or("", |(_, problem)| problem);
        Error::failed(format!("failed to parse follow field to boolean: strconv.{problem}"))
    })
}

fn origin(query: &Query) -> Result<Origin, Error> {
    let offset = match query.text("offset") {
        "" => 0,
        text => offset(text).map_err(Error::failed)?,
    };
    match query.text("origin") {
        "" | "start" => Ok(Origin::Start(offset)),
        "end" => Ok(Origin::End(offset)),
        _ => Err(Error::bad_request("origin must be start or end")),
    }
}

/// Reads or follows the output of a task.
pub(crate) async fn logs(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let agent = AllocAgent::find(api, request.id()).await?;
    let task = match query.text("task") {
        "" => return Err(Error::bad_request("must provide task name")),
        task => Text::from(task),
    };
    let stream = match query.text("type") {
        "stdout" => LogStream::Stdout,
        "stderr" => LogStream::Stderr,
        _ => return Err(Error::bad_request("must provide log type (stdout/stderr)")),
    };
    let (follow, plain) = (follow(query, false)?, query.flag("plain", false)?);
    let source = Source::Logs { task, stream, from: LogPosition::Origin(origin(query)?) };
    if plain {
        let pieces = StreamReader::start(api, agent, source, follow, Framing::Plain).await?;
        return Ok(Response::ok(Body::OtherStream { content_type: "text/plain".to_owned(), pieces }));
    }
    framed(StreamReader::start(api, agent, source, follow, Framing::Frames).await?)
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
    agent.send_task_command(&command).await?;
    Ok(Response::json(&TaskCommandDone { index: 0 }))
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
        ] {
            assert_eq!(safe_content_type(given), shown);
        }
    }

    #[test]
    fn numbers_and_words_of_files() {
        let query = |text| Query::parse("", text);
        assert_eq!(origin(&query("offset=4&origin=end")), Ok(Origin::End(4)));
        assert_eq!(origin(&query("")), Ok(Origin::Start(0)));
        assert_eq!(origin(&query("origin=middle")).unwrap_err().text, "origin must be start or end");
        let error = origin(&query("offset=x")).unwrap_err();
        assert_eq!(error.text, r#"error parsing offset: strconv.ParseInt: parsing "x": invalid syntax"#);
        assert_eq!(error.status.as_u16(), 500);
        assert_eq!(offset("-1").unwrap_err(), "can't seek to offset -1: invalid argument");
        assert_eq!(
            follow(&query("follow=x"), true).unwrap_err().text,
            r#"failed to parse follow field to boolean: strconv.ParseBool: parsing "x": invalid syntax"#
        );
    }
}
