//! Pages of long lists (http-api §6).

use super::output::Output;
use super::page::Page;

/// The flag with the start of a page.
const TOKEN: &str = "-page-token";

/// The flags that select a page of a list.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Paging {
    /// Show at most this many items.
    #[arg(long, value_name = "COUNT")]
    per_page: Option<u32>,
    /// Continue a list at this token, which the page before it printed.
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
    /// Show only items that match this filter expression, such as `Status == ready`.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
}

impl Paging {
    /// The query parameters for the server.
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let given = [
            ("per_page", self.per_page.map(|count| count.to_string())),
            ("next_token", self.page_token.clone()),
            ("filter", self.filter.clone()),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Prints how to get the next page: the command line of this process, with the token of that page.
pub(crate) fn print_next(page: &mut Page, token: &str) {
    let command = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    page.line("");
    page.line("Results have been paginated. To get the next page run:");
    page.line("");
    page.line(next(token, command));
}

/// Prints the same to standard error, where a program that reads the list as JSON does not see it.
pub(crate) fn report_next(output: Output, token: Option<&str>) {
    let Some(token) = token else { return };
    let mut page = Page::default();
    print_next(&mut page, token);
    output.report(|colours| page.text(colours).trim_end().to_owned());
}

/// The command line, with another token.
fn next(token: &str, command: impl IntoIterator<Item = String>) -> String {
    let mut words = vec!["drover".to_owned()];
    let mut arguments = command.into_iter().skip(1);
    while let Some(argument) = arguments.next() {
        let dashes = argument.len() - argument.trim_start_matches('-').len();
        let name = argument.split('=').next().unwrap_or_default();
        if (1..=2).contains(&dashes) && name.trim_start_matches('-') == TOKEN.trim_start_matches('-') {
            if name == argument {
                arguments.next();
            }
            continue;
        }
        words.push(quote(&argument));
    }
    words.push(format!("{TOKEN}={}", quote(token)));
    words.join(" ")
}

/// A word, quoted for a shell.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,@%+".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_asked_for_with_the_same_command() {
        let next = |line: &str| next("12.0a1b", line.split(' ').map(str::to_owned));
        assert_eq!(
            next("/usr/bin/drover eval list -per-page 3"),
            "drover eval list -per-page 3 -page-token=12.0a1b"
        );
        assert_eq!(
            next("drover eval list -page-token=7.1 --page-token 8.2 -json"),
            "drover eval list -json -page-token=12.0a1b"
        );
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quote("-per-page=3"), "-per-page=3");
        assert_eq!(quote("Status == \"it's\""), r#"'Status == "it'\''s"'"#);
        assert_eq!(quote(""), "''");
    }
}
