//! The configurations of networks that operators write: files in a directory, by the name of the network (A-18.9).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use telemetry::chain;

use super::conflist::ConfList;

/// The endings of files with configurations.
const EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];
/// The maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The networks that a directory describes.
#[derive(Debug, Default)]
pub(crate) struct Configs {
    /// The networks by name. The first file counts, in the order of their names.
    pub(crate) networks: BTreeMap<String, ConfList>,
    /// Files that cannot be used, and why.
    pub(crate) unusable: Vec<String>,
}

/// Reads all configurations.
pub(crate) fn read_all(dir: &Path) -> Configs {
    let mut found = Configs::default();
    for path in files(dir) {
        match read(&path) {
            Ok(list) => {
                found.networks.entry(list.name.clone()).or_insert(list);
            }
            Err(error) => found.unusable.push(format!("{}: {error}", path.display())),
        }
    }
    found
}

/// The network of this name.
///
/// # Errors
/// If no file describes it. The message says which files there are, and what is wrong with them.
pub(crate) fn find(dir: &Path, name: &str) -> Result<ConfList, String> {
    let mut others = Vec::new();
    for path in files(dir) {
        match read(&path) {
            Ok(list) if list.name == name => return Ok(list),
            Ok(list) => others.push(list.name),
            Err(error) => others.push(format!("{}: {error}", path.display())),
        }
    }
    let others = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
    Err(format!(
        "no network named {name:?} is described in {} (--cni-config-dir, cni_config_dir), where there is: {others}",
        dir.display()
    ))
}

/// The files with configurations. A directory that does not exist has none.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_config = |path: &PathBuf| {
        path.extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|text| EXTENSIONS.contains(&text))
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_config).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> Result<ConfList, String> {
    let text = read_text(path).map_err(|error| chain(&error))?;
    ConfList::read(&text).map_err(|error| error.to_string())
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("the file has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_found_by_their_names_and_not_by_those_of_files() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("10-a.conflist", r#"{"name":"lan","plugins":[{"type":"first"}]}"#),
            ("20-b.conf", r#"{"name":"lan","type":"second"}"#),
            ("30-c.json", r#"{"name":"wan","type":"third"}"#),
            ("40-d.conflist", "{"),
            ("README.md", "about this directory"),
        ] {
            fs::write(dir.path().join(file), text).unwrap();
        }
        let Configs { networks, unusable } = read_all(dir.path());
        assert_eq!(networks.keys().collect::<Vec<_>>(), ["lan", "wan"]);
        assert_eq!(networks["lan"].types().collect::<Vec<_>>(), ["first"]);
        assert!(unusable.len() == 1 && unusable[0].contains("40-d.conflist: it is not"), "{unusable:?}");
        assert_eq!(find(dir.path(), "wan").unwrap().types().collect::<Vec<_>>(), ["third"]);
        let error = find(dir.path(), "dmz").unwrap_err();
        assert!(
            error.contains("where there is: lan, lan, wan, ") && error.contains("40-d.conflist: it is not"),
            "{error}"
        );
        let missing = find(&dir.path().join("missing"), "dmz").unwrap_err();
        assert!(missing.ends_with("where there is: nothing"), "{missing}");
    }
}
