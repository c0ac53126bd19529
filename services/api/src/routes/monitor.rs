//! Route that streams the log of this process (http-api §27).

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::Bytes;
use futures::stream;
use model::features::Feature;
use model::text::quoted;
use serde_json::{Map, Value};
use telemetry::monitor::{Line, Listener, Received, listen};
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::Request;
use crate::Api;
use crate::http::{Body, BodyStream, Error, Framing, Permit, PermitKind, Query, Response, StreamItem};

/// Time without a line after which a heartbeat frame is sent.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Log levels by name.
const LEVELS: [(&str, Level); 6] = [
    ("trace", Level::TRACE),
    ("debug", Level::DEBUG),
    ("info", Level::INFO),
    ("warn", Level::WARN),
    ("error", Level::ERROR),
    ("err", Level::ERROR),
];

/// Format of log lines.
#[derive(Debug, Clone, Copy)]
struct Style {
    json: bool,
    with_location: bool,
}

/// Streams the log of this process until the client disconnects.
pub(crate) async fn follow(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let level = level(query.text("log_level"))?;
    let style = Style {
        json: option(query, "log_json", "log json")?,
        with_location: option(query, "log_include_location", "log include location")?,
    };
    let framing = if option(query, "plain", "plain")? { Framing::Plain } else { Framing::Frames };
    if !query.text("server_id").is_empty() && !query.text("node_id").is_empty() {
        return Err(Error::bad_request("Cannot target node and server simultaneously"));
    }
    if let Some(problem) = api.wrong_server(query) {
        return Err(Error::bad_request(problem));
    }
    check_node(api, query).await?;
    let permit = api.permits.take(PermitKind::Monitor)?;
    let content_type = match framing {
        Framing::Plain => "text/plain",
        Framing::Frames => "text/plain; charset=utf-8",
    };
    let pieces = pieces((listen(level), permit), style, framing, api.stop.clone());
    Ok(Response::ok(Body::OtherStream { content_type: content_type.to_owned(), is_untrusted: false, pieces }))
}

/// Checks a request for a machine's journal or for a log file, which is not built yet.
pub(crate) fn export(api: &Api, request: &Request) -> Result<Response, Error> {
    let query = &request.query;
    let (service, is_on_disk) = (query.text("service_name"), option(query, "on_disk", "on disk")?);
    if service.is_empty() && !is_on_disk {
        return Err(Error::bad_request("Either -service-name or -on-disk must be set"));
    }
    if !service.is_empty() && !service.contains("nomad") {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Err(Error::new(status, "service name must include 'nomad"));
    }
    if let Some(problem) = api.wrong_server(query) {
        return Err(Error::bad_request(problem));
    }
    Err(Error::not_built(Feature::JournalExport.refusal_of("GET /v1/agent/monitor/export")))
}

/// A boolean, which errors call by another name.
fn option(query: &Query, name: &str, shown: &str) -> Result<bool, Error> {
    query.flag(name, false).map_err(|_| {
        let value = quoted(query.text(name));
        Error::bad_request(format!(
            "Unknown option for {shown}: strconv.ParseBool: parsing {value}: invalid syntax"
        ))
    })
}

fn level(name: &str) -> Result<Level, Error> {
    let name = if name.is_empty() { "info" } else { name };
    let known = LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, level)| *level).ok_or_else(|| Error::bad_request(format!("Unknown log level: {name}")))
}

/// Checks that a requested node is the one of this process. It cannot read the logs of other nodes ([`Feature::RemoteLogs`]).
async fn check_node(api: &Api, query: &Query) -> Result<(), Error> {
    let named = query.text("node_id");
    if named.is_empty() {
        return Ok(());
    }
    let node = api.node_of(query).await.map_err(|error| match error.is_not_found() {
        true => Error::failed(format!("RPC Error:: 404,Unknown node {}", quoted(named))),
        false => Error { text: format!("RPC Error:: {},{}", error.status.as_u16(), error.text), ..error },
    })?;
    if api.colocated.node == Some(node) {
        return Ok(());
    }
    Err(Error::not_built(Feature::RemoteLogs.refusal()))
}

fn pieces(
    (listener, permit): (Listener, Permit),
    style: Style,
    framing: Framing,
    stop: CancellationToken,
) -> BodyStream {
    Box::pin(stream::unfold((listener, permit, stop), move |(mut listener, permit, stop)| async move {
        loop {
            let item = tokio::select! {
                logged = listener.next() => StreamItem::Data {
                    file: "".into(),
                    end: 0,
                    data: Bytes::from(text(&logged, style)),
                },
                () = tokio::time::sleep(HEARTBEAT) => StreamItem::Nothing,
                () = stop.cancelled() => return None,
            };
            if let Some(bytes) = framing.frame(&item) {
                return Some((Ok(bytes), (listener, permit, stop)));
            }
        }
    }))
}

/// Formats one line, with a newline at the end.
fn text(logged: &Received, style: Style) -> String {
    let missed;
    let line = match logged {
        Received::Line(line) => line.as_ref(),
        Received::Missed(count) => {
            missed = Line {
                at: telemetry::clock::now(),
                level: Level::WARN,
                target: "monitor",
                location: None,
                message: "lines were dropped: the client reads too slowly".to_owned(),
                fields: vec![("lines", count.to_string())],
            };
            &missed
        }
    };
    if style.json { json_line(line, style.with_location) } else { human_line(line, style.with_location) }
}

fn time(line: &Line) -> String {
    api_types::Time::from_unix_nanos(line.at.0).to_string()
}

fn human_line(line: &Line, with_location: bool) -> String {
    let Line { level, target, message, fields, .. } = line;
    let level = format!("[{level}]");
    let mut text = format!("{} {level:<7} ", time(line));
    if let (true, Some((file, number))) = (with_location, line.location) {
        text.push_str(&format!("{file}:{number}: "));
    }
    text.push_str(&format!("{target}: {message}"));
    for (position, (name, value)) in fields.iter().enumerate() {
        let before = if position == 0 { ":" } else { "" };
        let is_plain = !value.is_empty() && !value.contains([' ', '"', '\n', '=']);
        let value = if is_plain { value.clone() } else { quoted(value) };
        text.push_str(&format!("{before} {name}={value}"));
    }
    // A message may contain newlines, but the output is one line.
    text = text.replace('\n', "\\n");
    text.push('\n');
    text
}

fn json_line(line: &Line, with_location: bool) -> String {
    let mut object = Map::new();
    for (name, value) in &line.fields {
        object.insert((*name).to_owned(), Value::from(value.as_str()));
    }
    if let (true, Some((file, number))) = (with_location, line.location) {
        object.insert("@caller".to_owned(), format!("{file}:{number}").into());
    }
    object.insert("@level".to_owned(), line.level.as_str().to_ascii_lowercase().into());
    object.insert("@message".to_owned(), line.message.as_str().into());
    object.insert("@module".to_owned(), line.target.into());
    object.insert("@timestamp".to_owned(), time(line).into());
    format!("{}\n", Value::Object(object))
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    fn line() -> Line {
        Line {
            at: Timestamp::from_secs(1_767_225_600),
            level: Level::INFO,
            target: "api::routes",
            location: Some(("src/x.rs", 7)),
            message: "it\nhappened".to_owned(),
            fields: vec![("node.id", "n-1".to_owned()), ("why", "no \"room\"".to_owned())],
        }
    }

    #[test]
    fn lines_are_for_people_or_for_programs() {
        assert_eq!(
            human_line(&line(), false),
            "2026-01-01T00:00:00Z [INFO]  api::routes: it\\nhappened: node.id=n-1 why=\"no \\\"room\\\"\"\n"
        );
        assert!(human_line(&line(), true).contains("src/x.rs:7: api::routes"));
        let json: Value = serde_json::from_str(&json_line(&line(), true)).unwrap();
        assert_eq!((&json["@level"], &json["@message"]), (&"info".into(), &"it\nhappened".into()));
        assert_eq!((&json["why"], &json["@caller"]), (&"no \"room\"".into(), &"src/x.rs:7".into()));
    }

    #[test]
    fn the_number_of_missed_lines_is_sent() {
        let style = Style { json: false, with_location: false };
        let line_text = text(&Received::Missed(12), style);
        assert!(line_text.ends_with("monitor: lines were dropped: the client reads too slowly: lines=12\n"));
    }

    #[test]
    fn levels_are_known_by_their_names() {
        assert_eq!(level(""), Ok(Level::INFO));
        assert_eq!(level("WARN"), Ok(Level::WARN));
        assert_eq!(level("nonsense").unwrap_err().text, "Unknown log level: nonsense");
    }
}
