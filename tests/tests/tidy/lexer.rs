//! Separates a Rust file's code, comments and string literals, so that rules for code do not apply to prose. It only
//! finds where each piece ends, and does not parse the code.

/// A file's text three times, line by line: `code` has everything except code blanked, `comments` everything except
/// comments, and `literals` everything except string literals. The quotes of strings remain in `code`.
#[derive(Debug, Default)]
pub(crate) struct Separated {
    pub(crate) code: String,
    pub(crate) comments: String,
    pub(crate) literals: String,
}

pub(crate) fn separate(text: &str) -> Separated {
    let mut separated = Separated::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (kind, length) = first_piece(rest);
        let (piece, after) = rest.split_at(length);
        let (code, comment, literal) = match kind {
            Kind::Code => (piece.to_owned(), blank(piece), blank(piece)),
            Kind::Comment => (blank(piece), piece.to_owned(), blank(piece)),
            Kind::Text => (quoted_blank(piece), blank(piece), piece.to_owned()),
            Kind::Character => (blank(piece), blank(piece), blank(piece)),
        };
        separated.code.push_str(&code);
        separated.comments.push_str(&comment);
        separated.literals.push_str(&literal);
        rest = after;
    }
    separated
}

#[derive(Clone, Copy)]
enum Kind {
    Code,
    Comment,
    Text,
    Character,
}

/// Returns the kind and the length in bytes, never 0, of the first piece. Identifiers are one piece, so that the `r` of
/// `for` does not start a raw string.
fn first_piece(rest: &str) -> (Kind, usize) {
    if rest.starts_with("//") {
        (Kind::Comment, rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Kind::Comment, block_comment_length(rest))
    } else if let Some(length) = raw_string_length(rest) {
        (Kind::Text, length)
    } else if rest.starts_with('"') {
        (Kind::Text, closed_by('"', rest))
    } else if is_character(rest) {
        (Kind::Character, closed_by('\'', rest))
    } else {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let one = rest.chars().next().map_or(0, char::len_utf8);
        (Kind::Code, word.max(one))
    }
}

/// Code of which strings and comments are blank, without the modules in it that are for tests only.
pub(crate) fn without_test_modules(code: &str) -> String {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut left = String::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once(ATTRIBUTE) {
        left.push_str(before);
        let is_module = after.trim_start().starts_with("mod ");
        let end = after.find(['{', ';']).filter(|end| is_module && after[*end..].starts_with('{'));
        rest = end.map_or(after, |start| &after[start + braces_length(&after[start..])..]);
    }
    left.push_str(rest);
    left
}

/// The length of a block in braces that `code` begins with.
fn braces_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Whether an identifier may contain `c`.
pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Returns the length of a block comment. Block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let ahead = &rest.as_bytes()[at..];
        if ahead.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if ahead.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn raw_string_length(rest: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|after| after.trim_start_matches('#').starts_with('"'))
    })?;
    let after = &rest[prefix.len()..];
    let hashes = after.find('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let opened = prefix.len() + hashes + 1;
    Some(rest[opened..].find(&close).map_or(rest.len(), |length| opened + length + close.len()))
}

/// The length of a literal that begins and ends with `quote`, taking escapes into account.
fn closed_by(quote: char, rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    rest.len()
}

/// Whether the text begins with a character literal and not with a lifetime: `'\n'` or `'n'`, not `'n`.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars();
    chars.next() == Some('\'')
        && match chars.next() {
            Some('\\') => true,
            Some(_) => chars.next() == Some('\''),
            None => false,
        }
}

fn blank(piece: &str) -> String {
    piece.chars().map(|c| if c == '\n' { c } else { ' ' }).collect()
}

fn quoted_blank(piece: &str) -> String {
    let blank = blank(piece);
    let contents = blank.get(1..blank.len().saturating_sub(1)).unwrap_or_default();
    format!("\"{contents}\"")
}

#[test]
fn tells_code_comments_and_literals_apart() {
    let text = r##"let a = "x // y\""; // "z"
for<'a> b('"', '\'', r#"p"q"#) /* m
/* n */ o */ c(br"\", b"d", 'é')"##;
    let Separated { code, comments, literals } = separate(text);
    assert_eq!(lines(&code), ["let a = \" \";", "for<'a> b( , , \" \")", "c(\" \", b\" \", )"]);
    assert_eq!(lines(&comments), ["// \"z\"", "/* m", "/* n */ o */"]);
    assert_eq!(lines(&literals), [r#""x // y\"""#, r##"r#"p"q"#"##, r#"br"\" "d""#]);
}

#[test]
fn ends_with_what_is_never_closed() {
    for text in ["\"", "r#\"a", "'\\", "/* a", "'", "r#"] {
        separate(text);
    }
}

/// The lines with runs of spaces shortened to one.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
