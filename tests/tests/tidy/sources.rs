//! Rules for Rust files: how they open, how long they are, and what may be written in only one crate.

use std::collections::BTreeSet;

use crate::lexer::{self, Separated};

const LINES_MAX: usize = 900;

/// Calls that publish on a subject or subscribe to one.
const SUBJECT_CALLS: &[&str] = &[
    ".publish(",
    ".publish_with_headers(",
    ".publish_with_reply(",
    ".publish_with_reply_and_headers(",
    ".queue_subscribe(",
    ".request(",
    ".request_with_headers(",
    ".send_request(",
    ".subscribe(",
];

/// One Rust file of the workspace.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path from the root of the repository, such as `shared/model/src/lib.rs`.
    path: String,
    text: String,
    separated: Separated,
}

impl Source {
    pub(crate) fn new(path: String, text: String) -> Self {
        Self { separated: lexer::separate(&text), path, text }
    }

    /// Path from the root of the repository.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The text with everything but code blank.
    pub(crate) fn code(&self) -> &str {
        &self.separated.code
    }

    /// The text with everything but comments blank.
    pub(crate) fn comments(&self) -> &str {
        &self.separated.comments
    }

    /// The text with everything but string literals blank.
    pub(crate) fn literals(&self) -> &str {
        &self.separated.literals
    }

    fn is_in(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Whether a file holds tests or what only tests use, by the part of its path within its crate.
pub(crate) fn is_test(file: &str) -> bool {
    let file = file.split_once("/src/").map_or(file, |(_, inner)| inner);
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    stem.split('/').any(|part| matches!(part, "tests" | "testing" | "bin" | "properties"))
}

/// Reports files that do not begin with a module comment.
pub(crate) fn without_header(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| !source.text.starts_with("//! "))
        .map(|source| source.path.clone())
        .collect()
}

/// Reports files of more than [`LINES_MAX`] lines.
pub(crate) fn too_long(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(source, lines)| format!("{}: {lines} lines, {LINES_MAX} at most", source.path))
        .collect()
}

/// Reports modules whose file is beside their folder rather than in it, as `mod.rs`.
pub(crate) fn beside_their_folder(sources: &[Source]) -> Vec<String> {
    let folders: BTreeSet<&str> =
        sources.iter().filter_map(|source| Some(source.path.rsplit_once('/')?.0)).collect();
    let stem = |source: &&Source| source.path.strip_suffix(".rs").is_some_and(|stem| folders.contains(stem));
    sources.iter().filter(stem).map(|source| source.path.clone()).collect()
}

/// Reports uses of sqlx outside `shared/store`, including re-exports of other crates.
pub(crate) fn sql_outside_store(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| !source.is_in("shared/store")) {
        for word in ["sqlx", "query!", "query_as!", "query_scalar!"] {
            faults.extend(occurrences(source, &source.separated.code, word));
        }
    }
    faults
}

/// Reports uses of the NATS client outside `shared/bus`, and subjects written as literals outside `shared/wire`.
pub(crate) fn subjects_outside_wire(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources {
        let code = &source.separated.code;
        if !source.is_in("shared/bus") {
            faults.extend(occurrences(source, code, "async_nats"));
        }
        if !source.is_in("shared/wire") {
            for call in SUBJECT_CALLS {
                let spelled =
                    code.match_indices(call).filter(|(at, _)| is_spelled_out(&code[at + call.len()..]));
                faults
                    .extend(spelled.map(|(at, _)| format!("{}: {call}\"..\")", position(source, code, at))));
            }
        }
    }
    faults
}

/// Whether the arguments at the start of `code` begin with a string literal.
fn is_spelled_out(code: &str) -> bool {
    let argument = code.trim_start().trim_start_matches('&');
    ["\"", "b\"", "format!(", "String::from(\""].iter().any(|start| argument.starts_with(start))
}

/// Reports unfinished work.
pub(crate) fn unfinished(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources {
        for word in ["todo!", "unimplemented!"] {
            faults.extend(occurrences(source, &source.separated.code, word));
        }
        for word in ["FIXME", "TODO", "XXX"] {
            faults.extend(occurrences(source, &source.separated.comments, word));
        }
    }
    faults
}

/// Positions at which `word` occurs in `text` as a whole word.
fn occurrences(source: &Source, text: &str, word: &str) -> Vec<String> {
    text.match_indices(word)
        .filter(|(at, _)| !text[..*at].ends_with(lexer::is_word))
        .filter(|(at, _)| word.ends_with('!') || !text[at + word.len()..].starts_with(lexer::is_word))
        .map(|(at, _)| format!("{}: {word}", position(source, text, at)))
        .collect()
}

pub(crate) fn position(source: &Source, text: &str, at: usize) -> String {
    format!("{}:{}", source.path, text[..at].matches('\n').count() + 1)
}

#[test]
fn finds_files_without_opening() {
    let sources = [
        source("a.rs", "//! What it is for.\n"),
        source("b.rs", "// What it is for.\n"),
        source("c.rs", "\n//! Too late.\n"),
        source("d.rs", ""),
    ];
    assert_eq!(without_header(&sources), ["b.rs", "c.rs", "d.rs"]);
}

#[test]
fn finds_long_files() {
    let sources = [source("a.rs", &"\n".repeat(900)), source("b.rs", &"\n".repeat(901))];
    assert_eq!(too_long(&sources), ["b.rs: 901 lines, 900 at most"]);
}

#[test]
fn finds_sql_outside_store() {
    let text = "// sqlx::query\nlet rows = sqlx::query(\"select 1\");\nstore::sqlx\nlet query = mysqlx; query !query!(x)";
    let sources = [source("shared/store/src/jobs.rs", text), source("shared/storefront/src/lib.rs", text)];
    assert_eq!(
        sql_outside_store(&sources),
        [
            "shared/storefront/src/lib.rs:2: sqlx",
            "shared/storefront/src/lib.rs:3: sqlx",
            "shared/storefront/src/lib.rs:4: query!",
        ]
    );
}

#[test]
fn finds_subjects_outside_wire() {
    let text = "use async_nats::Client;
        client.publish(\"node.1.allocs\", body);
        client.request(
            format!(\"eval.dequeue.{kind}\"), body);
        client.subscribe(r#\"eval.>\"#);
        client.publish(Subject::Dequeue(kind), \"body\");
        watches.subscribe(job);
        // client.publish(\"eval\")
    ";
    let sources = [source("services/api/src/lib.rs", text), source("shared/wire/src/lib.rs", text)];
    assert_eq!(
        subjects_outside_wire(&sources),
        [
            "services/api/src/lib.rs:1: async_nats",
            "services/api/src/lib.rs:2: .publish(\"..\")",
            "services/api/src/lib.rs:3: .request(\"..\")",
            "services/api/src/lib.rs:5: .subscribe(\"..\")",
            "shared/wire/src/lib.rs:1: async_nats",
        ]
    );
}

#[test]
fn finds_what_is_left_open() {
    let text = "/// Never says todo!().\nfn a() { todo!() }\nfn b() { unimplemented!() }\nlet c = \"FIXME\"; // FIXME: d, TODO: e\n/* XXX */ const XXXL: u8 = 1;";
    assert_eq!(
        unfinished(&[source("a.rs", text)]),
        ["a.rs:2: todo!", "a.rs:3: unimplemented!", "a.rs:4: FIXME", "a.rs:4: TODO", "a.rs:5: XXX"]
    );
}

fn source(path: &str, text: &str) -> Source {
    Source::new(path.into(), text.into())
}
