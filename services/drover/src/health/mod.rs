//! Health of a service process: whether it is live, whether it is ready, and if not, why.
//!
//! [`board`] records the health of the process, [`facts`] is a snapshot of it as plain data, and [`verdict`] judges that
//! without I/O. [`server`] answers over HTTP on a thread of its own, so that it answers even while the process's event loop
//! is stuck. [`probe`] checks periodically that the event loop, the API and the database respond.

pub(crate) mod board;
pub(crate) mod facts;
mod info;
pub(crate) mod probe;
pub(crate) mod report;
mod server;
mod verdict;

use std::net::{SocketAddr, TcpListener};

use anyhow::Context as _;

pub(crate) use board::Board;
pub(crate) use facts::Parts;
pub(crate) use info::Identity;

/// Where a process reports its health.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Health")]
pub(crate) struct Args {
    /// Answer /live, /ready and /metrics over HTTP on this address and port, such as 0.0.0.0:4650. Off by default.
    #[arg(long, env = "DROVER_HEALTH_ADDR", value_name = "ADDR:PORT")]
    health_addr: Option<String>,
}

impl Args {
    /// Starts to listen, if the endpoint is enabled.
    ///
    /// # Errors
    /// If the setting is not an address, or listening on it fails.
    pub(crate) fn listen(&self) -> anyhow::Result<Option<TcpListener>> {
        let Some(text) = self.health_addr.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        let addr: SocketAddr = text.parse().map_err(|_| {
            anyhow::anyhow!(
                "cannot use {text:?} as the health address: expected ADDR:PORT, such as 0.0.0.0:4650"
            )
        })?;
        let listener = TcpListener::bind(addr);
        listener.map(Some).with_context(|| format!("cannot listen on the health address {addr}"))
    }
}

/// Serves the health endpoint on `listener` until the process ends.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn serve(listener: TcpListener, board: Board) -> anyhow::Result<()> {
    server::start(listener, board).context("cannot serve the health endpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Args {
        Args { health_addr: Some(text.to_owned()) }
    }

    #[test]
    fn an_address_is_listened_on_and_anything_else_is_refused() {
        assert!(args("").listen().unwrap().is_none());
        assert!(Args::default().listen().unwrap().is_none());
        let listener = args("127.0.0.1:0").listen().unwrap().unwrap();
        let taken = listener.local_addr().unwrap().to_string();
        let error = format!("{:#}", args(&taken).listen().unwrap_err());
        assert!(error.starts_with(&format!("cannot listen on the health address {taken}: ")), "{error}");
        let error = args("4650").listen().unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot use \"4650\" as the health address: expected ADDR:PORT, such as 0.0.0.0:4650"
        );
    }
}
