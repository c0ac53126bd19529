//! Progress of what a command follows: on a terminal one block of lines that is drawn again in place, with the lines that stay
//! above it; elsewhere only the lines that stay.

use super::block::Block;
use super::output::Output;
use super::page::Page;

/// The columns that are assumed if the terminal does not say how many it has.
const COLUMNS: usize = 80;

/// The block that is drawn.
#[derive(Debug)]
pub(crate) struct Progress {
    output: Output,
    block: Block,
}

impl Progress {
    pub(crate) fn new(output: Output) -> Self {
        Self { output, block: Block::default() }
    }

    /// Whether the block is drawn. If it is not, changes are printed as lines instead.
    pub(crate) fn is_drawn(&self) -> bool {
        self.output.is_terminal()
    }

    /// Prints lines that stay, above the block.
    pub(crate) fn print(&mut self, page: &Page) {
        let cleared = self.block.clear();
        self.output.raw(cleared.as_bytes());
        self.output.page(page);
    }

    /// Draws the block again if it has changed. Does nothing where no block is drawn.
    pub(crate) fn draw(&mut self, page: &Page) {
        if self.is_drawn() {
            let written = self.block.draw(&self.output.styled(page), columns());
            self.output.raw(written.as_bytes());
        }
    }

    /// Leaves the block as it is, and goes on below it.
    pub(crate) fn leave(&mut self) {
        self.block.leave();
    }
}

/// Number of columns of the terminal.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}
