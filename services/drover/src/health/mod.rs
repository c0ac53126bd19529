//! Health of a service process: whether it lives, whether it is ready, and if not, why not.
//!
//! [`board`] holds what is known of the process, [`facts`] is that as plain data, and [`verdict`] judges it without I/O.
//! [`server`] answers over HTTP from a thread of its own, so that it also answers while the process's event loop is stuck;
//! [`probe`] finds out from within the process what nobody else would notice.

pub(crate) mod board;
pub(crate) mod facts;
pub(crate) mod probe;
pub(crate) mod report;
mod server;
mod verdict;

use std::net::{SocketAddr, TcpListener};

use anyhow::Context as _;

pub(crate) use board::Board;
pub(crate) use facts::Parts;

/// Where a process tells how it fares.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Health")]
pub(crate) struct Args {
    /// Answer /live, /ready and /metrics over HTTP on this address and port, such as 0.0.0.0:4650; nowhere unless given.
    #[arg(long, env = "DROVER_HEALTH_ADDR", value_name = "ADDR:PORT")]
    health_addr: Option<String>,
}

impl Args {
    /// Begins to listen, if there is to be an endpoint.
    ///
    /// # Errors
    /// If the setting is no address, or the address cannot be listened on.
    pub(crate) fn listen(&self) -> anyhow::Result<Option<TcpListener>> {
        let Some(text) = self.health_addr.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        let addr: SocketAddr = text.parse().map_err(|_| {
            anyhow::anyhow!("cannot use {text:?} as the health address: want ADDR:PORT, such as 0.0.0.0:4650")
        })?;
        let listener = TcpListener::bind(addr);
        listener.map(Some).with_context(|| format!("cannot listen on the health address {addr}"))
    }
}

/// Answers on `listener` for as long as the process lives.
///
/// # Errors
/// If the system gives no thread.
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
        assert_eq!(error, "cannot use \"4650\" as the health address: want ADDR:PORT, such as 0.0.0.0:4650");
    }
}
