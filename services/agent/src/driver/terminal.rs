//! Terminals for commands inside tasks: the agent's end of a pseudoterminal, as a reader and a writer.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{read, write};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::exec_session::TerminalSize;

/// The size of a terminal until the user's is known.
const DEFAULT_SIZE: TerminalSize = TerminalSize { height: 24, width: 80 };
/// The character that ends the input of a terminal (control-D).
const END_OF_INPUT: &[u8] = b"\x04";

/// The agent's end of a terminal. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Terminal(Arc<AsyncFd<OwnedFd>>);

/// Writes what the user types.
#[derive(Debug)]
pub(crate) struct TerminalInput {
    terminal: Terminal,
    is_closed: bool,
}

/// Reads what the user sees. It ends when no process has the terminal open any more.
#[derive(Debug)]
pub(crate) struct TerminalOutput(Terminal);

impl Terminal {
    /// Makes a terminal. Returns its path for the command as well.
    pub(crate) fn open(size: Option<TerminalSize>) -> io::Result<(Self, PathBuf)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?;
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK))?;
        // SAFETY: the descriptor is owned and open, and nothing replaces or closes it while `AsyncFd` owns it.
        let registered = unsafe { AsyncFd::register(master) }?;
        let terminal = Self(Arc::new(registered));
        terminal.resize(size.unwrap_or(DEFAULT_SIZE))?;
        Ok((terminal, PathBuf::from(OsString::from_vec(path.into_bytes()))))
    }

    /// Changes the size. The processes in the terminal get a signal.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.0.get_ref(), size)?)
    }

    /// Its two directions.
    pub(crate) fn halves(&self) -> (TerminalInput, TerminalOutput) {
        (TerminalInput { terminal: self.clone(), is_closed: false }, TerminalOutput(self.clone()))
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            if let Ok(written) = guard.try_io(|master| Ok(write(master.get_ref(), bytes)?)) {
                return Poll::Ready(written);
            }
        }
    }
}

impl AsyncWrite for TerminalInput {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.terminal.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A terminal cannot be closed in one direction. The character that ends its input is typed instead.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_closed {
            ready!(self.terminal.poll_write(context, END_OF_INPUT))?;
            self.is_closed = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TerminalOutput {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let terminal = &self.0.0;
        loop {
            let mut guard = ready!(terminal.poll_read_ready(context))?;
            let free = buffer.initialize_unfilled();
            let Ok(outcome) = guard.try_io(|master| Ok(read(master.get_ref(), free)?)) else { continue };
            return Poll::Ready(match outcome {
                Ok(bytes) => {
                    buffer.advance(bytes);
                    Ok(())
                }
                // The last process that had it open has closed it.
                Err(error) if error.raw_os_error() == Some(Errno::EIO as i32) => Ok(()),
                Err(error) => Err(error),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::termios::tcgetwinsize;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_is_typed_is_read_and_what_is_written_is_seen() {
        let (terminal, path) = Terminal::open(Some(TerminalSize { height: 7, width: 9 })).unwrap();
        // It must not become the terminal of this process.
        let flags = OFlag::O_NOCTTY.bits();
        let mut other = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).unwrap();
        let size = tcgetwinsize(&other).unwrap();
        assert_eq!((size.ws_row, size.ws_col), (7, 9));
        let (mut input, mut output) = terminal.halves();
        input.write_all(b"ls\n").await.unwrap();
        let mut line = [0; 3];
        other.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"ls\n");
        other.write_all(b"out").unwrap();
        let mut seen = Vec::new();
        drop(other);
        output.read_to_end(&mut seen).await.unwrap();
        assert_eq!(seen, b"ls\r\nout", "the terminal echoes what is typed");
    }
}
