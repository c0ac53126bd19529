//! Claims of Markdown pages that can be checked: links lead somewhere, and files and `make` targets that code names exist.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

/// Folders of the repository. Code that begins with one of them is a path from the root.
const FOLDERS: [&str; 6] = [".ci/", "deploy/", "docs/", "services/", "shared/", "tests/"];

/// Characters of patterns and placeholders, which are no paths.
const NOT_IN_PATHS: [char; 4] = ['*', '<', '{', '…'];

/// `[text](target)`. The text may continue on the next line.
static LINK: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[[^\]]*\]\(([^)\s]+)\)"));
static HEADING: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^#+ (.*)$"));
static TARGET: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^([a-z]+):"));

/// One Markdown page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Path from the root of the repository, such as `docs/glossary.md`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Page {
    /// The text outside blocks of code.
    fn prose(&self) -> String {
        self.text.split("```").step_by(2).collect()
    }

    /// Lines of blocks of code, and code within the text.
    fn code(&self) -> Vec<&str> {
        let parts = self.text.split("```").enumerate();
        parts
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split('`').skip(1).step_by(2).collect::<Vec<_>>(),
                _ => part.lines().collect(),
            })
            .collect()
    }

    /// The anchors of the headings, as GitHub makes them.
    fn anchors(&self) -> BTreeSet<String> {
        let anchor = |heading: &str| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        };
        let prose = self.prose();
        HEADING.captures_iter(&prose).map(|heading| anchor(&heading[1])).collect()
    }
}

/// Links whose file or heading does not exist.
pub(crate) fn dead_links(pages: &[Page], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for page in pages {
        for link in LINK.captures_iter(&page.prose()) {
            let target = &link[1];
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.path.clone() } else { resolved(&page.path, file) };
            let linked = pages.iter().find(|page| page.path == file);
            let has_anchor = anchor.is_empty() || linked.is_none_or(|page| page.anchors().contains(anchor));
            if !exists(&file) || !has_anchor {
                faults.push(format!("{}: {target}", page.path));
            }
        }
    }
    faults
}

/// The path of a link's file from the root, of a link in the page `from`.
fn resolved(from: &str, file: &str) -> String {
    let mut steps: Vec<&str> = from.split('/').collect();
    steps.pop();
    for step in file.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.join("/")
}

/// Paths in code that do not exist. The README also names the examples.
pub(crate) fn missing_files(pages: &[Page], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for page in pages {
        let is_path = |word: &&str| {
            let is_example = page.path == "README.md" && word.starts_with("examples/");
            let begins = is_example || FOLDERS.iter().any(|folder| word.starts_with(folder));
            begins && !word.contains(NOT_IN_PATHS)
        };
        let words = page.code().into_iter().flat_map(str::split_whitespace);
        let paths = words.filter(is_path).map(|word| word.trim_end_matches(['.', ',', ';', ':', ')']));
        faults.extend(paths.filter(|path| !exists(path)).map(|path| format!("{}: {path}", page.path)));
    }
    faults
}

/// Commands `make …` in code whose target is not in the makefile.
pub(crate) fn missing_targets(pages: &[Page], makefile: &str) -> Vec<String> {
    let targets: BTreeSet<&str> =
        TARGET.captures_iter(makefile).filter_map(|line| Some(line.get(1)?.as_str())).collect();
    let mut faults = Vec::new();
    for page in pages {
        for line in page.code() {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Not the verb in a message: a command begins a line, or follows a setting, a prompt or another command.
            let begins = |at: usize| at.checked_sub(1).is_none_or(|before| is_before_command(words[before]));
            let made = words.windows(2).enumerate().filter(|(at, pair)| pair[0] == "make" && begins(*at));
            let made = made.map(|(_, pair)| pair[1]);
            let unknown = made.filter(|target| !targets.contains(target));
            faults.extend(unknown.map(|target| format!("{}: make {target}", page.path)));
        }
    }
    faults
}

fn is_before_command(word: &str) -> bool {
    word.contains('=') || ["&&", ";", "|", "$", "sudo"].iter().any(|end| word.ends_with(end))
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

#[test]
fn finds_dead_links() {
    let pages = [
        page(
            "docs/a/b.md",
            "[x](c.md) [y](../d.md#what-it-does) [z\nz](../../README.md) [w](https://e.org/f#g)\n```\n[v](no)\n```\n",
        ),
        page("docs/d.md", "## What it `does`\n[x](a/b.md#none) [y](e.md) [z](#what-it-does) [w](a)\n"),
    ];
    let exists = |path: &str| ["docs/a", "docs/a/b.md", "docs/a/c.md", "docs/d.md"].contains(&path);
    assert_eq!(
        dead_links(&pages, exists),
        ["docs/a/b.md: ../../README.md", "docs/d.md: a/b.md#none", "docs/d.md: e.md"]
    );
}

#[test]
fn finds_missing_files() {
    let text =
        "`shared/a`, `shared/<it>/b`, `services/c` services/d\n```\nrun tests/e, now examples/f\n```\n";
    let pages = [page("README.md", text), page("docs/x.md", text)];
    let expected = [
        "README.md: services/c",
        "README.md: tests/e",
        "README.md: examples/f",
        "docs/x.md: services/c",
        "docs/x.md: tests/e",
    ];
    assert_eq!(missing_files(&pages, |path| path == "shared/a"), expected);
}

#[test]
fn finds_missing_targets() {
    let page =
        page("a.md", "`make`, `make test` and `make tea ONLY=x`; make coffee\n```\nmake demo # x\n```\n");
    let makefile = "test: toolchain ## Tests\n\tmake tea\ndemo:\n";
    assert_eq!(missing_targets(&[page], makefile), ["a.md: make tea"]);
}

fn page(path: &str, text: &str) -> Page {
    Page { path: path.to_owned(), text: text.to_owned() }
}
