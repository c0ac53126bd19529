//! Lookup of objects by prefixes of their ids (`docs/rules/cli.md` 1.4).

use serde::de::DeserializeOwned;

use super::client::Client;
use super::page::Page;

/// The shortest prefix that is looked up, in characters.
const PREFIX_CHARS_MIN: usize = 2;

/// Number of hyphens and of digits of a UUID.
const UUID_HYPHENS: usize = 4;
const UUID_DIGITS: usize = 32;

/// A kind of object to look up.
pub(crate) struct Kind<T> {
    /// The path of the list, for instance `/v1/nodes`.
    pub(crate) list: &'static str,
    /// The plural noun for messages.
    pub(crate) plural: &'static str,
    /// The message if there is no match; `{}` stands for the prefix.
    pub(crate) not_found: &'static str,
    pub(crate) id: fn(&T) -> Option<&String>,
    /// Shows several matches, with their whole ids if the second argument is true.
    pub(crate) table: fn(&[T], bool) -> Page,
}

/// Several objects have the same prefix.
#[derive(Debug, thiserror::Error)]
#[error("Prefix matched multiple {plural}\n\n{table}")]
pub(crate) struct Ambiguous {
    plural: &'static str,
    table: String,
}

/// Finds the id with this prefix. With `verbose`, an error about several matches shows their whole ids.
pub(crate) async fn resolve_id<T: DeserializeOwned>(
    client: &Client,
    kind: &Kind<T>,
    prefix: &str,
    verbose: bool,
) -> anyhow::Result<String> {
    let prefix_of_server = server_prefix(prefix)?;
    // No id begins like this. The server would call it an internal error.
    anyhow::ensure!(can_begin_id(prefix), "{}", kind.not_found.replace("{}", prefix));
    let matches = client.get(kind.list, &[("prefix", prefix_of_server)]).await?;
    choose(kind, prefix, matches, verbose)
}

/// Whether an id can begin like this: with hexadecimal digits and hyphens, at most as many as a UUID has.
fn can_begin_id(prefix: &str) -> bool {
    let (hyphens, digits): (Vec<char>, Vec<char>) = prefix.chars().partition(|character| *character == '-');
    hyphens.len() <= UUID_HYPHENS && digits.len() <= UUID_DIGITS && digits.iter().all(char::is_ascii_hexdigit)
}

/// The prefix for the server. It has an even number of digits, because the server compares bytes.
fn server_prefix(prefix: &str) -> anyhow::Result<&str> {
    anyhow::ensure!(
        prefix.chars().count() >= PREFIX_CHARS_MIN,
        "Identifier must contain at least two characters."
    );
    let is_odd = prefix.chars().filter(|character| *character != '-').count() % 2 == 1;
    let mut shorter = prefix.chars();
    if is_odd {
        shorter.next_back();
    }
    Ok(shorter.as_str())
}

/// The only match with this prefix. The server may also find objects that match only the shortened prefix; they are ignored.
fn choose<T>(kind: &Kind<T>, prefix: &str, mut matches: Vec<T>, verbose: bool) -> anyhow::Result<String> {
    let has_prefix = |id: &String| id.starts_with(&prefix.to_lowercase());
    matches.retain(|one| (kind.id)(one).is_some_and(has_prefix));
    match matches.as_slice() {
        [] => anyhow::bail!("{}", kind.not_found.replace("{}", prefix)),
        [one] => Ok((kind.id)(one).cloned().unwrap_or_default()),
        several => {
            let table = (kind.table)(several, verbose).to_string().trim_end().to_owned();
            Err(Ambiguous { plural: kind.plural, table }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::format;

    #[test]
    fn the_server_is_asked_for_whole_bytes() {
        let server_prefix = |prefix| server_prefix(prefix).map_err(|error| error.to_string());
        assert_eq!(server_prefix("abc"), Ok("ab"));
        assert_eq!(server_prefix("abcd"), Ok("abcd"));
        assert_eq!(server_prefix("0a1b2c3d-0"), Ok("0a1b2c3d-"));
        assert_eq!(server_prefix("0a1b2c3d-00"), Ok("0a1b2c3d-00"));
        assert_eq!(server_prefix("äöü"), Ok("äö"));
        assert_eq!(server_prefix("a"), Err("Identifier must contain at least two characters.".to_owned()));
    }

    #[test]
    fn ids_begin_with_hexadecimal_digits() {
        for prefix in ["0a", "0A1b2c3d-", "0a1b2c3d-0000-4000-8000-000000000000"] {
            assert!(can_begin_id(prefix), "{prefix}");
        }
        for prefix in ["web", "0g", "a b", "\u{e4}\u{e4}", "-----", &"0".repeat(33)] {
            assert!(!can_begin_id(prefix), "{prefix}");
        }
    }

    #[test]
    fn the_only_match_is_chosen_and_several_are_listed() {
        let kind = Kind::<String> {
            list: "",
            plural: "things",
            not_found: "No thing(s) with prefix or id \"{}\" found",
            id: |id| Some(id),
            table: |ids, verbose| {
                let mut page = Page::default();
                page.table(&["ID"], ids.iter().map(|id| [format::id(Some(id), verbose)]));
                page
            },
        };
        let matches = || vec!["abc1-00000001".to_owned(), "abc2-00000002".to_owned(), "abd1".to_owned()];
        let choose =
            |prefix, verbose| choose(&kind, prefix, matches(), verbose).map_err(|error| error.to_string());
        assert_eq!(choose("ABD", false), Ok("abd1".to_owned()));
        assert_eq!(choose("abe", false), Err("No thing(s) with prefix or id \"abe\" found".to_owned()));
        let several = |ids: &str| Err(format!("Prefix matched multiple things\n\nID\n{ids}"));
        assert_eq!(choose("abc", false), several("abc1-000\nabc2-000"));
        assert_eq!(choose("abc", true), several("abc1-00000001\nabc2-00000002"));
    }
}
