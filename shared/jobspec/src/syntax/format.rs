//! Formatter: prints the same tokens in the canonical style. Each open bracket indents by two spaces, one space separates
//! words, and equals signs and comments of adjacent lines are aligned. The contents of texts stay unchanged.

use super::{
    scanner::scan,
    tokens::{Token, TokenKind as Kind},
};

/// Formats a text that has been parsed without errors.
pub(crate) fn format(text: &str) -> String {
    let mut lines = lines(text);
    indent(&mut lines);
    align(&mut lines, |line| line.assign, |line, spaces| line.assign_spaces = spaces);
    align(&mut lines, |line| line.comment, |line, spaces| line.comment_spaces = spaces);
    let mut formatted = String::with_capacity(text.len());
    for line in &lines {
        formatted.push_str(&line.text());
    }
    formatted
}

/// A token, or a whole text with its contents.
struct Word<'a> {
    text: &'a str,
    kind: Kind,
    /// Whether no space separates it from the word before it.
    joined: bool,
}

/// A line of words. A line with a heredoc extends to the end of the heredoc.
#[derive(Default)]
struct Line<'a> {
    words: Vec<Word<'a>>,
    /// The line break at the end of the line.
    newline: &'a str,
    indentation: usize,
    /// Index of the equals sign to align, and the number of spaces before it.
    assign: Option<usize>,
    assign_spaces: usize,
    /// Index of the comment to align, and the number of spaces before it.
    comment: Option<usize>,
    comment_spaces: usize,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let tokens = scan(text);
    let (mut lines, mut line) = (Vec::new(), Line::default());
    let mut at = 0;
    let mut end_of_last = 0;
    while at < tokens.len() {
        let token = tokens[at];
        let end = match token.kind {
            Kind::OpenQuote | Kind::OpenHeredoc => closing_token(&tokens, at),
            _ => at,
        };
        at = end + 1;
        let range = token.start as usize..tokens[end].end as usize;
        let joined = range.start == end_of_last;
        end_of_last = range.end;
        let mut word = &text[range];
        let ends_line = match token.kind {
            Kind::End => break,
            Kind::Newline => {
                line.newline = "\n";
                true
            }
            Kind::Comment => {
                let whole = word;
                word = whole.trim_end_matches(['\n', '\r']);
                line.newline = if whole.ends_with('\n') { "\n" } else { "" };
                whole.ends_with('\n')
            }
            _ => false,
        };
        if token.kind != Kind::Newline {
            line.words.push(Word { text: word.trim_end_matches(' '), kind: token.kind, joined });
        }
        if ends_line {
            lines.push(std::mem::take(&mut line));
        }
    }
    lines.push(line);
    lines.iter_mut().for_each(Line::find_cells);
    lines
}

/// Index of the token that closes a text.
fn closing_token(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::OpenQuote | Kind::OpenHeredoc => depth += 1,
            Kind::CloseQuote | Kind::CloseHeredoc => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len() - 1
}

/// The number of brackets that a word opens, minus those that it closes.
fn brackets(word: &Word<'_>) -> isize {
    match word.kind {
        Kind::OpenBrace | Kind::OpenBracket | Kind::OpenParenthesis => 1,
        Kind::CloseBrace | Kind::CloseBracket | Kind::CloseParenthesis => -1,
        _ => 0,
    }
}

impl Line<'_> {
    fn find_cells(&mut self) {
        let last = self.words.len().checked_sub(1).filter(|last| *last > 0);
        self.comment = last.filter(|last| self.words[*last].kind == Kind::Comment);
        let code = &self.words[..self.comment.unwrap_or(self.words.len())];
        let assign = code.iter().position(|word| word.kind == Kind::Assign).filter(|at| *at > 0);
        // A value that continues on further lines is not aligned with others.
        self.assign = assign.filter(|at| code[*at..].iter().map(brackets).sum::<isize>() == 0);
    }

    fn spaces_before(&self, at: usize) -> usize {
        match at {
            0 => self.indentation,
            _ if Some(at) == self.assign => self.assign_spaces,
            _ if Some(at) == self.comment => self.comment_spaces,
            _ => usize::from(needs_space(&self.words, at)),
        }
    }

    /// The width of the line before a word.
    fn width_before(&self, end: usize) -> usize {
        let width = |at: usize| self.spaces_before(at) + self.words[at].text.chars().count();
        (0..end).map(width).sum()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (at, word) in self.words.iter().enumerate() {
            text.extend(std::iter::repeat_n(' ', self.spaces_before(at)));
            text.push_str(word.text);
        }
        text.push_str(self.newline);
        text
    }
}

/// Indents by two spaces for every line that opens more brackets than it closes.
fn indent(lines: &mut [Line<'_>]) {
    let mut open: Vec<isize> = Vec::new();
    for line in lines {
        let net: isize = line.words.iter().map(brackets).sum();
        let mut closed = (-net).max(0);
        while let Some(last) = open.last_mut().filter(|_| closed > 0) {
            let taken = closed.min(*last);
            *last -= taken;
            closed -= taken;
            if *last == 0 {
                open.pop();
            }
        }
        line.indentation = 2 * open.len();
        if net > 0 {
            open.push(net);
        }
    }
}

/// Aligns cells of adjacent lines, one space after the widest text before them.
fn align(
    lines: &mut [Line<'_>],
    cell: impl Fn(&Line<'_>) -> Option<usize>,
    set: impl Fn(&mut Line<'_>, usize),
) {
    let has_cell = |line: &Line<'_>| cell(line).is_some();
    for chain in lines.chunk_by_mut(|a, b| has_cell(a) && has_cell(b)) {
        let width = |line: &Line<'_>| cell(line).map_or(0, |at| line.width_before(at));
        let widest = chain.iter().map(width).max().unwrap_or(0);
        for line in chain.iter_mut().filter(|line| has_cell(line)) {
            let spaces = widest - width(line) + 1;
            set(line, spaces);
        }
    }
}

/// Whether there is a space before a word.
fn needs_space(words: &[Word<'_>], at: usize) -> bool {
    let (before, word) = (&words[at - 1], &words[at]);
    match (before.kind, word.kind) {
        (_, Kind::Comma | Kind::Ellipsis | Kind::Dot) | (Kind::Dot, _) => false,
        (Kind::OpenBrace, Kind::CloseBrace) => false,
        (Kind::OpenBrace, _) | (_, Kind::CloseBrace) => true,
        (Kind::OpenParenthesis | Kind::OpenBracket, _) => false,
        (_, Kind::CloseParenthesis | Kind::CloseBracket) => false,
        // No space before the arguments of a call and before an index.
        (Kind::Name, Kind::OpenParenthesis) => !word.joined,
        (Kind::Name | Kind::CloseBracket | Kind::CloseParenthesis, Kind::OpenBracket) => !word.joined,
        (Kind::Not, _) => false,
        (Kind::Minus, _) => at > 1 && ends_value(&words[at - 2]),
        (_, Kind::Colon) => !word.joined,
        // An index after a splat: `a.*`, `a[*]`.
        (Kind::Star, _) | (_, Kind::Star) => !word.joined,
        _ => true,
    }
}

/// Whether a minus sign after a word is a subtraction, not a negation.
fn ends_value(word: &Word<'_>) -> bool {
    matches!(
        word.kind,
        Kind::Name
            | Kind::Number
            | Kind::CloseParenthesis
            | Kind::CloseBracket
            | Kind::CloseBrace
            | Kind::OpenQuote
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_laid_out() {
        let text = "job  \"a\"{\ntype=\"batch\" # kind\n  priority   = -  1// how much\n\n  meta { a=1 }\n\
            args = [\n\"x\",\n    upper( \"y\" ) ,\n]\nshort = [1,2 ,-3]\nbody = <<EOT\n  as it\n is\nEOT\nn = a[0]+ b.c - 1\n\
            o={\nk = 1\nlonger=\"${ attr.x }\"\n}\n}";
        let expected = "job \"a\" {\n  type     = \"batch\" # kind\n  priority = -1      // how much\n\n  meta { a = 1 }\n  \
            args = [\n    \"x\",\n    upper(\"y\"),\n  ]\n  short = [1, 2, -3]\n  body  = <<EOT\n  as it\n is\nEOT\n  n     = a[0] + b.c - 1\n  \
            o = {\n    k      = 1\n    longer = \"${ attr.x }\"\n  }\n}";
        assert_eq!(format(text), expected);
        assert_eq!(format(expected), expected);
    }
}
