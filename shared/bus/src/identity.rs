//! Who this process is for NATS: by the URL, by a credentials file, or by a key with which an agent signs its own JWT.
//!
//! Files are read again for each connection, so that credentials can be exchanged while a process runs.

use std::fmt;
use std::path::{Path, PathBuf};

use async_nats::{Auth, AuthError};
use model::NodeId;
use nats_auth::limits::NODE_JWT_SECS;
use nats_auth::{Credentials, NodeKey};
use telemetry::clock;

use crate::args::Args;
use crate::connection::Error;

const CREDENTIALS: &str = "NATS credentials";
const NODE_KEY: &str = "key that signs for nodes";
const AUTHORITY: &str = "certificate";

/// How a process logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// With what stands in the URL, which may be nothing.
    Url,
    /// With a credentials file.
    Credentials(PathBuf),
    /// As this node, with JWTs of its own making.
    NodeKey {
        /// The file with the key.
        path: PathBuf,
        /// The node.
        node: NodeId,
    },
}

impl Identity {
    /// How a process with these settings logs in; checks the files.
    pub(crate) fn of(args: &Args, agent_of: Option<NodeId>) -> Result<Self, Error> {
        if let (Some(node), Some(path)) = (agent_of, &args.node_key) {
            read_node_key(path)?;
            return Ok(Self::NodeKey { path: path.clone(), node });
        }
        let Some(path) = &args.credentials else { return Ok(Self::Url) };
        let credentials = read_credentials(path)?;
        if let Some(node) = agent_of
            && credentials.node() != Some(node)
        {
            let found = match credentials.node() {
                Some(other) => format!("node {other}"),
                None => format!("{}, which is no node", credentials.claims.name),
            };
            return Err(Error::ForeignNode { path: path.clone(), found, node });
        }
        Ok(Self::Credentials(path.clone()))
    }

    /// Answers the server's challenge.
    pub(crate) fn log_in(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        let unusable = |error: Error| AuthError::new(telemetry::chain(&error));
        let credentials = match self {
            Self::Url => return Ok(Auth::new()),
            Self::Credentials(path) => read_credentials(path).map_err(unusable)?,
            Self::NodeKey { path, node } => sign(&read_node_key(path).map_err(unusable)?, *node),
        };
        let mut auth = Auth::new();
        auth.signature = Some(credentials.key.sign(nonce));
        auth.jwt = Some(credentials.jwt);
        Ok(auth)
    }
}

/// Signs a node's credentials for the next connection. Those of many nodes, which may have started together, end at
/// different times.
fn sign(key: &NodeKey, node: NodeId) -> Credentials {
    let good_for = rand::random_range(NODE_JWT_SECS / 2..=NODE_JWT_SECS);
    key.sign(&node.to_string(), node, &mut rand::random, clock::now().as_secs(), Some(good_for))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => f.write_str("the user in the URL, as there are no credentials (--nats-credentials)"),
            Self::Credentials(path) => match read_credentials(path) {
                Ok(credentials) => {
                    let (name, user) = (&credentials.claims.name, &credentials.claims.sub);
                    write!(f, "user {name} ({user}) with the credentials in {}", path.display())
                }
                Err(_) => write!(f, "the user of {}", path.display()),
            },
            Self::NodeKey { path, node } => {
                write!(f, "node {node} with credentials signed by the key in {}", path.display())
            }
        }
    }
}

/// Reads a credentials file.
pub(crate) fn read_credentials(path: &Path) -> Result<Credentials, Error> {
    let text = read(CREDENTIALS, path)?;
    Credentials::read(&text).map_err(|source| Error::Identity {
        what: CREDENTIALS,
        path: path.to_owned(),
        source,
    })
}

fn read_node_key(path: &Path) -> Result<NodeKey, Error> {
    let text = read(NODE_KEY, path)?;
    NodeKey::read(&text).map_err(|source| Error::Identity { what: NODE_KEY, path: path.to_owned(), source })
}

/// Checks that a file holds a certificate.
pub(crate) fn check_authority(path: &Path) -> Result<(), Error> {
    let has_certificate = read(AUTHORITY, path)?.contains("BEGIN CERTIFICATE");
    if has_certificate { Ok(()) } else { Err(Error::NoCertificate { path: path.to_owned() }) }
}

fn read(what: &'static str, path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File { what, path: path.to_owned(), source })
}
