//! A block of lines that is drawn again in place on a terminal. Pure: returns what to write; [`super::progress`] writes it.

/// Moves the cursor up by some lines, to the first column.
fn up(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}F") }
}

/// Clears from the cursor to the end of the screen.
const CLEAR: &str = "\x1b[J";

/// The lines that were drawn last.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Number of rows of the terminal that they take.
    rows: usize,
    text: String,
}

impl Block {
    /// What draws these lines in place of the last ones, on a terminal of that many columns. Empty if nothing has changed.
    pub(crate) fn draw(&mut self, text: &str, columns: usize) -> String {
        if self.text == text {
            return String::new();
        }
        let written = format!("{}{CLEAR}{text}", up(self.rows));
        self.rows = rows(text, columns);
        text.clone_into(&mut self.text);
        written
    }

    /// What clears the lines. The next lines are drawn where they began.
    pub(crate) fn clear(&mut self) -> String {
        let written = if self.rows == 0 { String::new() } else { format!("{}{CLEAR}", up(self.rows)) };
        *self = Self::default();
        written
    }

    /// Leaves the lines where they are. The next lines are drawn below.
    pub(crate) fn leave(&mut self) {
        *self = Self::default();
    }
}

/// Number of rows of a terminal that lines take. Escape sequences take no columns.
fn rows(text: &str, columns: usize) -> usize {
    let rows_of = |line: &str| width(line).div_ceil(columns.max(1)).max(1);
    text.lines().map(rows_of).fold(0, usize::saturating_add)
}

/// Number of characters of a line without its escape sequences.
fn width(line: &str) -> usize {
    let mut is_escape = false;
    let is_shown = |character: &char| {
        if is_escape {
            is_escape = *character != 'm';
            return false;
        }
        is_escape = *character == '\x1b';
        !is_escape
    };
    line.chars().filter(is_shown).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_drawn_over_the_one_before() {
        let mut block = Block::default();
        assert_eq!(block.draw("a\nb\n", 80), "\x1b[Ja\nb\n");
        assert_eq!(block.draw("a\nb\n", 80), "", "nothing has changed");
        assert_eq!(block.draw("c\n", 80), "\x1b[2F\x1b[Jc\n");
        assert_eq!(block.clear(), "\x1b[1F\x1b[J");
        assert_eq!(block.clear(), "");
        assert_eq!(block.draw("c\n", 80), "\x1b[Jc\n");
        block.leave();
        assert_eq!(block.draw("d\n", 80), "\x1b[Jd\n");
    }

    #[test]
    fn long_lines_take_several_rows_and_colours_none() {
        assert_eq!(rows("12345\n", 5), 1);
        assert_eq!(rows("123456\n\nx\n", 5), 4);
        assert_eq!(rows("\x1b[1m12345\x1b[0m\n", 5), 1);
        assert_eq!(rows("", 5), 0);
        assert_eq!(rows("ab\n", 0), 2, "a terminal without columns");
    }
}
