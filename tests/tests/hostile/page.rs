//! The page that lists the attacks, `docs/hostile.md`: its table is made from that of the code.

use std::fmt::Write as _;

use tests::skips::root;

use crate::attack::{Attack, Size};
use crate::table;

const PAGE: &str = "docs/hostile.md";
/// The markers around the table in the page.
const BEGIN: &str =
    "<!-- Made from the tables of attacks: UPDATE_DOCS=1 cargo test -p tests --test hostile page -->\n";
const END: &str = "<!-- End of what is made. -->\n";
/// The least number of attacks.
const ATTACKS_MIN: usize = 60;

/// The page with the table of these attacks.
///
/// # Panics
/// If the page lacks a marker.
fn updated(page: &str, groups: &[(&str, &[Attack])]) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("the page has the marker at which the table begins");
    let (_, after) = rest.split_once(END).expect("the page has the marker at which the table ends");
    format!("{before}{BEGIN}{}{END}{after}", tables(groups))
}

fn tables(groups: &[(&str, &[Attack])]) -> String {
    let mut text = String::new();
    for (heading, attacks) in groups {
        write!(
            text,
            "\n### {heading}\n\n| attack | what the attacker does | what it gets |\n|---|---|---|\n"
        )
        .expect("a string takes everything");
        for Attack { name, does, expected, size, .. } in *attacks {
            let mark = if *size == Size::Quick { " *" } else { "" };
            let (does, expected) = (cell(does), cell(expected));
            writeln!(text, "| `{name}`{mark} | {does} | {expected} |").expect("a string takes everything");
        }
    }
    text.push('\n');
    text
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_page_lists_every_attack() {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page can be read");
    let expected = updated(&page, table::GROUPS);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
        return;
    }
    assert!(page == expected, "{PAGE} is out of date: UPDATE_DOCS=1 cargo test -p tests --test hostile page");
}

#[test]
fn attacks_are_many_and_have_names_of_their_own() {
    let attacks = table::attacks();
    assert!(attacks.len() >= ATTACKS_MIN, "{} attacks", attacks.len());
    let mut names: Vec<&str> = attacks.iter().map(|attack| attack.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), attacks.len(), "two attacks have the same name");
}
