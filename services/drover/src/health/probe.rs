//! Tasks on a process's event loop that find out how it fares: that the loop runs at all, that the process's own API
//! answers, and that the database does.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use fail::fail_point;
use store::Database;
use telemetry::clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::board::{Board, Subject};

/// How often the event loop shows that it runs.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// How long after it worked something is tried again.
const TRY_EVERY: Duration = Duration::from_secs(5);
/// How long after it failed.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long the answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// What the API is asked: cheap, and answered also without a leader.
const QUESTION: &str = "/v1/status/leader";
/// What an answer over HTTP begins with, whatever it is.
const ANSWER: &[u8] = b"HTTP/1.1 ";

/// Shows that the event loop runs, on this thread as well as on the runtime's others, for ever.
pub(crate) async fn beat(board: Board) {
    loop {
        // Where the runtime has threads, one of them has to be free too.
        if tokio::spawn(async {}).await.is_err() {
            return;
        }
        fail_point!("process.beat");
        board.beat(clock::monotonic());
        sleep(BEAT_EVERY).await;
    }
}

/// Tries from time to time whether the process's own API, which listens on `addr`, answers.
pub(crate) async fn api(board: Board, addr: SocketAddr) {
    loop {
        let tried = timeout(ANSWER_WITHIN, ask_api(addr)).await;
        let result = match tried {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("{addr}: {error}")),
            Err(_) => Err(format!("{addr}: no answer within {} s", ANSWER_WITHIN.as_secs())),
        };
        note(&board, Subject::Api, result).await;
    }
}

/// Tries from time to time whether the database answers.
pub(crate) async fn database(board: Board, database: Database) {
    loop {
        // Asked once at a time: a statement that was given up may still occupy a connection.
        let mut asking = pin!(database.head());
        let result = loop {
            match timeout(ANSWER_WITHIN, &mut asking).await {
                Ok(Ok(_)) => break Ok(()),
                Ok(Err(error)) => break Err(telemetry::chain(&error)),
                Err(_) => {
                    let why = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
                    board.tried(Subject::Database, clock::monotonic(), Err(why));
                }
            }
        };
        note(&board, Subject::Database, result).await;
    }
}

async fn note(board: &Board, subject: Subject, result: Result<(), String>) {
    let pause = if result.is_ok() { TRY_EVERY } else { TRY_AGAIN_AFTER };
    board.tried(subject, clock::monotonic(), result);
    sleep(pause).await;
}

async fn ask_api(addr: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(addr).await?;
    let request = format!("HEAD {QUESTION} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer).await?;
    if answer == ANSWER { Ok(()) } else { Err(std::io::Error::other("the answer is not HTTP")) }
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
        let (tell, told) = mpsc::channel();
        let of_loop = board.clone();
        let event_loop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let beating = tokio::spawn(beat(of_loop.clone()));
                tokio::task::yield_now().await;
                tell.send(()).unwrap();
                // Nothing else runs on this thread meanwhile.
                blocked.recv().unwrap();
                let freed = clock::monotonic();
                while of_loop.facts(clock::monotonic()).beat_ago > freed.elapsed() {
                    tokio::task::yield_now().await;
                }
                beating.abort();
            });
        });
        told.recv().unwrap();
        let later = clock::monotonic() + Duration::from_secs(11);
        assert_eq!(board.live(later).status, "not live");
        block.send(()).unwrap();
        event_loop.join().unwrap();
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
            tokio::join!(ask_api(addr), serving).0
        };
        answers(b"HTTP/1.1 500 Internal Server Error\r\n\r\n").await.unwrap();
        assert_eq!(answers(b"SSH-2.0-x").await.unwrap_err().to_string(), "the answer is not HTTP");
        assert!(answers(b"HTTP").await.is_err());
        drop(listener);
        assert!(ask_api(addr).await.is_err());
    }
}
