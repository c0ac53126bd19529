//! Checks the rules between crates: dependencies, what pure crates may use, where SQL and subjects are written, how files
//! open, and what pages claim. Rules that rustc, clippy and rustfmt can check are left to them.
//!
//! The rules are functions over data, in the modules of this folder, each with a test that shows that it finds violations.
//! This file reads the repository, applies every rule, and prints each violation with advice.

mod circles;
mod citations;
mod lexer;
mod manifests;
mod not_built;
mod pages;
mod purity;
mod small_objects;
mod sources;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use citations::Rules;
use manifests::Member;
use pages::Page;
use sources::Source;

#[test]
fn dependencies_point_down() {
    assert_tidy(
        manifests::forbidden_dependencies(&members()),
        "Services communicate by subjects and the state and never depend on each other, and shared crates depend only on \
         lower ones. If the design has changed, change ALLOWED_DEPENDENCIES in manifests.rs with it.",
    );
}

#[test]
fn pure_crates_touch_nothing() {
    assert_tidy(
        manifests::impurities(&members()),
        "Pure crates decide and leave I/O, clocks and randomness to their callers. Take what is needed as an argument, or \
         do it in the service around the crate.",
    );
}

#[test]
fn only_their_owner_depends_on_drivers() {
    assert_tidy(
        manifests::drivers_outside_owner(&members()),
        "Give the owner a function that is named for what it means, and call that.",
    );
}

#[test]
fn failpoints_are_for_tests() {
    assert_tidy(
        manifests::enabled_failpoints(&members()),
        "The released binary must not have failpoints. Put the test into `tests`, whose binary has them.",
    );
}

#[test]
fn members_opt_into_what_the_workspace_sets() {
    assert_tidy(
        manifests::missing_opt_ins(&members()),
        "Add the line. Edition, licence, version and lints are set once, in the root manifest.",
    );
}

#[test]
fn versions_live_in_the_root_manifest() {
    assert_tidy(
        manifests::own_versions(&members()),
        "Put the version under [workspace.dependencies] in the root manifest and write `name.workspace = true`, or \
         `name = { workspace = true, features = [..] }`, here.",
    );
}

#[test]
fn directories_are_named_like_their_crates() {
    assert_tidy(manifests::misnamed(&members()), "Rename one to match the other.");
}

#[test]
fn files_open_with_what_they_are_for() {
    assert_tidy(
        sources::without_header(&sources()),
        "Begin the file with `//!`: what it is for, and what it leaves to others.",
    );
}

#[test]
fn files_can_be_read_in_one_sitting() {
    assert_tidy(sources::too_long(&sources()), "Split the file by responsibility.");
}

#[test]
fn a_module_with_a_folder_is_its_mod_rs() {
    assert_tidy(sources::beside_their_folder(&sources()), "Move `foo.rs` to `foo/mod.rs`.");
}

#[test]
fn sql_is_written_in_the_store_only() {
    assert_tidy(
        sources::sql_outside_store(&sources()),
        "Move the statement to shared/store, into a function that is named for what it means.",
    );
}

#[test]
fn subjects_are_spelled_in_wire_only() {
    assert_tidy(
        sources::subjects_outside_wire(&sources()),
        "Add the subject to shared/wire, with what it promises, and send through shared/bus.",
    );
}

#[test]
fn nothing_is_left_open() {
    assert_tidy(
        sources::unfinished(&sources()),
        "Finish it or remove it. Unfinished code and plans do not belong on the main branch.",
    );
}

#[test]
fn cited_rules_exist() {
    let mut rules = Rules::default();
    for entry in fs::read_dir(root().join("docs/rules")).expect("the directory can be listed") {
        let path = entry.expect("the directory can be listed").path();
        let page = path.file_stem().expect("a page has a name").to_string_lossy().into_owned();
        rules.add(&page, &read(&path));
    }
    assert_tidy(
        citations::unknown(&sources(), &rules),
        "Cite a rule or section that a page of docs/rules defines, or add the rule there.",
    );
}

#[test]
fn modules_form_no_circles() {
    assert_tidy(
        circles::circles(&sources()),
        "Move what both files need into a module below them, or let the caller pass it in.",
    );
}

#[test]
fn folders_form_no_circles() {
    assert_tidy(
        circles::circles_of_folders(&sources()),
        "Move what both folders need into one below them. The crate's lib.rs says which folder is below which.",
    );
}

#[test]
fn retired_words_stay_retired() {
    assert_tidy(
        words::retired(&sources()),
        "Use the term of docs/glossary.md that says what the item is or does.",
    );
}

#[test]
fn pure_files_name_no_io() {
    assert_tidy(
        purity::impurities(&sources()),
        "A file whose header says that it is pure gets what it needs as arguments. Pass it in, or move the I/O to the \
         module that calls it.",
    );
}

#[test]
fn refusals_come_from_the_list_of_what_is_not_built() {
    assert_tidy(
        not_built::own_refusals(&sources()),
        "Add the feature to shared/model/src/features.rs, ask it before refusing, and take the words from it.",
    );
    assert_tidy(
        not_built::unneeded(&sources()),
        "Nothing refuses anything because of the feature any more. Remove its line from shared/model/src/features.rs.",
    );
}

#[test]
fn the_readme_says_what_is_not_built() {
    let path = root().join("README.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, not_built::updated(&read(&path))).expect("the README can be written");
    }
    let readme = read(&path);
    assert!(
        readme == not_built::updated(&readme),
        "README.md is out of date: UPDATE_DOCS=1 cargo test -p tests --test tidy"
    );
    assert_tidy(
        not_built::unlisted(&read(&root().join("docs/metrics.md"))),
        "Say it as shared/model/src/features.rs does. If the feature is built, the metric is, too.",
    );
}

#[test]
fn links_in_pages_lead_somewhere() {
    assert_tidy(pages::dead_links(&pages(), exists), "Correct the link, or the heading that it leads to.");
}

#[test]
fn files_and_targets_that_pages_name_exist() {
    let (described, ours): (Vec<Page>, Vec<Page>) =
        pages().into_iter().partition(|page| page.path.starts_with("docs/rules/"));
    assert!(!described.is_empty(), "the rules, which describe other programs, are in docs/rules");
    assert_tidy(pages::missing_files(&ours, exists), "Name the file where it is now.");
    let makefile = read(&root().join("Makefile"));
    assert_tidy(pages::missing_targets(&ours, &makefile), "Name a target of the Makefile.");
}

#[test]
fn a_kind_of_small_object_is_declared_in_few_files() {
    let folder = root().join("shared/store/migrations");
    let entries = fs::read_dir(&folder).expect("the directory can be listed");
    let paths = entries.map(|entry| entry.expect("the directory can be listed").path());
    let migrations: Vec<_> = paths.map(|path| (path.display().to_string(), read(&path))).collect();
    assert_tidy(
        small_objects::costs(&sources(), &migrations),
        "Let the declaration in shared/model say what differs between kinds, and use `for_each_small_object!`.",
    );
}

fn assert_tidy(faults: Vec<String>, advice: &str) {
    assert!(faults.is_empty(), "\n  {}\n\n{advice}\n", faults.join("\n  "));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate's directory has a parent")
}

fn members() -> Vec<Member> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    manifests::members(&metadata, |manifest| read(Path::new(manifest)))
}

fn sources() -> Vec<Source> {
    files(".rs").into_iter().map(|(path, text)| Source::new(path, text)).collect()
}

fn pages() -> Vec<Page> {
    files(".md").into_iter().map(|(path, text)| Page { path, text }).collect()
}

/// All files of the repository with this ending: their paths from the root, and their texts.
fn files(ending: &str) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    collect_files(root(), ending, &mut paths);
    assert!(!paths.is_empty(), "no files *{ending} under {}", root().display());
    paths.sort();
    let name =
        |path: &Path| path.strip_prefix(root()).expect("the path is below the root").display().to_string();
    paths.iter().map(|path| (name(path), read(path))).collect()
}

/// Whether a file or directory exists, named from the root.
fn exists(path: &str) -> bool {
    root().join(path).exists()
}

/// Skips build output and hidden directories, which contain files of tools and running clusters.
fn collect_files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("the directory can be listed").path();
        let name = path.file_name().expect("a directory entry has a name").to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect_files(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
