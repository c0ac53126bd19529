//! Periodic checks of a process's health, which run on its event loop: that the loop runs, and that the process's own
//! API and the database answer.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use fail::fail_point;
use store::Database;
use telemetry::clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::board::{Board, Target};

/// How often the event loop records that it runs.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a successful probe.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// The pause after a failed probe.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The timeout of a probe.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The path that the API probe requests. It is cheap, and answered even without a leader.
const API_PATH: &str = "/v1/status/leader";
/// The first bytes of every HTTP response.
const RESPONSE_PREFIX: &[u8] = b"HTTP/1.1 ";

/// Records that the event loop runs, both on this thread and on the runtime's worker threads. Never returns.
pub(crate) async fn event_loop(board: Board) {
    loop {
        // In a runtime with several threads, one of them must be free as well.
        if tokio::spawn(async {}).await.is_err() {
            return;
        }
        fail_point!("process.beat");
        board.record_beat(clock::monotonic());
        sleep(BEAT_INTERVAL).await;
    }
}

/// Probes the process's own API at `addr` periodically.
pub(crate) async fn api(board: Board, addr: SocketAddr) {
    loop {
        let response = timeout(TIMEOUT, request_api(addr)).await;
        let result = match response {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("{addr}: {error}")),
            Err(_) => Err(format!("{addr}: no answer within {} s", TIMEOUT.as_secs())),
        };
        record_and_pause(&board, Target::Api, result).await;
    }
}

/// Probes the database periodically.
pub(crate) async fn database(board: Board, database: Database) {
    loop {
        // One statement at a time: an abandoned statement may still occupy a connection.
        let mut query = pin!(database.head());
        let result = loop {
            match timeout(TIMEOUT, &mut query).await {
                Ok(Ok(_)) => break Ok(()),
                Ok(Err(error)) => break Err(telemetry::chain(&error)),
                Err(_) => {
                    let error = format!("no answer within {} s", TIMEOUT.as_secs());
                    board.record_probe(Target::Database, clock::monotonic(), Err(error));
                }
            }
        };
        record_and_pause(&board, Target::Database, result).await;
    }
}

async fn record_and_pause(board: &Board, target: Target, result: Result<(), String>) {
    let pause = if result.is_ok() { PROBE_INTERVAL } else { RETRY_PAUSE };
    board.record_probe(target, clock::monotonic(), result);
    sleep(pause).await;
}

async fn request_api(addr: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(addr).await?;
    let request = format!("HEAD {API_PATH} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut start = [0; RESPONSE_PREFIX.len()];
    stream.read_exact(&mut start).await?;
    if start == RESPONSE_PREFIX { Ok(()) } else { Err(std::io::Error::other("the answer is not HTTP")) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::super::facts::Parts;
    use super::*;

    #[test]
    fn a_blocked_event_loop_stops_beating_and_goes_on_when_it_is_free() {
        let board = Board::new("it", Parts::SCHEDULER, CancellationToken::new());
        let (block, blocked) = mpsc::channel::<()>();
        let (ready, wait_ready) = mpsc::channel();
        let of_loop = board.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let beating = tokio::spawn(event_loop(of_loop.clone()));
                tokio::task::yield_now().await;
                ready.send(()).unwrap();
                // Nothing else runs on this thread meanwhile.
                blocked.recv().unwrap();
                let freed = clock::monotonic();
                while of_loop.facts(clock::monotonic()).beat_ago > freed.elapsed() {
                    tokio::task::yield_now().await;
                }
                beating.abort();
            });
        });
        wait_ready.recv().unwrap();
        let later = clock::monotonic() + Duration::from_secs(11);
        assert_eq!(board.live(later).status, "not live");
        block.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(board.live(clock::monotonic()).status, "live");
    }

    #[tokio::test]
    async fn an_api_answers_if_it_speaks_http() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let answers = async |answer: &'static [u8]| {
            let serving = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                let length = stream.read(&mut request).await.unwrap();
                assert!(request[..length].starts_with(b"HEAD /v1/status/leader HTTP/1.1\r\n"));
                stream.write_all(answer).await.unwrap();
            };
            tokio::join!(request_api(addr), serving).0
        };
        answers(b"HTTP/1.1 500 Internal Server Error\r\n\r\n").await.unwrap();
        assert_eq!(answers(b"SSH-2.0-x").await.unwrap_err().to_string(), "the answer is not HTTP");
        assert!(answers(b"HTTP").await.is_err());
        drop(listener);
        assert!(request_api(addr).await.is_err());
    }
}
