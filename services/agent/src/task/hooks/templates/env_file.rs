//! Environment variables in the result of a template. Pure.

use std::iter::Peekable;
use std::str::Chars;

/// Parses lines of `KEY=value`. A line may begin with `export`; `#` begins a comment. A value may have parts in single
/// quotes, which stand for themselves, and in double quotes, in which a backslash escapes.
///
/// # Errors
/// If a line is not valid. The message has its number, and nothing of its value, which may be a secret.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    let mut rest = text.chars().peekable();
    let mut line = 1_usize;
    while rest.peek().is_some() {
        let begun = line;
        let located = |error: &str| format!("line {begun} of the environment: {error}");
        let Some(key) = key(&mut rest, &mut line).map_err(located)? else { continue };
        let value = value(&mut rest, &mut line).map_err(located)?;
        variables.push((key, value));
    }
    Ok(variables)
}

/// Reads the name of a variable and the sign after it; `None` if the line has none.
fn key(rest: &mut Peekable<Chars<'_>>, line: &mut usize) -> Result<Option<String>, &'static str> {
    let mut text = String::new();
    let is_assigned = loop {
        match rest.next() {
            Some('=') => break true,
            Some('#') if text.trim().is_empty() => {
                skip_line(rest);
            }
            Some('\n') => {
                *line = line.saturating_add(1);
                break false;
            }
            None => break false,
            Some(c) => text.push(c),
        }
    };
    let name = text.trim();
    let name = name
        .strip_prefix("export")
        .filter(|rest| rest.starts_with(char::is_whitespace))
        .unwrap_or(name)
        .trim();
    if !is_assigned {
        return if name.is_empty() { Ok(None) } else { Err("there is no = after the name") };
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_plain) {
        return Err("the name of the variable is not valid");
    }
    Ok(Some(name.to_owned()))
}

/// Leaves the end of the line to be read.
fn skip_line(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|c| *c != '\n').is_some() {}
}

/// Reads a value and the end of its line.
fn value(rest: &mut Peekable<Chars<'_>>, line: &mut usize) -> Result<String, &'static str> {
    let mut value = String::new();
    // White space counts only if something follows.
    let mut blanks = String::new();
    while let Some(c) = rest.next() {
        match c {
            '\n' => {
                *line = line.saturating_add(1);
                return Ok(value);
            }
            '#' if value.is_empty() || !blanks.is_empty() => skip_line(rest),
            '\'' | '"' => {
                value.push_str(&std::mem::take(&mut blanks));
                in_quotes(c, rest, line, &mut value)?;
            }
            '\0' => return Err("a value contains a null character"),
            c if c.is_whitespace() => {
                if !value.is_empty() {
                    blanks.push(c);
                }
            }
            c => {
                value.push_str(&std::mem::take(&mut blanks));
                value.push(c);
            }
        }
    }
    Ok(value)
}

fn in_quotes(
    quote: char,
    rest: &mut Peekable<Chars<'_>>,
    line: &mut usize,
    value: &mut String,
) -> Result<(), &'static str> {
    while let Some(c) = rest.next() {
        match c {
            c if c == quote => return Ok(()),
            '\\' if quote == '"' => value.push(escaped(rest)?),
            '\0' => return Err("a value contains a null character"),
            c => {
                if c == '\n' {
                    *line = line.saturating_add(1);
                }
                value.push(c);
            }
        }
    }
    Err("a quoted value has no end")
}

fn escaped(rest: &mut Peekable<Chars<'_>>) -> Result<char, &'static str> {
    const DIGITS: usize = 4;
    match rest.next() {
        Some('n') => Ok('\n'),
        Some('r') => Ok('\r'),
        Some('t') => Ok('\t'),
        Some('u') => {
            let digits: String = rest.by_ref().take(DIGITS).collect();
            let code = u32::from_str_radix(&digits, 16).ok().filter(|code| *code != 0);
            code.and_then(char::from_u32).ok_or("an escape of a character is not valid")
        }
        Some(c @ ('"' | '\\' | '\'' | '$' | '`' | '/')) => Ok(c),
        Some(_) | None => Err("an escape is not known"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn one(text: &str) -> String {
        let [(_, value)] = &parsed(text)[..] else { panic!("{text} is one variable") };
        value.clone()
    }

    //
    #[test]
    fn lines_are_variables() {
        let text = "# a comment\nA=1\n\n  export B = two words  # more\nC=\nD='x y'\n  # end";
        let expected = [("A", "1"), ("B", "two words"), ("C", ""), ("D", "x y")];
        assert_eq!(parsed(text), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(parsed("").is_empty());
    }

    #[test]
    fn quotes_keep_what_is_between_them() {
        for (text, value) in [
            ("A=\"a b\"", "a b"),
            ("A=\"a\\nb\\\"c\\u0041\"", "a\nb\"cA"),
            ("A='a\\nb'", "a\\nb"),
            ("A=a'b c'\"d\"", "ab cd"),
            ("A=\"# no comment\"", "# no comment"),
            ("A=x#y", "x#y"),
            ("A=\"two\nlines\"", "two\nlines"),
            ("A=a=b", "a=b"),
            ("A=x\r\n", "x"),
        ] {
            assert_eq!(one(text), value, "{text}");
        }
    }

    #[test]
    fn errors_have_the_number_of_their_line_and_no_value() {
        for (text, line) in [
            ("A=1\nsecret", 2),
            ("1A=x", 1),
            ("A B=x", 1),
            ("A=1\n\nB=\"secret", 3),
            ("=x", 1),
            ("A=\"\\q\"", 1),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line} of the environment: ")), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
