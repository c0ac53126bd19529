//! The literal parts of templates: those of quoted text are one piece each, those of heredocs go line by line, which
//! shows in what strip markers take away and in how indentation is removed (§2).

use std::collections::BTreeMap;

use hcl_edit::{
    Span as _, Spanned,
    template::{Directive, Element, Template},
};

use crate::source::{Source, span};

/// How the literal parts of a template are to be taken.
pub(super) enum Literals {
    /// Each as a whole.
    Quoted,
    /// By line; those that lost their indentation by their offset.
    Lines(BTreeMap<usize, String>),
}

impl Literals {
    /// A part with white space stripped before or after it.
    pub(super) fn text(&self, literal: &Spanned<String>, (start, end): (bool, bool)) -> String {
        let Literals::Lines(dedented) = self else {
            let text = if start { literal.trim_start() } else { literal.as_str() };
            return if end { text.trim_end() } else { text }.to_owned();
        };
        let offset = literal.span().unwrap_or_default().start;
        let mut text = dedented.get(&offset).map_or(literal.as_str(), String::as_str);
        let trimmed;
        if start {
            let first = text.find('\n').map_or(text.len(), |newline| newline + 1);
            trimmed = format!("{}{}", text[..first].trim_start(), &text[first..]);
            text = &trimmed;
        }
        if !end {
            return text.to_owned();
        }
        let unended = text.strip_suffix('\n').unwrap_or(text);
        let last = unended.rfind('\n').map_or(0, |newline| newline + 1);
        format!("{}{}", &text[..last], text[last..].trim_end())
    }
}

/// The parts of an indented heredoc without what all its lines have in common. Lines of nothing but white space do not
/// count and are kept whole.
pub(super) fn dedented(template: &Template, source: &Source<'_>) -> BTreeMap<usize, String> {
    let mut pieces = Vec::new();
    flatten(template, source, &mut pieces);
    let lines = lines(&pieces);
    let common = lines.iter().filter_map(|line| line.indentation).min().unwrap_or(0);
    let mut dedented: BTreeMap<usize, String> = BTreeMap::new();
    for Line { offset, text, indentation } in lines {
        let Some(offset) = offset else { continue };
        let removed = if indentation.is_some() { common } else { 0 };
        let from = text.char_indices().nth(removed).map_or(text.len(), |(at, _)| at);
        dedented.entry(offset).or_default().push_str(&text[from..]);
    }
    dedented
}

/// What is literal and what is not, in the order of the text.
enum Piece {
    Literal { offset: usize, text: String },
    Sequence,
}

fn flatten(template: &Template, source: &Source<'_>, pieces: &mut Vec<Piece>) {
    for element in template {
        match element {
            Element::Literal(literal) => {
                let text = source.slice(span(literal)).replace("$${", "${").replace("%%{", "%{");
                pieces.push(Piece::Literal { offset: span(literal).start, text });
            }
            Element::Interpolation(_) => pieces.push(Piece::Sequence),
            Element::Directive(directive) => {
                pieces.push(Piece::Sequence);
                match directive.as_ref() {
                    Directive::If(directive) => {
                        flatten(&directive.if_expr.template, source, pieces);
                        if let Some(otherwise) = &directive.else_expr {
                            pieces.push(Piece::Sequence);
                            flatten(&otherwise.template, source, pieces);
                        }
                    }
                    Directive::For(directive) => flatten(&directive.for_expr.template, source, pieces),
                }
                pieces.push(Piece::Sequence);
            }
        }
    }
}

/// One line's share of a piece.
struct Line<'p> {
    /// Of the literal that it is from.
    offset: Option<usize>,
    text: &'p str,
    /// Characters of white space, where it begins a line that counts.
    indentation: Option<usize>,
}

fn lines(pieces: &[Piece]) -> Vec<Line<'_>> {
    let (mut lines, mut at_start) = (Vec::new(), true);
    for (at, piece) in pieces.iter().enumerate() {
        let Piece::Literal { offset, text } = piece else {
            if at_start {
                lines.push(Line { offset: None, text: "", indentation: Some(0) });
            }
            at_start = false;
            continue;
        };
        for line in text.split_inclusive('\n') {
            let is_blank = line.trim().is_empty() && (line.ends_with('\n') || at + 1 == pieces.len());
            let width = line.chars().take_while(|c| c.is_whitespace()).count();
            let indentation = (at_start && !is_blank).then_some(width);
            lines.push(Line { offset: Some(*offset), text: line, indentation });
            at_start = line.ends_with('\n');
        }
    }
    lines
}
