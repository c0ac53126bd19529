//! What can go wrong while a server is started, stopped or asked for a database.

use std::{io, path::PathBuf};

/// Why a private server is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is neither in PATH nor where Debian puts it.
    #[error("{program} is not installed; on Debian and Ubuntu it comes with the package {package}")]
    ProgramMissing {
        /// Name of the executable.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// PostgreSQL refuses to run as root, and there is nobody else to run it.
    #[error("PostgreSQL must not run as root, and there is no user postgres or nobody to run it")]
    NoUser,
    /// A file or directory could not be read or made.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program could not be run at all.
    #[error("cannot run {program}")]
    Run {
        /// Name of the executable.
        program: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A program that ends by itself ended badly.
    #[error("{program} failed: {output}")]
    Failed {
        /// Name of the executable.
        program: &'static str,
        /// What it wrote to its standard error.
        output: String,
    },
    /// The server ended, or stayed silent, before it could be connected to.
    #[error("{server} did not start: {reason}; the end of its log:\n{log}")]
    NotStarted {
        /// Which server.
        server: &'static str,
        /// How it ended, or how long it was given.
        reason: String,
        /// The last lines of its log.
        log: String,
    },
    /// Another process has the port that was asked for, or every port that was tried.
    #[error("{server} cannot have the port {port} on 127.0.0.1: another process listens there")]
    PortTaken {
        /// Which server.
        server: &'static str,
        /// The port, the last one where several were tried.
        port: u16,
    },
    /// Another process runs a server on these files.
    #[error("another process already runs a server in {}", path.display())]
    InUse {
        /// The server's directory.
        path: PathBuf,
    },
    /// There are no such credentials.
    #[error("cannot make credentials for NATS")]
    Identity(#[source] nats_auth::Error),
    /// The server was asked to stop, and to go, and is still there.
    #[error("{server} does not stop")]
    NotStopped {
        /// Which server.
        server: &'static str,
    },
}

impl Error {
    /// For `map_err`: a file operation that failed.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { action, path, source }
    }
}
