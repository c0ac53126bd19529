//! `drover operator api`: sends an arbitrary request, with the address, token and other settings that all commands use.
//!
//! Prints the response whatever its status. The exit code only shows whether there was a response (`docs/rules/cli.md` §3).

use std::fmt::Write as _;
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response};

use crate::cli::paging::quote;
use crate::cli::{ApiCommand, Session};

/// Maximum size of a request body, in bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// The path of standard input.
const STDIN: &str = "/dev/stdin";

/// Sends a request to the API, and prints the response.
///
/// If standard input is a pipe or a file, it is the body of the request, and the default method is POST. Prints the response
/// whatever its status, and exits with 0 if there is one.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The path of the request, such as `/v1/jobs`, optionally with a query.
    path: String,
    /// The method of the request, such as `PUT`. By default, GET, or POST if there is a body.
    #[arg(short = 'X', value_name = "METHOD", value_parser = method)]
    method: Option<Method>,
    /// A header of the request, as in `-H "Accept: text/plain"`. May be given several times.
    #[arg(short = 'H', value_name = "HEADER", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The body of the request, instead of standard input.
    #[arg(short = 'd', value_name = "BODY")]
    data: Option<String>,
    /// Show only items that match this filter expression, such as `Status == running`. For responses that are lists.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Do not send the request, but print a curl command that sends it.
    #[arg(long)]
    dryrun: bool,
    /// Print the headers of the request and of the response to standard error.
    #[arg(long, conflicts_with = "dryrun")]
    verbose: bool,
}

/// The source of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body<'a> {
    None,
    Inline(&'a str),
    Stdin,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let (method, body) = method_and_body(self.method.clone(), self.data.as_deref(), is_piped());
        let query: Vec<_> = self.filter.iter().map(|filter| ("filter", filter.as_str())).collect();
        let headers = HeaderMap::from_iter(self.headers.clone());
        let mut request = session.client.build_request(method, &path(&self.path)?, &query, headers)?;
        if self.dryrun {
            session.output.line(&curl(&request, body));
            return Ok(ExitCode::SUCCESS);
        }
        *request.body_mut() = match body {
            Body::None => None,
            Body::Inline(text) => Some(text.to_owned().into()),
            Body::Stdin => Some(read_stdin()?.into()),
        };
        if self.verbose {
            session.output.report(|_| request_head(&request));
        }
        let mut response = session.client.execute(request).await?;
        if self.verbose {
            session.output.report(|_| response_head(&response));
        }
        while let Some(piece) =
            response.chunk().await.context("the connection was lost before the end of the response")?
        {
            session.output.raw(&piece);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The method and the body of a request. Standard input is not read for methods without a body.
fn method_and_body(method: Option<Method>, data: Option<&str>, is_piped: bool) -> (Method, Body<'_>) {
    let takes_none = matches!(method, Some(Method::GET | Method::HEAD));
    let body = match data {
        Some(text) => Body::Inline(text),
        None if is_piped && !takes_none => Body::Stdin,
        None => Body::None,
    };
    let default = if body == Body::None { Method::GET } else { Method::POST };
    (method.unwrap_or(default), body)
}

/// Whether standard input is a pipe or a file.
fn is_piped() -> bool {
    let kind = std::fs::metadata(STDIN).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file())
}

fn read_stdin() -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    let read = std::io::stdin().lock().take(BODY_BYTES_MAX + 1).read_to_end(&mut body);
    read.context("cannot read standard input")?;
    ensure!(body.len() as u64 <= BODY_BYTES_MAX, "the body is larger than {BODY_BYTES_MAX} bytes");
    Ok(body)
}

/// The path of a request. The leading slash is optional.
fn path(text: &str) -> anyhow::Result<String> {
    ensure!(
        !text.contains("://"),
        "cannot request {text:?}: expected a path such as /v1/jobs; use -address for the server"
    );
    Ok(if text.starts_with('/') { text.to_owned() } else { format!("/{text}") })
}

fn method(text: &str) -> Result<Method, String> {
    Method::from_bytes(text.to_uppercase().as_bytes()).map_err(|_| "expected a method such as PUT".to_owned())
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || "expected a name and a value, as in `Accept: text/plain`".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
    Ok((name, value))
}

/// The request as a curl command. Secrets appear as the variables that contain them.
fn curl(request: &Request, body: Body<'_>) -> String {
    let mut command = format!("curl \\\n  -X {}", request.method());
    for (name, value) in request.headers() {
        let argument = match (value.is_sensitive(), name.as_str()) {
            (false, name) => format!("-H {}", quote(&format!("{name}: {}", text(value)))),
            (true, "authorization") => "--user \"${NOMAD_HTTP_AUTH}\"".to_owned(),
            (true, name) => format!("-H \"{name}: ${{NOMAD_TOKEN}}\""),
        };
        let _ = write!(command, " \\\n  {argument}");
    }
    let argument = match body {
        Body::None => String::new(),
        Body::Inline(text) => format!(" \\\n  --data-binary {}", quote(text)),
        Body::Stdin => " \\\n  --data-binary @-".to_owned(),
    };
    format!("{command}{argument} \\\n  {}", quote(request.url().as_str()))
}

fn request_head(request: &Request) -> String {
    let url = request.url();
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("> {} {}{query}\n{}>", request.method(), url.path(), headers('>', request.headers()))
}

fn response_head(response: &Response) -> String {
    format!("< {:?} {}\n{}<", response.version(), response.status(), headers('<', response.headers()))
}

fn headers(mark: char, headers: &HeaderMap) -> String {
    let display =
        |value: &HeaderValue| if value.is_sensitive() { "<hidden>".to_owned() } else { text(value) };
    headers.iter().map(|(name, value)| format!("{mark} {name}: {}\n", display(value))).collect()
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_input_is_sent_by_methods_with_a_body() {
        assert_eq!(method_and_body(None, None, false), (Method::GET, Body::None));
        assert_eq!(method_and_body(None, None, true), (Method::POST, Body::Stdin));
        assert_eq!(method_and_body(Some(Method::PUT), None, true), (Method::PUT, Body::Stdin));
        assert_eq!(method_and_body(Some(Method::GET), None, true), (Method::GET, Body::None));
        assert_eq!(method_and_body(None, Some("{}"), true), (Method::POST, Body::Inline("{}")));
    }

    #[test]
    fn methods_headers_and_paths_are_read() {
        let (name, value) = header("X-Nomad-Token:  abc ").unwrap();
        assert_eq!((name.as_str(), text(&value)), ("x-nomad-token", "abc".to_owned()));
        assert_eq!(method("put"), Ok(Method::PUT));
        assert!(method("").is_err());
        assert!(header("no colon").is_err());
        assert!(header("a name: x").is_err());
        assert_eq!(path("v1/jobs?prefix=a").unwrap(), "/v1/jobs?prefix=a");
        assert!(path("http://elsewhere/v1/jobs").is_err(), "the token must not be sent to other servers");
    }

    fn request() -> Request {
        let mut token = HeaderValue::from_static("a-secret");
        token.set_sensitive(true);
        let request =
            reqwest::Client::new().put("http://127.0.0.1:4646/v1/jobs?filter=Status+%3D%3D+%22dead%22");
        request.header("X-Nomad-Token", token).header("Accept", "it's").build().unwrap()
    }

    #[test]
    fn secrets_are_not_printed() {
        insta::assert_snapshot!(curl(&request(), Body::Inline("{\"a\": 1}")), @r#"
        curl \
          -X PUT \
          -H "x-nomad-token: ${NOMAD_TOKEN}" \
          -H 'accept: it'\''s' \
          --data-binary '{"a": 1}' \
          'http://127.0.0.1:4646/v1/jobs?filter=Status+%3D%3D+%22dead%22'
        "#);
        insta::assert_snapshot!(request_head(&request()), @r"
        > PUT /v1/jobs?filter=Status+%3D%3D+%22dead%22
        > x-nomad-token: <hidden>
        > accept: it's
        >
        ");
    }
}
