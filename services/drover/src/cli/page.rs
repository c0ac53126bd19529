//! The output of a command, as lines: tables, blocks of keys and values, titles (`docs/rules/cli.md` §2). Pure;
//! [`super::output`] writes it.

use std::fmt;

/// Lines of output.
#[derive(Debug, Default)]
pub(crate) struct Page(Vec<Line>);

#[derive(Debug)]
struct Line {
    text: String,
    /// The escape sequence of the line's style on a terminal.
    style: &'static str,
    /// The line with coloured statuses, if it has any.
    coloured: Option<String>,
}

/// The colours of lines.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Colour {
    /// New, or good.
    Green,
    /// Removed, or bad.
    Red,
    /// Changed, or a warning.
    Yellow,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Colour::Green => "\x1b[32m",
            Colour::Red => "\x1b[31m",
            Colour::Yellow => "\x1b[33m",
        }
    }
}

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// The columns and keys whose values are statuses.
const STATUSES: [&str; 3] = ["Status", "Client Status", "State"];

/// The colour of a status. `None` for one that is neither good nor bad.
fn status_colour(status: &str) -> Option<Colour> {
    match status {
        "running" | "ready" | "successful" | "alive" => Some(Colour::Green),
        "failed" | "lost" | "down" => Some(Colour::Red),
        "blocked" | "pending" | "unknown" | "disconnected" | "initializing" | "paused" => {
            Some(Colour::Yellow)
        }
        _ => None,
    }
}

impl Page {
    fn push(&mut self, text: impl Into<String>, style: &'static str) {
        self.0.push(Line { text: text.into(), style, coloured: None });
    }

    pub(crate) fn line(&mut self, text: impl Into<String>) {
        self.push(text, "");
    }

    /// A bold line.
    pub(crate) fn bold(&mut self, text: impl Into<String>) {
        self.push(text, BOLD);
    }

    /// A coloured line.
    pub(crate) fn coloured(&mut self, colour: Colour, text: impl Into<String>) {
        self.push(text, colour.code());
    }

    /// A title above a table or block, after an empty line.
    pub(crate) fn title(&mut self, text: impl Into<String>) {
        if !self.0.is_empty() {
            self.line("");
        }
        self.bold(text);
    }

    /// A table below a row of column names. Each row must have a cell for each column.
    pub(crate) fn table<R: AsRef<[String]>>(&mut self, header: &[&str], rows: impl IntoIterator<Item = R>) {
        let rows = rows.into_iter().map(|row| {
            let cells = row.as_ref().iter().map(|cell| cell_text(cell).to_owned());
            cells.collect::<Vec<_>>()
        });
        self.table_with_gaps(header, rows);
    }

    /// The same. Empty cells stay empty.
    pub(crate) fn table_with_gaps<R: AsRef<[String]>>(
        &mut self,
        header: &[&str],
        rows: impl IntoIterator<Item = R>,
    ) {
        let rows: Vec<R> = rows.into_iter().collect();
        let width = |(column, name): (usize, &&str)| {
            let cells = rows.iter().map(|row| row.as_ref()[column].chars().count());
            cells.chain([name.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = header.iter().enumerate().map(width).collect();
        let names = || header.iter().map(|name| (*name, None));
        self.bold(align(names(), &widths));
        for row in &rows {
            let cells = || row.as_ref().iter().map(String::as_str);
            let colours = || {
                let is_status =
                    |(cell, name): (&str, &&str)| status_colour(cell).filter(|_| STATUSES.contains(name));
                cells().zip(header).map(is_status)
            };
            let text = align(cells().map(|cell| (cell, None)), &widths);
            let has_colours = colours().any(|colour| colour.is_some());
            let coloured = has_colours.then(|| align(cells().zip(colours()), &widths));
            self.0.push(Line { text, style: "", coloured });
        }
    }

    /// A block of keys and values.
    pub(crate) fn block(&mut self, pairs: &[(&str, String)]) {
        let width = pairs.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
        for (key, value) in pairs {
            let text = |value: &str| format!("{key:width$} = {value}");
            let colour = status_colour(value).filter(|_| STATUSES.contains(key));
            let coloured = colour.map(|colour| text(&format!("{}{value}{PLAIN}", colour.code())));
            self.0.push(Line { text: text(cell_text(value)), style: "", coloured });
        }
    }

    /// The lines with colours, also of statuses.
    pub(crate) fn text_with_statuses(&self) -> String {
        let line = |line: &Line| match &line.coloured {
            Some(coloured) => format!("{coloured}\n"),
            None => styled(line, true),
        };
        self.0.iter().map(line).collect()
    }

    /// The lines, with or without colours, each with a line end.
    pub(crate) fn text(&self, colours: bool) -> String {
        self.0.iter().map(|line| styled(line, colours)).collect()
    }
}

fn styled(line: &Line, colours: bool) -> String {
    match colours && !line.style.is_empty() {
        true => format!("{}{}{PLAIN}\n", line.style, line.text),
        false => format!("{}\n", line.text),
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(false))
    }
}

/// The text of a cell; `<none>` for an empty one.
fn cell_text(cell: &str) -> &str {
    if cell.is_empty() { "<none>" } else { cell }
}

/// Cells padded to their columns and separated by two spaces, without trailing spaces, each in its colour.
fn align<'a>(cells: impl Iterator<Item = (&'a str, Option<Colour>)>, widths: &[usize]) -> String {
    let padded = cells.zip(widths).map(|((text, colour), width)| {
        let padding = " ".repeat(width.saturating_sub(text.chars().count()));
        match colour {
            Some(colour) => format!("{}{text}{PLAIN}{padding}", colour.code()),
            None => format!("{text}{padding}"),
        }
    });
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_blocks_are_aligned() {
        let mut page = Page::default();
        page.block(&[("ID", "example".to_owned()), ("Datacenters", String::new())]);
        page.title("Allocations");
        page.table(
            &["ID", "Größe"],
            [["1".to_owned(), "ü".to_owned()], [String::new(), "long one".to_owned()]],
        );
        insta::assert_snapshot!(page, @r"
        ID          = example
        Datacenters = <none>

        Allocations
        ID      Größe
        1       ü
        <none>  long one
        ");
    }

    #[test]
    fn titles_stand_out_where_there_are_colours() {
        let mut page = Page::default();
        page.title("Summary");
        page.line("x");
        assert_eq!(page.text(true), "\x1b[1mSummary\x1b[0m\nx\n");
    }

    #[test]
    fn statuses_are_coloured_on_terminals_only() {
        let mut page = Page::default();
        page.block(&[("ID", "failed".to_owned()), ("Status", "running".to_owned())]);
        page.table(
            &["Status", "Job"],
            [["failed".to_owned(), "failed".to_owned()], ["complete".to_owned(), "web".to_owned()]],
        );
        assert_eq!(
            page.text_with_statuses(),
            "ID     = failed\nStatus = \x1b[32mrunning\x1b[0m\n\x1b[1mStatus    Job\x1b[0m\n\
             \x1b[31mfailed\x1b[0m    failed\ncomplete  web\n"
        );
        assert!(!page.text(true).contains("\x1b[3"), "{page}");
    }
}
