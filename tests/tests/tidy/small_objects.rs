//! Counts the files that name a kind of small object, which is the cost of a new kind.
//!
//! A file that names no kind needs no change for a new one. So the files that the state, the store and the followers of
//! changes consist of may name none, and few files may declare one.

use std::collections::BTreeSet;

use crate::lexer::{is_word, without_test_modules};
use crate::sources::{Source, is_test};

/// The list of the kinds.
const LIST: &str = "shared/model/src/small_object_list.rs";

/// Files that treat all kinds alike.
const GENERIC: &[&str] = &[
    "services/api/src/events/shape.rs",
    "services/api/src/routes/small_objects.rs",
    "services/deployment-watcher/src/",
    "services/eval-broker/src/",
    "services/node-tracker/src/",
    "shared/bus/src/",
    "shared/state/src/",
    "shared/store/src/",
];

/// Where kinds are declared, in code.
const DECLARING: &[&str] = &["shared/api-types/src/", "shared/model/src/"];

/// Files in [`DECLARING`] that use kinds: other objects that refer to small ones, and the causes of change sets.
const USING: &[&str] =
    &["shared/model/src/canonicalise/", "shared/model/src/change/mod.rs", "shared/model/src/job/"];

/// Maximum number of files that declare a kind: the list, its type, its JSON, the conversion between the two, and the
/// migration that creates its table. With three files for its routes it costs eight.
const DECLARING_MAX: usize = 5;

/// The names of a kind.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    /// The object table.
    table: String,
    /// The table of the state, the changes and the type.
    items: BTreeSet<String>,
}

/// Generic files that name a kind, and kinds that too many files declare. `migrations` are paths with texts.
pub(crate) fn costs(sources: &[Source], migrations: &[(String, String)]) -> Vec<String> {
    let code: Vec<(&str, String)> = sources
        .iter()
        .filter(|source| !is_test(source.path()))
        .map(|source| (source.path(), without_test_modules(source.code())))
        .collect();
    let list = code.iter().find(|(path, _)| *path == LIST).map_or("", |(_, code)| code.as_str());
    let kinds = kinds(list);
    if kinds.is_empty() {
        return vec![format!("{LIST} lists no kinds")];
    }
    let mut faults = Vec::new();
    for (path, code) in code.iter().filter(|(path, _)| is_in(path, GENERIC)) {
        let words: BTreeSet<&str> = words(code).collect();
        let is_named = |name: &&String| words.contains(name.as_str());
        let names = kinds.iter().flat_map(|kind| kind.items.iter().chain([&kind.table]));
        faults.extend(names.filter(is_named).map(|name| format!("{path} names {name}")));
    }
    for kind in &kinds {
        let declares = |code: &str| words(code).any(|word| kind.items.contains(word));
        let in_code =
            code.iter().filter(|(path, code)| is_declaring(path) && declares(code)).map(|(path, _)| *path);
        let creates = |text: &str| words(text).any(|word| word == kind.table);
        let in_schema = migrations.iter().filter(|(_, text)| creates(text)).map(|(path, _)| path.as_str());
        let files: Vec<&str> = in_code.chain(in_schema).collect();
        if files.len() > DECLARING_MAX {
            faults.push(format!(
                "{} are declared in {} files: {}",
                kind.table,
                files.len(),
                files.join(", ")
            ));
        }
    }
    faults
}

/// The kinds in the code of the list. A kind is a statement `one, table: Table { Put, Deleted } of path::Type;`.
fn kinds(list: &str) -> Vec<Kind> {
    let statements = list.split(';').map(|statement| words(statement).collect::<Vec<_>>());
    let kind = |words: Vec<&str>| {
        let of = words.iter().position(|word| *word == "of")?;
        let [table, items @ ..] = words.get(of.checked_sub(4)?..of)? else { return None };
        let items = items.iter().chain(words.last()).map(|item| (*item).to_owned());
        Some(Kind { table: (*table).to_owned(), items: items.collect() })
    };
    statements.filter_map(kind).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

fn is_in(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

fn is_declaring(path: &str) -> bool {
    is_in(path, DECLARING) && !is_in(path, USING)
}

#[test]
fn finds_files_that_name_a_kind() {
    let source = |path: &str, text: &str| Source::new(path.to_owned(), text.to_owned());
    let list = "macro_rules! each { ($then:ident $($first:tt)*) => { $then! {
        $($first)*
        pool, pools: Pools { Pool, PoolDeleted } of $crate::cluster::Pool;
        key, keys: Keys { Key, KeyDeleted }
            of $crate::keyring::Key;
    } } }";
    let declared = |name: &str| source(&format!("shared/model/src/{name}.rs"), "type A = Key;");
    let sources = [
        source(LIST, list),
        source("shared/state/src/apply.rs", "// Pool\nfn apply(pool: Any) { pools.insert(pool) }"),
        source("shared/state/src/tests.rs", "let pool = Pool;"),
        source("services/eval-broker/src/testing.rs", "let pool = Pool;"),
        source(
            "services/eval-broker/src/broker.rs",
            "let a = \"Pool\";\n#[cfg(test)]\nmod tests { use Pool; }",
        ),
        source("services/api/src/routes/pools.rs", "fn list(pools: Pools)"),
        declared("a"),
        declared("b"),
        declared("c"),
        declared("job/mod"),
    ];
    let migrations = [
        ("1.sql".to_owned(), "create table keys (id);".to_owned()),
        ("2.sql".to_owned(), "create table key_secrets (id);".to_owned()),
    ];
    assert_eq!(costs(&sources, &migrations), ["shared/state/src/apply.rs names pools"]);
    let [two, three] = ["3.sql", "4.sql"].map(|path| (path.to_owned(), "drop table keys".to_owned()));
    let migrations: Vec<_> = migrations.into_iter().chain([two, three]).collect();
    let cost = "keys are declared in 7 files: shared/model/src/small_object_list.rs, shared/model/src/a.rs, \
                shared/model/src/b.rs, shared/model/src/c.rs, 1.sql, 3.sql, 4.sql";
    assert_eq!(costs(&sources, &migrations), ["shared/state/src/apply.rs names pools", cost]);
    assert_eq!(costs(&[], &[]), ["shared/model/src/small_object_list.rs lists no kinds"]);
}
