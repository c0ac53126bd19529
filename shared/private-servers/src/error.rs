//! Errors of starting, stopping and using a private server.

use std::{io, path::PathBuf};

/// The reason why a private server is not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is neither in PATH nor in Debian's directory.
    #[error("{program} is not installed; on Debian and Ubuntu it comes with the package {package}")]
    ProgramMissing {
        /// Name of the executable.
        program: &'static str,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// PostgreSQL refuses to run as root, and there is no other user that could run it.
    #[error("PostgreSQL cannot run as root, and neither of the users postgres and nobody exists")]
    NoUser,
    /// A file or directory could not be read or created.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The attempted operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot run {program}")]
    Run {
        /// Name of the executable.
        program: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("{program} failed: {output}")]
    Failed {
        /// Name of the executable.
        program: &'static str,
        /// Its standard error output.
        output: String,
    },
    /// The server ended, or was not ready in time.
    #[error("{server} did not start: {reason}; the end of its log:\n{log}")]
    NotStarted {
        /// Name of the server.
        server: &'static str,
        /// How it ended, or how long it had.
        reason: String,
        /// The end of its log.
        log: String,
    },
    /// Another process uses the requested port, or every port that was tried.
    #[error("{server} cannot use port {port} on 127.0.0.1: another process is listening on it")]
    PortTaken {
        /// Name of the server.
        server: &'static str,
        /// The port; the last one if several were tried.
        port: u16,
    },
    /// Another process runs a server with these files.
    #[error("another process already runs a server in {}", path.display())]
    InUse {
        /// The server's directory.
        path: PathBuf,
    },
    /// The credentials cannot be created.
    #[error("cannot create NATS credentials")]
    Identity(#[source] nats_auth::Error),
    /// The server still runs after it was told to stop.
    #[error("{server} did not stop in time")]
    NotStopped {
        /// Name of the server.
        server: &'static str,
    },
}

impl Error {
    /// For `map_err`: converts the error of a file operation.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { action, path, source }
    }
}
