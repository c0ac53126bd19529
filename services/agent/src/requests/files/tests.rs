//! Tests with files of an allocation on a real disk.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use wire::files::{LISTED_MAX, PROHIBITED};

use super::*;
use crate::disk::dirs::AllocDirs;

struct Scene {
    dir: TempDir,
    alloc_root: AllocRoot,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = AllocDirs::new(dir.path().join("7"));
        dirs.build().unwrap();
        dirs.task("web").build().unwrap();
        fs::write(dir.path().join("outside"), "not yours").unwrap();
        fs::write(dirs.root.join("web/local/a.txt"), "hello").unwrap();
        fs::write(dirs.root.join("web/secrets/key"), "sesame").unwrap();
        let alloc_root = AllocRoot::open(&dirs.root).unwrap();
        Self { dir, alloc_root }
    }

    fn local(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("7/web/local").join(name)
    }

    fn read(&self, path: &str, from: Origin, bytes_max: u32) -> Result<(u64, String), Refusal> {
        let chunk = read(&self.alloc_root, path, from, bytes_max)?;
        Ok((chunk.offset, String::from_utf8(chunk.data.to_vec()).unwrap()))
    }

    fn refusal(&self, path: &str) -> Refusal {
        self.read(path, Origin::Start(0), 10).unwrap_err()
    }
}

#[test]
fn pieces_are_read_from_either_end() {
    let scene = Scene::new();
    let path = "/web/local/a.txt";
    assert_eq!(scene.read(path, Origin::Start(1), 3), Ok((1, "ell".into())));
    assert_eq!(scene.read(path, Origin::End(2), 10), Ok((3, "lo".into())));
    assert_eq!(scene.read(path, Origin::End(99), 10), Ok((0, "hello".into())));
    assert_eq!(scene.read("web/local/./a.txt", Origin::Start(5), 10), Ok((5, String::new())));
    let cut = read(&scene.alloc_root, path, Origin::Start(9), 10).unwrap();
    assert!(cut.data.is_empty() && cut.size < cut.offset);
}

#[test]
fn nothing_leads_out_of_the_allocation() {
    let scene = Scene::new();
    symlink(scene.dir.path().join("outside"), scene.local("away")).unwrap();
    symlink("../../../outside", scene.local("up")).unwrap();
    symlink("a.txt", scene.local("here")).unwrap();
    for path in ["../outside", "/web/../../outside", "/web/local/away", "/web/local/up"] {
        let refusal = scene.refusal(path);
        assert_eq!(refusal.kind, RefusalKind::Invalid, "{path}");
        assert_eq!(&*refusal.message, "Path escapes the alloc directory", "{path}");
    }
    assert_eq!(scene.read("/web/local/here", Origin::Start(0), 10), Ok((0, "hello".into())));
}

#[test]
fn secrets_are_not_read_by_whatever_way() {
    let scene = Scene::new();
    symlink("../secrets/key", scene.local("shortcut")).unwrap();
    for path in [
        "/web/secrets/key",
        "web//secrets/./key",
        "/web/private/x",
        "/web/SECRETS/key",
        "/web/local/shortcut",
    ] {
        let refusal = scene.refusal(path);
        assert_eq!(refusal.kind, RefusalKind::Invalid, "{path}");
        assert!(refusal.message.contains(PROHIBITED), "{path}: {}", refusal.message);
    }
    assert_eq!(
        &*listing::stat(&scene.alloc_root, "/web/secrets").unwrap_err().message,
        "Reading secret file prohibited: /web/secrets"
    );
    fs::create_dir(scene.dir.path().join("7/alloc/secrets")).unwrap();
    assert!(
        listing::stat(&scene.alloc_root, "/alloc/secrets").is_ok(),
        "the shared directory has no guarded directories"
    );
}

#[test]
fn what_is_no_file_is_not_read() {
    let scene = Scene::new();
    nix::unistd::mkfifo(&scene.local("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(&*scene.refusal("/web").message, r#"file "/web" is a directory"#);
    assert_eq!(&*scene.refusal("/web/local/pipe").message, r#"file "/web/local/pipe" is not a regular file"#);
    assert_eq!(scene.refusal("/web/local/none").kind, RefusalKind::NotFound);
    assert_eq!(scene.refusal("/web/local/a.txt/none").kind, RefusalKind::NotFound);
}

#[test]
fn directories_are_listed_by_name_and_in_parts() {
    let scene = Scene::new();
    let names = |path: &str, after: Option<&str>| {
        let list = listing::list(&scene.alloc_root, path, after.map(Text::from).as_ref()).unwrap();
        (list.files.iter().map(|file| file.name.to_string()).collect::<Vec<_>>(), list.more)
    };
    assert_eq!(names("/", None), (vec!["alloc".into(), "web".into()], false));
    assert_eq!(names("/alloc", Some("data")), (vec!["logs".into(), "tmp".into()], false));
    for number in 0..=LISTED_MAX {
        fs::write(scene.local(&format!("{number:05}")), "").unwrap();
    }
    let (first, more) = names("/web/local", None);
    assert!(more);
    assert_eq!(
        names("/web/local", Some(first.last().unwrap())),
        (vec!["02000".into(), "a.txt".into()], false)
    );
    let refusal = listing::list(&scene.alloc_root, "/web/local/a.txt", None).unwrap_err();
    assert_eq!(&*refusal.message, r#"file "/web/local/a.txt" is not a directory"#);
}

#[test]
fn files_are_described_as_the_api_does() {
    let scene = Scene::new();
    fs::write(scene.local("page.html"), "<p>").unwrap();
    fs::write(scene.local("data"), [0, 1, 2]).unwrap();
    let stat = |path: &str| listing::stat(&scene.alloc_root, path).unwrap();
    let file = stat("/web/local/a.txt");
    assert_eq!((&*file.name, file.is_dir, file.size, &*file.mode), ("a.txt", false, 5, "-rw-r--r--"));
    assert!(file.modified.is_set());
    assert_eq!(file.content_type.as_deref(), Some("text/plain; charset=utf-8"));
    assert_eq!(stat("/web/local/page.html").content_type.as_deref(), Some("text/html; charset=utf-8"));
    assert_eq!(stat("/web/local/data").content_type.as_deref(), Some("application/octet-stream"));
    let dir = stat("/alloc/tmp");
    assert_eq!((dir.is_dir, &*dir.mode, dir.content_type), (true, "dtrwxrwxrwx", None));
    assert_eq!(&*stat("/").name, "/");
}
