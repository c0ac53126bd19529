//! Short requests to the engine without an async runtime, for fingerprints, which are made on a blocking thread.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::answers::{EngineInfo, Network, Version};
use super::{ANSWER_BYTES_MAX, Engine, EngineError, unreachable};

/// How long the engine may take for one part of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Engine {
    /// What the engine is. It blocks.
    pub(crate) fn version_blocking(&self) -> Result<Version, EngineError> {
        self.get_blocking("/version")
    }

    /// What the engine can do. It blocks.
    pub(crate) fn info_blocking(&self) -> Result<EngineInfo, EngineError> {
        self.get_blocking("/info")
    }

    /// The node's address in the engine's default network, if it has one. It blocks.
    pub(crate) fn bridge_ip_blocking(&self) -> Option<String> {
        let network = self.get_blocking::<Network>("/networks/bridge").ok()?;
        let mut gateways = network.ipam.config.into_iter().flatten().map(|subnet| subnet.gateway);
        gateways.find(|gateway| !gateway.is_empty())
    }

    /// Sends a request of HTTP/1.0: the answer ends with the connection, and is not cut into chunks.
    fn get_blocking<T: DeserializeOwned>(&self, path: &str) -> Result<T, EngineError> {
        let answer = self.exchange(path).map_err(|error| unreachable(self.socket(), &error))?;
        let invalid = |what: &str| EngineError::Invalid(format!("{path}: {what}"));
        let (head, body) = split(&answer).ok_or_else(|| invalid("it is not HTTP"))?;
        let status = status(head).ok_or_else(|| invalid("it has no status"))?;
        if status != 200 {
            let message = format!("{path}: status {status}: {}", String::from_utf8_lossy(body).trim());
            return Err(EngineError::Refused { status, message });
        }
        serde_json::from_slice(body).map_err(|error| invalid(&error.to_string()))
    }

    fn exchange(&self, path: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: engine\r\n\r\n").as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX as u64).read_to_end(&mut answer)?;
        Ok(answer)
    }
}

/// Splits an answer into its head and its body.
fn split(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    const END: &[u8] = b"\r\n\r\n";
    let end = answer.windows(END.len()).position(|window| window == END)?;
    Some((&answer[..end], &answer[end + END.len()..]))
}

fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    line.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let answer = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}\r\n\r\n";
        let (head, body) = split(answer).unwrap();
        assert_eq!((status(head), body), (Some(200), &b"{}\r\n\r\n"[..]));
        assert_eq!(split(b"SSH-2.0"), None);
    }
}
