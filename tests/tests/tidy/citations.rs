//! Citations of rules and sections in comments: each must exist in `docs/rules`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::sources::{Source, position};

/// A rule's number: `R-1.34`, `A-22.1`, `N-31a`.
const RULE: &str = r"\b[RAN]-[0-9]+[a-z]?(?:\.[0-9]+[a-z]?)*";

/// Where a page of rules defines a rule: in bold at the start of an item, or in a heading.
static DEFINED_RULE: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r"(?m)(?:^\s*- \*\*|^#+ )({RULE})")));
static CITED_RULE: LazyLock<Regex> = LazyLock::new(|| pattern(RULE));
/// Where a page defines a section: at the start of a line, as a heading or a paragraph.
static DEFINED_SECTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^(?:#+ )?(?:Appendix )?([0-9]+(?:\.[0-9]+)*|[A-E](?:\.[0-9]+)?)\b"));
static CITED_SECTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(http-api|jobspec|cli)(?:\.md)?`?,? §+ ?([0-9A-Z]+(?:\.[0-9]+)*)"));

/// The rules and sections of `docs/rules`.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    numbers: BTreeSet<String>,
    /// Name of the page without its extension, and number of the section.
    sections: BTreeSet<(String, String)>,
}

impl Rules {
    /// Adds the rules and sections of a page, which is named without its extension.
    pub(crate) fn add(&mut self, page: &str, text: &str) {
        self.numbers.extend(DEFINED_RULE.captures_iter(text).map(|found| found[1].to_owned()));
        let sections = DEFINED_SECTION.captures_iter(text);
        self.sections.extend(sections.map(|found| (page.to_owned(), found[1].to_owned())));
    }
}

/// Comments that cite a rule or a section that no page defines.
pub(crate) fn unknown(sources: &[Source], rules: &Rules) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources {
        let comments = source.comments();
        let cited = CITED_RULE.find_iter(comments).filter(|cited| !rules.numbers.contains(cited.as_str()));
        faults.extend(
            cited.map(|cited| format!("{}: {}", position(source, comments, cited.start()), cited.as_str())),
        );
        for cited in CITED_SECTION.captures_iter(comments) {
            let section = (cited[1].to_owned(), cited[2].to_owned());
            if !rules.sections.contains(&section) {
                let at = cited.get_match().start();
                faults.push(format!("{}: {} §{}", position(source, comments, at), section.0, section.1));
            }
        }
    }
    faults
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

#[test]
fn finds_unknown_rules_and_sections() {
    let mut rules = Rules::default();
    rules.add(
        "scheduling",
        "## 1. Evaluations\n- **R-1.34** A lease ends.\n  See R-9.9.\n### A-22.1 Interface\n",
    );
    rules.add("http-api", "## 11. Jobs\n11.2 One job.\n## Appendix A — structures\n### A.1 Job\n");
    let text = "// R-1.34, A-22.1 and R-1.35 (`http-api` §11.2, http-api.md §11.3)\n\
                let rule = \"R-7.7\"; // R-9.9, http-api §A.1, jobspec §11\n";
    let source = Source::new("a.rs".into(), text.into());
    assert_eq!(
        unknown(&[source], &rules),
        ["a.rs:1: R-1.35", "a.rs:2: R-9.9", "a.rs:1: http-api §11.3", "a.rs:2: jobspec §11"]
    );
}
