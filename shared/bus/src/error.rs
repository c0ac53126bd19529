//! Errors of the connection to NATS: unusable settings, and messages that cannot be sent.

use std::path::PathBuf;

use model::NodeId;

/// An error of the connection, or of sending.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file with credentials, a key or a certificate cannot be read.
    #[error("cannot read the {what} in {path}")]
    File {
        /// Expected contents.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// A file does not contain credentials or a key.
    #[error("{path} contains no {what}")]
    Identity {
        /// Expected contents.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: nats_auth::Error,
    },
    /// The certificate file of an authority contains no certificate.
    #[error("{path} contains no certificate: expected PEM text with BEGIN CERTIFICATE")]
    NoCertificate {
        /// Path of the file.
        path: PathBuf,
    },
    /// An agent has the credentials of another node.
    #[error("the NATS credentials in {path} belong to {found}, but this agent is node {node}")]
    ForeignNode {
        /// Path of the file.
        path: PathBuf,
        /// Owner of the credentials.
        found: String,
        /// Node of the agent.
        node: NodeId,
    },
    /// The client rejects its settings.
    #[error("cannot set up the NATS client")]
    Connect(#[from] async_nats::ConnectError),
    /// The client rejects the subject, or has ended.
    #[error("cannot subscribe to {subject}")]
    Subscribe {
        /// The subject.
        subject: String,
        /// Cause.
        #[source]
        source: async_nats::SubscribeError,
    },
    /// The body is too large for a message.
    #[error("the message has {bytes} bytes; the maximum is {max}")]
    TooLarge {
        /// Size of the body.
        bytes: usize,
        /// Maximum size that NATS accepts, less the headers.
        max: usize,
    },
    /// The system cannot start a thread for a connection.
    #[error("cannot start a thread for a NATS connection")]
    Thread(#[source] std::io::Error),
    /// There is no connection to NATS. Nothing was sent.
    #[error("not connected to NATS")]
    Disconnected,
}
