//! Pure files: a file whose header says *Pure* names no I/O, clock or source of chance.

use crate::lexer;
use crate::sources::{Source, position};

/// Crates and modules that a pure file must not name.
const IMPURE: &[&str] = &[
    "actix",
    "actix_web",
    "async_nats",
    "bus",
    "rand",
    "sqlx",
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::process",
    "store",
    "tokio",
];

/// Uses of [`IMPURE`] in files whose header has the word *Pure*. Test modules may name them.
pub(crate) fn impurities(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| is_pure(source)) {
        let code = lexer::without_test_modules(source.code());
        for name in IMPURE {
            let path = format!("{name}::");
            let used = code.match_indices(&path).filter(|(at, _)| {
                let before = &code[..*at];
                !before.ends_with(lexer::is_word) && !before.ends_with("::")
            });
            faults.extend(used.map(|(at, _)| format!("{}: {name}", position(source, &code, at))));
        }
    }
    faults
}

/// Whether the header of a file says that it is pure: `Pure` at the start of a sentence.
fn is_pure(source: &Source) -> bool {
    let header = source.comments().lines().take_while(|line| line.starts_with("//!"));
    let header = header
        .flat_map(|line| line.trim_start_matches("//!").split_whitespace())
        .collect::<Vec<_>>()
        .join(" ");
    header.starts_with("Pure") || header.contains(". Pure")
}

#[test]
fn finds_impure_files() {
    let source = |path: &str, text: &str| Source::new(path.to_owned(), text.to_owned());
    let pure = "//! Decides.\n//!\n//! Pure: time\n//! comes from the caller.\nuse std::fs::File;\nuse tokio::time;\n\
                fn f() { my_store::x(); crate::bus::y(); rand::random() }\n#[cfg(test)]\nmod tests { use std::fs::File; }\n";
    let impure = "//! Reads files; not pure.\nuse std::fs::File;\n";
    assert_eq!(
        impurities(&[source("a.rs", pure), source("b.rs", impure)]),
        ["a.rs:7: rand", "a.rs:5: std::fs", "a.rs:6: tokio"]
    );
}
