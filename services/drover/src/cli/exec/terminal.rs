//! The user's terminal: in raw mode while a command has it, and its size.

use std::io;
use std::sync::{Once, OnceLock};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The mode of the terminal before a command had it. The process has one terminal.
static BEFORE: OnceLock<Termios> = OnceLock::new();
/// Makes a panic restore the terminal, too: then nothing is dropped.
static RESTORING: Once = Once::new();

/// The terminal in raw mode: every key reaches the command. Dropping it restores the mode that it had.
#[derive(Debug)]
pub(super) struct RawTerminal(());

impl RawTerminal {
    /// Changes the mode of the terminal that is standard input.
    pub(super) fn enter() -> io::Result<Self> {
        let mut mode = tcgetattr(io::stdin())?;
        // If it is set, the terminal has the mode of that time again.
        let _ = BEFORE.set(mode.clone());
        RESTORING.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                next(panic);
            }));
        });
        mode.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &mode)?;
        Ok(Self(()))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(before) = BEFORE.get() {
        // Fails if the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
    }
}

/// Rows and columns of the terminal; `None` if it does not know.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}
