//! Why a request gets no answer of its own, as status and text (http-api §9). The one place where what other parts refuse
//! becomes HTTP.

use actix_web::http::StatusCode;

use crate::admission::Rejection;

/// What the API says when nobody can be found to decide (http-api §5.4); the web interface compares it.
pub(crate) const NO_LEADER: &str = "No cluster leader";

/// An answer that is an error: a status and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    /// The status.
    pub(crate) status: StatusCode,
    /// The whole body.
    pub(crate) text: String,
}

impl Error {
    /// The request is malformed, or a condition that the HTTP layer checks does not hold.
    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, text: text.into() }
    }

    /// What is asked for is not there.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, text: text.into() }
    }

    /// The usual status of whatever failed, also of much that is not the server's fault (http-api §9.2).
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, text: text.into() }
    }

    /// It is not built.
    pub(crate) fn not_built(text: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_IMPLEMENTED, text: text.into() }
    }

    /// The method is none that the route takes.
    pub(crate) fn wrong_method() -> Self {
        Self { status: StatusCode::METHOD_NOT_ALLOWED, text: "Invalid method".to_owned() }
    }

    /// Whether it says that something is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// The body is larger than it may be.
    pub(crate) fn too_large(text: impl Into<String>) -> Self {
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, text: text.into() }
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
