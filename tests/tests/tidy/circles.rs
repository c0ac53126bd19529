//! Circles of modules: files of one crate that use each other's items, directly or through others. In some crates, circles
//! of folders as well.
//!
//! An edge goes from a file to the file that defines what it names. Re-exports are followed, so that a parent that only
//! passes on its children's items does not depend on them. A file may use what its parent modules define. Test code is left
//! out.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexer::{is_word, without_test_modules};
use crate::sources::{Source, is_test};

/// How many re-exports may lie between a name and its definition.
const REEXPORTS_MAX: usize = 8;

/// Circles that the problem itself has, by their first file.
const EXEMPT: &[&str] = &[
    // A quoted text is an expression, and a template contains expressions.
    "shared/jobspec/src/syntax/expressions.rs",
];

/// Crates in which folders form no circles either.
const ORDERED: &[&str] = &["services/agent"];

/// Segments of a module's path within its crate; empty for the root.
type Path = Vec<String>;

/// One file of a crate.
#[derive(Debug, Default)]
struct Module {
    /// From the root of the repository.
    file: String,
    /// Paths that are named anywhere in it, absolute within the crate.
    uses: Vec<Path>,
    /// Names that it passes on, with what they stand for.
    reexports: BTreeMap<String, Path>,
    /// Modules of which it passes on everything.
    globs: Vec<Path>,
}

/// Groups of files that form a circle, a line each.
pub(crate) fn circles(sources: &[Source]) -> Vec<String> {
    by_crate(sources).values().flat_map(|sources| circles_of_crate(sources)).collect()
}

/// Groups of folders that form a circle, a line each, in the crates that are [`ORDERED`]. A file at the top of the crate
/// counts as a folder.
pub(crate) fn circles_of_folders(sources: &[Source]) -> Vec<String> {
    let crates = by_crate(sources);
    let ordered = crates.iter().filter(|(name, _)| ORDERED.contains(*name));
    let circles = ordered.flat_map(|(name, sources)| {
        let modules = modules(sources);
        let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (from, targets) in edges(&modules) {
            let from = folder(from);
            let others = targets.into_iter().map(folder).filter(|to| *to != from);
            folders.entry(from).or_default().extend(others);
        }
        let circles = strongly_connected(&folders).into_iter();
        circles.map(|folders| format!("{name}: {}", folders.join(" <-> "))).collect::<Vec<_>>()
    });
    circles.collect()
}

/// The sources of each crate, without tests.
fn by_crate(sources: &[Source]) -> BTreeMap<&str, Vec<&Source>> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if let Some((name, _)) = source.path().split_once("/src/")
            && !is_test(source.path())
        {
            crates.entry(name).or_default().push(source);
        }
    }
    crates
}

fn circles_of_crate(sources: &[&Source]) -> Vec<String> {
    let modules = modules(sources);
    let edges = edges(&modules);
    let circles = strongly_connected(&edges).into_iter().filter(|files| !EXEMPT.contains(&files[0]));
    circles.map(|files| files.join(" <-> ")).collect()
}

fn modules(sources: &[&Source]) -> BTreeMap<Path, Module> {
    let paths: BTreeSet<Path> = sources.iter().map(|source| path_of(source.path())).collect();
    let read = |source: &&Source| {
        let path = path_of(source.path());
        let module = Module::read(source, &path, &paths);
        (path, module)
    };
    sources.iter().map(read).collect()
}

/// The files that each file uses.
fn edges(modules: &BTreeMap<Path, Module>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, module) in modules {
        for used in &module.uses {
            if let Some(target) = resolve(modules, used, 0).filter(|target| !path.starts_with(target)) {
                edges.entry(&module.file).or_default().insert(&modules[target].file);
            }
        }
    }
    edges
}

/// The folder of a file at the top of its crate; the file's own name if it is in no folder.
fn folder(file: &str) -> &str {
    let inner = file.split_once("/src/").map_or(file, |(_, inner)| inner);
    inner.split_once('/').map_or(inner, |(folder, _)| folder).trim_end_matches(".rs")
}

/// The module of a file: `services/api/src/http/mod.rs` is `http`.
fn path_of(file: &str) -> Path {
    let inner = file.split_once("/src/").map_or(file, |(_, inner)| inner);
    let mut path: Path = inner.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

/// The module that defines what a path names.
fn resolve<'a>(modules: &'a BTreeMap<Path, Module>, used: &[String], depth: usize) -> Option<&'a Path> {
    let length = (0..=used.len()).rev().find(|length| modules.contains_key(&used[..*length]))?;
    let (path, module) = modules.get_key_value(&used[..length])?;
    let Some(name) = used.get(length) else { return Some(path) };
    if depth < REEXPORTS_MAX {
        if let Some(real) = module.reexports.get(name) {
            return resolve(modules, real, depth + 1);
        }
        if let [only] = &module.globs[..] {
            return resolve(modules, only, depth + 1);
        }
    }
    Some(path)
}

impl Module {
    fn read(source: &Source, path: &Path, paths: &BTreeSet<Path>) -> Self {
        let code = without_test_modules(source.code());
        let mut module = Self { file: source.path().to_owned(), ..Self::default() };
        let mut at = 0;
        while let Some(start) = code[at..].find(is_word).map(|start| at + start) {
            let word: &str = &code[start..start + word_length(&code[start..])];
            at = start + word.len();
            let before = code[..start].trim_end();
            if before.ends_with("::") || !code[at..].starts_with("::") {
                continue;
            }
            let Some(base) = base_of(word, path, paths) else { continue };
            let mut tree = Tree { code: &code, at: at + 2, found: Vec::new() };
            tree.read(base);
            at = tree.at.max(at);
            let statement = before.rsplit([';', '}', '{']).next().unwrap_or_default().trim();
            let is_reexport = statement.starts_with("pub") && statement.ends_with("use");
            for (used, name) in tree.found {
                match name.as_deref() {
                    Some("*") if is_reexport => module.globs.push(used),
                    Some(name) if is_reexport => {
                        module.reexports.insert(name.to_owned(), used);
                    }
                    _ => module.uses.push(used),
                }
            }
        }
        module
    }
}

/// The module that the first word of a path stands for: the crate, this module, its parent, or a child of this module.
fn base_of(word: &str, path: &Path, paths: &BTreeSet<Path>) -> Option<Path> {
    match word {
        "crate" => Some(Path::new()),
        "self" => Some(path.clone()),
        "super" => path.split_last().map(|(_, parent)| parent.to_vec()),
        child => {
            let mut full = path.clone();
            full.push(child.to_owned());
            paths.contains(&full).then_some(full)
        }
    }
}

fn word_length(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// Reads what follows the first `::` of a path: segments, and groups in braces.
struct Tree<'a> {
    code: &'a str,
    at: usize,
    /// Whole paths, with the name under which each is passed on.
    found: Vec<(Path, Option<String>)>,
}

impl Tree<'_> {
    fn read(&mut self, mut path: Path) {
        loop {
            self.skip_space();
            let rest = &self.code[self.at..];
            if rest.starts_with('{') {
                self.at += 1;
                self.read_group(&path);
                return;
            }
            if rest.starts_with('*') {
                self.at += 1;
                self.found.push((path, Some("*".to_owned())));
                return;
            }
            let word = &rest[..word_length(rest)];
            if word.is_empty() {
                self.found.push((path, None));
                return;
            }
            self.at += word.len();
            match word {
                "super" => drop(path.pop()),
                "self" => {}
                word => path.push(word.to_owned()),
            }
            if !self.code[self.at..].starts_with("::") {
                let name = self.alias().or_else(|| path.last().cloned());
                self.found.push((path, name));
                return;
            }
            self.at += 2;
        }
    }

    fn read_group(&mut self, path: &Path) {
        loop {
            self.skip_space();
            match self.code[self.at..].chars().next() {
                Some('}') => {
                    self.at += 1;
                    return;
                }
                Some(',') => self.at += 1,
                Some(c) if is_word(c) || c == '*' => self.read(path.clone()),
                Some(_) | None => return,
            }
        }
    }

    /// The name after `as`, if there is one.
    fn alias(&mut self) -> Option<String> {
        let rest = self.code[self.at..].trim_start().strip_prefix("as ")?.trim_start();
        let name = &rest[..word_length(rest)];
        self.at = self.code.len() - rest.len() + name.len();
        Some(name.to_owned())
    }

    fn skip_space(&mut self) {
        let rest = &self.code[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }
}

/// Groups of more than one file that reach each other.
fn strongly_connected<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<Vec<&'a str>> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|file| (*file, reachable(edges, file))).collect();
    let reaches = |from: &str, to: &str| reachable.get(from).is_some_and(|all| all.contains(to));
    let in_circle = edges.keys().filter(|file| reaches(file, file));
    in_circle
        .map(|file| reachable[file].iter().copied().filter(|other| reaches(other, file)).collect())
        .collect()
}

/// All files that a file uses, directly or through others.
fn reachable<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(file) = open.pop() {
        open.extend(edges.get(file).into_iter().flatten().filter(|used| found.insert(**used)));
    }
    found
}

#[test]
fn finds_circles() {
    let source = |path: &str, text: &str| Source::new(format!("shared/x/src/{path}.rs"), text.to_owned());
    let sources = [
        source("lib", "mod a;\nmod b;\nmod c;\npub use a::Alpha;\npub use b::{Beta, beta as other};\n"),
        source("a", "use crate::{Beta, c::Gamma};\npub struct Alpha;"),
        source("b", "pub struct Beta;\nfn f() { crate::other(crate::a::Alpha) }"),
        source(
            "c/mod",
            "mod d;\npub(crate) use d::Gamma;\n// use crate::a::Alpha;\nlet text = \"crate::a::Alpha\";",
        ),
        source("g", "use crate::c::d::Gamma;\npub struct Delta;"),
        source(
            "c/d",
            "use std::{fmt, super_::X};\nuse super::super::g::Delta;\npub struct Gamma;\n#[cfg(test)]\nmod tests { use crate::a::Alpha; fn g() { \"}\"; } }",
        ),
        source("c/tests", "use crate::a::Alpha;"),
        source("e/mod", "mod f;\nfn help() {}\nfn run() { f::run() }"),
        source("e/f", "use super::help;\npub fn run() { help() }"),
    ];
    assert_eq!(
        circles(&sources),
        ["shared/x/src/a.rs <-> shared/x/src/b.rs", "shared/x/src/c/d.rs <-> shared/x/src/g.rs"]
    );
}

#[test]
fn finds_circles_of_folders() {
    let source =
        |path: &str, text: &str| Source::new(format!("services/agent/src/{path}.rs"), text.to_owned());
    let sources = [
        source("lib", "mod a;\nmod b;\nmod c;\n"),
        source("a/one", "use crate::b::two::Two;\npub struct One;"),
        source("a/three", "pub struct Three;"),
        source("b/two", "use super::four::Four;\npub struct Two;"),
        source("b/four", "use crate::a::three::Three;\npub struct Four;"),
        source("c", "use crate::a::one::One;"),
    ];
    assert!(circles(&sources).is_empty());
    assert_eq!(circles_of_folders(&sources), ["services/agent: a <-> b"]);
}
