//! Error responses: a status and a text (http-api §9). Errors of other modules are converted to HTTP here only.

use actix_web::http::StatusCode;

use crate::admission::Rejection;

/// Error text when there is no active applier (http-api §5.4). The web interface compares it exactly.
pub(crate) const NO_LEADER: &str = "No cluster leader";
/// Error text for a region that is not this cluster's (http-api §3).
pub(crate) const NO_REGION: &str = "No path to region";

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// Whole response body.
    pub(crate) text: String,
    /// What the log says beyond the text.
    pub(crate) detail: String,
    /// What caused it. The status does not say, because the reference answers many mistakes of clients with 500.
    pub(crate) cause: Cause,
    /// Whether a read has its headers although it ends in this error (http-api §4.1).
    pub(crate) keeps_headers: bool,
}

/// What caused an error, and so who has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The request: its sender has to act.
    Request,
    /// The cluster: its operator has to act, unless it recovers.
    Cluster,
}

impl Error {
    /// An error that the request caused.
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let keeps_headers = status == StatusCode::NOT_FOUND;
        Self { status, text: text.into(), detail: String::new(), cause: Cause::Request, keeps_headers }
    }

    /// 400: the request is malformed, or a condition that the HTTP layer checks does not hold.
    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 404: the requested object does not exist.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 500: the usual status of a failure that the request caused (http-api §9.2).
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// 500: the cluster cannot serve the request now.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self { cause: Cause::Cluster, ..Self::failed(text) }
    }

    /// 403: requests of this sender are refused.
    pub(crate) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// 429: as many requests of this kind last already as this server serves at the same time.
    pub(crate) fn too_many(text: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, text)
    }

    /// 503: this server lacks threads or memory for the request now.
    pub(crate) fn overloaded(text: impl Into<String>) -> Self {
        Self { cause: Cause::Cluster, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, text) }
    }

    /// 415: the request body has an encoding that this server does not read.
    pub(crate) fn unsupported_encoding(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    }

    /// 501: the feature is not built.
    pub(crate) fn not_built(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, text)
    }

    /// 405: the route does not accept the method.
    pub(crate) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Invalid method")
    }

    /// Whether the error is a 404.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// 413: the request body is too large.
    pub(crate) fn too_large(text: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Invalid(invalid) => Self::failed(invalid.problems.to_string()),
            Rejection::NotBuilt(missing) => Self::not_built(missing.to_string()),
            Rejection::Update(reason) => Self::failed(reason),
        }
    }
}
