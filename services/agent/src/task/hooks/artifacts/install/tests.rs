//! Tests of what is moved to a destination, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use crate::artifacts::source::Source;

/// A delivery in `out`, and the directory `alloc` of an allocation.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["out/bin", "alloc/web/local/bin"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("out/bin/tool"), "new").unwrap();
        Self { dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn install(&self, source: &str, mode: Mode, destination: &str) -> Result<(), String> {
        let plan = Plan {
            source: Source::read(source, &BTreeMap::new()).unwrap(),
            destination: PathBuf::from(destination),
            mode,
            headers: BTreeMap::new(),
            insecure: false,
            chown: false,
        };
        let open = |name: &str| OpenDir::open(&self.path(name)).unwrap();
        install(&open("out"), &open("alloc"), &plan, None)
    }
}

//
#[test]
fn an_artifact_joins_what_is_in_its_destination() {
    let scene = Scene::new();
    fs::write(scene.path("alloc/web/local/bin/tool"), "old").unwrap();
    fs::write(scene.path("alloc/web/local/bin/other"), "other").unwrap();
    fs::set_permissions(scene.path("out/bin/tool"), Permissions::from_mode(0o4755)).unwrap();
    symlink("bin/tool", scene.path("out/link")).unwrap();
    scene.install("https://example.org/a.zip", Mode::Any, "web/local").unwrap();
    assert_eq!(fs::read_to_string(scene.path("alloc/web/local/bin/tool")).unwrap(), "new");
    assert_eq!(fs::read_to_string(scene.path("alloc/web/local/bin/other")).unwrap(), "other");
    assert_eq!(fs::read_to_string(scene.path("alloc/web/local/link")).unwrap(), "new");
    let mode = fs::metadata(scene.path("alloc/web/local/bin/tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "without set-uid");
}

#[test]
fn a_directory_of_an_archive_can_be_chosen() {
    let scene = Scene::new();
    scene.install("https://example.org/a.zip//bin", Mode::Any, "web/new/place").unwrap();
    assert_eq!(fs::read_to_string(scene.path("alloc/web/new/place/tool")).unwrap(), "new");
    assert!(scene.install("https://example.org/a.zip//none", Mode::Any, "web/local").is_err());
}

#[test]
fn a_file_gets_the_name_of_the_destination() {
    let scene = Scene::new();
    scene.install("https://example.org/a.zip", Mode::File, "web/local/renamed").unwrap();
    assert_eq!(fs::read_to_string(scene.path("alloc/web/local/renamed")).unwrap(), "new");
    let scene = Scene::new();
    fs::write(scene.path("out/second"), "").unwrap();
    let error = scene.install("https://example.org/a.zip", Mode::File, "web/local/renamed").unwrap_err();
    assert_eq!(error, "the source is not a single file, and the mode is file");
}

//
#[test]
fn what_could_harm_is_refused() {
    let scene = Scene::new();
    symlink("../..", scene.path("out/bin/link")).unwrap();
    let error = scene.install("https://example.org/a.zip", Mode::Any, "web/local").unwrap_err();
    assert_eq!(error, "the link link leads out of the artifact");
    assert!(!scene.path("alloc/web/local/bin/tool").exists(), "nothing is moved");

    let scene = Scene::new();
    fs::hard_link(scene.path("out/bin/tool"), scene.path("second")).unwrap();
    let error = scene.install("https://example.org/a.zip", Mode::Any, "web/local").unwrap_err();
    assert_eq!(error, "tool has a second name");

    let scene = Scene::new();
    nix::unistd::mkfifo(&scene.path("out/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = scene.install("https://example.org/a.zip", Mode::Any, "web/local").unwrap_err();
    assert_eq!(error, "pipe is neither a file, a directory nor a link");
}

#[test]
fn nothing_is_written_through_a_link_of_the_task() {
    let scene = Scene::new();
    fs::create_dir(scene.path("outside")).unwrap();
    fs::remove_dir(scene.path("alloc/web/local/bin")).unwrap();
    symlink(scene.path("outside"), scene.path("alloc/web/local/bin")).unwrap();
    assert!(scene.install("https://example.org/a.zip", Mode::Any, "web/local").is_err());
    assert!(scene.install("https://example.org/a.zip//bin", Mode::Any, "web/local/bin/x").is_err());
    assert_eq!(fs::read_dir(scene.path("outside")).unwrap().count(), 0);
}
