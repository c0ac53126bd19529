//! Standard input and output of this process. Threads read and write them, because they may be blocked for as long as
//! somebody else likes, and a thread that still reads does not keep the process from ending.

use std::io::{self, Read as _, Write as _};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::Room;

/// Maximum size of what is read at once, in bytes.
const READ_BYTES_MAX: usize = 32 << 10;
/// Number of pieces that wait in each direction.
const PIECES_MAX: usize = 4;

/// Standard input.
#[derive(Debug)]
pub(super) struct Input(mpsc::Receiver<Vec<u8>>);

/// A part of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chunk {
    /// For standard output.
    Stdout(Vec<u8>),
    /// For standard error.
    Stderr(Vec<u8>),
}

/// Standard output and standard error.
#[derive(Debug)]
pub(super) struct Output {
    chunks: Option<mpsc::Sender<Chunk>>,
    done: Option<oneshot::Receiver<()>>,
}

impl Input {
    /// Starts to read.
    pub(super) fn start() -> Self {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        thread::spawn(move || {
            let mut buffer = vec![0; READ_BYTES_MAX];
            loop {
                match io::stdin().lock().read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // What cannot be read has ended.
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => {
                        if sender.blocking_send(buffer[..bytes].to_vec()).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        Self(receiver)
    }

    /// The next bytes; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.0.recv().await
    }
}

impl Output {
    /// Starts to write.
    pub(super) fn start() -> Self {
        let (chunks, mut receiver) = mpsc::channel(PIECES_MAX);
        let (is_done, done) = oneshot::channel();
        thread::spawn(move || {
            while let Some(chunk) = receiver.blocking_recv() {
                if write(chunk).is_err() {
                    break;
                }
            }
            // Fails if nobody waits for it.
            let _ = is_done.send(());
        });
        Self { chunks: Some(chunks), done: Some(done) }
    }

    /// Waits for room for a part; `None` if nobody reads the output any more. Cancel safe.
    pub(super) async fn room(&self) -> Option<Room<'_, Chunk>> {
        self.chunks.as_ref()?.reserve().await.ok()
    }

    /// Waits until everything is written.
    pub(super) async fn finish(&mut self) {
        self.chunks = None;
        if let Some(done) = self.done.take() {
            // Fails only if the thread is gone.
            let _ = done.await;
        }
    }
}

fn write(chunk: Chunk) -> io::Result<()> {
    match chunk {
        Chunk::Stdout(bytes) => {
            let mut out = io::stdout().lock();
            out.write_all(&bytes)?;
            out.flush()
        }
        Chunk::Stderr(bytes) => io::stderr().lock().write_all(&bytes),
    }
}
