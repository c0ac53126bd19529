//! Checks that `model::features` is the only list of what is not built: code takes the text of refusals from it, some
//! code checks each of its features, and pages name the features as it does.

use std::sync::LazyLock;

use model::features::Feature;
use regex::Regex;

use crate::lexer::{is_word, without_test_modules};
use crate::sources::{Source, is_test};

/// The file of the list.
const LIST: &str = "shared/model/src/features.rs";
/// The words that every refusal contains.
const NOT_BUILT: &str = "not built yet";

/// The markers around the features in the README.
const BEGIN: &str =
    "<!-- Made from the list of what is not built: UPDATE_DOCS=1 cargo test -p tests --test tidy -->\n";
const END: &str = "<!-- End of what is made. -->\n";
/// Maximum width of a line in the README.
const WIDTH: usize = 120;

/// A cell of a table that says that something is not built.
static CELL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\| ([^|\n]+ (?:is|are) not built yet) \|").expect("the pattern is valid"));

/// Refusals in the code outside the list, except in tests.
pub(crate) fn own_refusals(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.path() != LIST && !is_test(source.path())) {
        let lines = source.literals().lines().take(lines_before_tests(source.code())).enumerate();
        let refusing = lines.filter(|(_, line)| line.contains(NOT_BUILT));
        faults.extend(refusing.map(|(at, _)| format!("{}:{}", source.path(), at + 1)));
    }
    faults
}

/// Number of lines before the test module at the end of a file, or of all lines.
fn lines_before_tests(code: &str) -> usize {
    let is_module = |at: usize| {
        let after = code[at..].trim_start_matches("#[cfg(test)]").trim_start();
        after.starts_with("mod ") && after.find(['{', ';']).is_some_and(|end| after[end..].starts_with('{'))
    };
    let tests = code.match_indices("#[cfg(test)]").find(|(at, _)| is_module(*at));
    code[..tests.map_or(code.len(), |(at, _)| at)].lines().count()
}

/// Features of the list that no code asks for.
pub(crate) fn unneeded(sources: &[Source]) -> Vec<String> {
    let others = sources.iter().filter(|source| source.path() != LIST && !is_test(source.path()));
    let code: Vec<String> = others.map(|source| without_test_modules(source.code())).collect();
    let is_needed = |feature: &&Feature| {
        let name = format!("Feature::{feature:?}");
        code.iter().any(|code| {
            code.match_indices(&name).any(|(at, _)| !code[at + name.len()..].starts_with(is_word))
        })
    };
    Feature::ALL.iter().filter(|feature| !is_needed(feature)).map(|feature| format!("{feature:?}")).collect()
}

/// The README with the features that are not built between its markers.
///
/// # Panics
/// If a marker is missing.
pub(crate) fn updated(readme: &str) -> String {
    let (before, rest) = readme.split_once(BEGIN).expect("the README has a marker before the features");
    let (_, after) = rest.split_once(END).expect("the README has a marker after the features");
    format!("{before}{BEGIN}\n{}\n{END}{after}", listed())
}

/// An item for each area of the list.
fn listed() -> String {
    let areas = Feature::ALL.chunk_by(|one, other| one.area() == other.area());
    let item = |area: &[Feature]| {
        let missing = area.iter().filter(|feature| !feature.is_built());
        let names: Vec<&str> = missing.map(|feature| feature.name()).collect();
        let title = area[0].area().title();
        if names.is_empty() {
            String::new()
        } else {
            wrapped(&format!("- **{title}**: {}", names.join(", ")))
        }
    };
    areas.map(item).collect()
}

/// Breaks an item into lines.
fn wrapped(item: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in item.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            text.push_str("\n  ");
            width = 2;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text.push('\n');
    text
}

/// Cells of tables that say that something is not built which the list does not have, or calls otherwise.
pub(crate) fn unlisted(page: &str) -> Vec<String> {
    let missing = Feature::ALL.iter().filter(|feature| !feature.is_built());
    let said: Vec<String> = missing.map(|feature| format!("{} {NOT_BUILT}", feature.subject())).collect();
    let cells = CELL.captures_iter(page).map(|cell| cell[1].to_owned());
    cells.filter(|cell| !said.contains(cell)).collect()
}

#[test]
fn finds_refusals_outside_the_list() {
    let text = "// pens are not built yet\nfn a() { \"pens are not built yet\" }\n#[cfg(test)]\nmod b;\n\
                let c = \"not built yet: d\";\n#[cfg(test)]\nmod tests { fn e() { \"pens are not built yet\" } }\n";
    let source = |path: &str| Source::new(path.to_owned(), text.to_owned());
    let sources = [source("services/x/src/a.rs"), source("services/x/src/tests/a.rs"), source(LIST)];
    assert_eq!(own_refusals(&sources), ["services/x/src/a.rs:2", "services/x/src/a.rs:5"]);
}

#[test]
fn finds_features_that_nothing_needs() {
    let source = |path: &str, text: String| Source::new(path.to_owned(), text);
    let asked = |features: &[Feature]| -> String {
        features.iter().map(|feature| format!("f(Feature::{feature:?});\n")).collect()
    };
    let (first, rest) = Feature::ALL.split_first().expect("something is not built");
    let elsewhere = format!("{}// Feature::{first:?}\nFeature::{first:?}s\n", asked(rest));
    let sources = [
        source("services/x/src/a.rs", elsewhere),
        source("services/x/src/tests.rs", asked(&[*first])),
        source(LIST, asked(&[*first])),
    ];
    assert_eq!(unneeded(&sources), [format!("{first:?}")]);
}

#[test]
fn breaks_lines_where_they_are_full() {
    let text = wrapped(&format!("- {} {} x", "a".repeat(60), "b".repeat(60)));
    assert_eq!(text, format!("- {}\n  {} x\n", "a".repeat(60), "b".repeat(60)));
}

#[test]
fn finds_cells_that_name_other_features() {
    let page = "| a | variables are not built yet |\n| b | pens are not built yet |\n| c | built |\n";
    assert_eq!(unlisted(page).last().map(String::as_str), Some("pens are not built yet"));
}
