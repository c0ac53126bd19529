//! The identity of this process towards NATS: a login in the URL, a credentials file, or a key with which an agent
//! signs its own JWT.
//!
//! Files are read again for each connection, so that credentials can be replaced while a process runs.

use std::fmt;
use std::path::{Path, PathBuf};

use async_nats::{Auth, AuthError};
use model::NodeId;
use nats_auth::limits::NODE_JWT_SECS;
use nats_auth::{Credentials, NodeKey};
use telemetry::clock;

use crate::args::Args;
use crate::error::Error;

const CREDENTIALS: &str = "NATS credentials";
const NODE_KEY: &str = "node signing key";
const AUTHORITY: &str = "certificate";

impl Args {
    /// The node that the credentials were issued for; `None` if they were issued for a service, if there are no
    /// credentials, or if the agent signs its own.
    ///
    /// # Errors
    /// If the credentials file cannot be read.
    pub fn node(&self) -> Result<Option<NodeId>, Error> {
        match (&self.node_key, &self.credentials) {
            (None, Some(path)) => Ok(read_credentials(path)?.node()),
            (Some(_), _) | (None, None) => Ok(None),
        }
    }
}

/// How a process logs in to NATS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// With the login in the URL, if there is one.
    Url,
    /// With a credentials file.
    Credentials(PathBuf),
    /// As this node, with JWTs that the process signs.
    NodeKey {
        /// File with the signing key.
        path: PathBuf,
        /// The node.
        node: NodeId,
    },
}

impl Identity {
    /// The identity that results from these settings. Checks the files.
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
                None => format!("{}, which is not a node", credentials.claims.name),
            };
            return Err(Error::ForeignNode { path: path.clone(), found, node });
        }
        Ok(Self::Credentials(path.clone()))
    }

    /// Responds to the server's challenge.
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

/// Signs a node's credentials for the next connection. Their lifetime is random, so that the credentials of nodes that
/// started together do not expire together.
fn sign(key: &NodeKey, node: NodeId) -> Credentials {
    let good_for = rand::random_range(NODE_JWT_SECS / 2..=NODE_JWT_SECS);
    key.sign(&node.to_string(), node, &mut rand::random, clock::now().as_secs(), Some(good_for))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => f.write_str("the user in the URL (no --nats-credentials given)"),
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
fn read_credentials(path: &Path) -> Result<Credentials, Error> {
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

/// Checks that a file contains a certificate.
pub(crate) fn check_authority(path: &Path) -> Result<(), Error> {
    let has_certificate = read(AUTHORITY, path)?.contains("BEGIN CERTIFICATE");
    if has_certificate { Ok(()) } else { Err(Error::NoCertificate { path: path.to_owned() }) }
}

fn read(what: &'static str, path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File { what, path: path.to_owned(), source })
}
