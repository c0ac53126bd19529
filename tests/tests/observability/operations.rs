//! The pages of `docs/operations` name no metric that does not exist.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use store::roles::Role;

use crate::emitted::is_emitted;

/// Generated from the keys of configuration files, some of which look like metrics.
const KEYS: &str = "configuration-keys.md";
/// Words that look like metrics: a setting of Prometheus, and one of agents.
const OTHERS: [&str; 2] = ["nomad_sd_configs", "nomad_retry"];

#[test]
fn metrics_that_pages_name_exist() {
    let name = Regex::new(r"\b(drover|nomad)_[a-z0-9_]*[a-z0-9]\b").expect("it is a pattern");
    let (mut found, mut unknown) = (0, Vec::new());
    for page in pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations")) {
        let text = fs::read_to_string(&page).expect("a page is text");
        for name in name.find_iter(&text).map(|found| found.as_str()) {
            let is_role = Role::ALL.into_iter().any(|role| role.name() == name);
            found += usize::from(is_emitted(name));
            if !is_role && !is_emitted(name) && !OTHERS.contains(&name) {
                unknown.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert_eq!(unknown, [""; 0], "no metric and no database role has this name");
    assert!(found > 10, "the pages name metrics");
}

fn pages(dir: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(dir).expect("the directory is there").map(|entry| entry.expect("an entry").path());
    let (dirs, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let of_dirs = dirs.iter().flat_map(|dir| pages(dir));
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md") && !path.ends_with(KEYS);
    files.into_iter().filter(is_page).chain(of_dirs).collect()
}
