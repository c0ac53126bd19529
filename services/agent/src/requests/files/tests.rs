//! Tests with files of an allocation on a real disk.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::time::Duration;

use model::alloc::{ClientStatus, PackedTaskStates, TaskState};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wire::files::{LISTED_MAX, LogChunk, LogPosition, LogStream, PROHIBITED};

use super::*;
use crate::alloc::runner::{save_spec, state_file};
use crate::disk::dirs::AllocDirs;
use crate::disk::store::{self, Durability};
use crate::reports::core::AllocState;
use crate::testing::{alloc_id, context, dead, running, secrets, spec};

struct Scene {
    dir: TempDir,
    alloc_root: AllocRoot,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = AllocDirs::new(dir.path().join("7"));
        dirs.build().unwrap();
        dirs.task("web").build(&secrets()).unwrap();
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
        let chunk = self.chunk(path, from, bytes_max)?;
        Ok((chunk.offset, String::from_utf8(chunk.data.to_vec()).unwrap()))
    }

    fn chunk(&self, path: &str, from: Origin, bytes_max: u32) -> Result<FileChunk, Refusal> {
        read(self.alloc_root.file(path)?, path, from, bytes_max)
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
    let cut = scene.chunk(path, Origin::Start(9), 10).unwrap();
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
    // `..` inside is allowed (http-api §13).
    assert_eq!(scene.read("web/local/../local/./a.txt", Origin::Start(0), 10), Ok((0, "hello".into())));
    assert_eq!(scene.refusal("web/../..").kind, RefusalKind::Invalid);
}

/// http-api §13.
#[test]
fn after_an_allocation_was_collected_no_path_in_it_exists() {
    let dir = tempfile::tempdir().unwrap();
    let context = context(dir.path(), watch::Sender::new(true).subscribe());
    let root = context.dirs(alloc_id(1)).root;
    for (path, action, place) in [
        ("/", "open", root.display().to_string()),
        ("/web/x", "stat", root.join("web/x").display().to_string()),
    ] {
        let refusal = open(&context, alloc_id(1), action, path).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NotFound);
        assert_eq!(*refusal.message, *format!("{action} {place}: no such file or directory"));
    }
}

#[test]
fn secrets_cannot_be_read_by_any_path() {
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
fn directories_and_pipes_are_not_read() {
    let scene = Scene::new();
    nix::unistd::mkfifo(&scene.local("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(&*scene.refusal("/web").message, r#"file "/web" is a directory"#);
    assert_eq!(&*scene.refusal("/web/local/pipe").message, r#"file "/web/local/pipe" is not a regular file"#);
    // Errors name the path on the node (http-api §13).
    let place = |name: &str| scene.alloc_root.entry(name, "stat").unwrap().place.display().to_string();
    let refusal = scene.refusal("web//local/./none");
    assert_eq!(refusal.kind, RefusalKind::NotFound);
    assert_eq!(*refusal.message, *format!("stat {}/none: no such file or directory", place("/web/local")));
    let refusal = scene.refusal("/web/local/a.txt/none");
    assert_eq!(refusal.kind, RefusalKind::NotReady);
    assert_eq!(*refusal.message, *format!("stat {}/none: not a directory", place("/web/local/a.txt")));
}

#[test]
fn directories_are_listed_by_name_and_in_parts() {
    let scene = Scene::new();
    let names = |path: &str, after: Option<&[u8]>| {
        let list = listing::list(&scene.alloc_root, path, after).unwrap();
        (list.files.iter().map(|file| file.name.to_string()).collect::<Vec<_>>(), list.next)
    };
    assert_eq!(names("/", None), (vec!["alloc".into(), "web".into()], None));
    assert_eq!(names("/alloc", Some(b"data")), (vec!["logs".into(), "tmp".into()], None));
    for number in 0..=LISTED_MAX {
        fs::write(scene.local(&format!("{number:05}")), "").unwrap();
    }
    let (first, next) = names("/web/local", None);
    assert_eq!((first.len(), next.as_deref()), (LISTED_MAX, Some(b"01999".as_slice())));
    assert_eq!(names("/web/local", next.as_deref()), (vec!["02000".into(), "a.txt".into()], None));
    let refusal = listing::list(&scene.alloc_root, "/web/local/a.txt", None).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotReady);
    assert!(refusal.message.starts_with("open /"), "{}", refusal.message);
    assert!(refusal.message.ends_with("/7/web/local/a.txt: not a directory"), "{}", refusal.message);
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
    assert_eq!(&*stat("/").name, "7", "the name of the root is the allocation's id");
    assert_eq!(&*stat("/web/..").name, "7");
    fs::write(scene.local("empty"), "").unwrap();
    assert_eq!(stat("/web/local/empty").content_type.as_deref(), Some("application/octet-stream"));
    fs::write(scene.local("page.css"), "a {}").unwrap();
    assert_eq!(stat("/web/local/page.css").content_type.as_deref(), Some("text/plain; charset=utf-8"));
    fs::write(scene.local("x.json"), "{}").unwrap();
    assert_eq!(stat("/web/local/x.json").content_type.as_deref(), Some("application/json"));
}

/// All these names are shown alike. Still each page goes on behind the one before it.
#[test]
fn names_that_are_not_utf8_are_listed_once() {
    const NAMES: usize = LISTED_MAX + 100;
    let scene = Scene::new();
    for number in 0..NAMES {
        let name = [0xff, 0x80 | (number >> 6) as u8, 0x80 | (number & 0x3f) as u8];
        fs::write(scene.local("").join(OsStr::from_bytes(&name)), "").unwrap();
    }
    let (mut shown, mut after): (usize, Option<Bytes>) = (0, None);
    loop {
        let list = listing::list(&scene.alloc_root, "/web/local", after.as_deref()).unwrap();
        shown += list.files.len();
        let Some(next) = list.next else { break };
        assert!(after.is_none_or(|after| after < next));
        after = Some(next);
    }
    assert_eq!(shown, NAMES + 1, "and the text file");
}

/// An allocation with one task `web`, whose output is followed.
struct Followed {
    _dir: TempDir,
    files: Arc<Files>,
}

impl Followed {
    async fn new(state: TaskState) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let contacted = watch::Sender::new(true);
        let context = context(dir.path(), contacted.subscribe());
        context.dirs(alloc_id(1)).build().unwrap();
        save_spec(&context, &spec()).await;
        let files = Arc::new(Files::new(context));
        let watcher = files.watcher.clone().unwrap();
        tokio::spawn(async move { watcher.run().await });
        let followed = Self { _dir: dir, files };
        followed.save(state).await;
        followed.append("hello");
        followed
    }

    async fn save(&self, state: TaskState) {
        let states = [TaskState { task: "web".into(), ..state }];
        let state = AllocState {
            status: ClientStatus::Running,
            description: Text::default(),
            task_states: PackedTaskStates::pack(&states),
            health: None,
            network: None,
        };
        let path = state_file(&self.files.context, alloc_id(1));
        store::save(path, &state, Durability::Process).await.unwrap();
    }

    fn append(&self, text: &str) {
        let path = self.files.context.dirs(alloc_id(1)).root.join("alloc/logs/web.stdout.0");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Asks for output from this offset on, and waits for it.
    fn follow(&self, offset: u64) -> JoinHandle<Result<LogChunk, Refusal>> {
        let ask = ReadLogs {
            alloc: alloc_id(1),
            task: "web".into(),
            stream: LogStream::Stdout,
            from: LogPosition::Origin(Origin::Start(offset)),
            bytes_max: 100,
            wait_ms: 10_000,
        };
        let files = Arc::clone(&self.files);
        tokio::spawn(async move { output::read_when_there(&files, ask).await })
    }

    async fn until_waiting(&self, count: usize) {
        while self.files.waiting.available_permits() != WAITING_MAX - count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn a_follower_of_output_waits_for_more_or_for_the_end_of_the_task() {
    let scene = Followed::new(running()).await;
    let waiting = [scene.follow(5), scene.follow(5)];
    scene.until_waiting(2).await;
    assert_eq!(scene.files.reading.available_permits(), READING_MAX, "they take no place of those that read");
    scene.append(" again");
    for follower in waiting {
        let chunk = follower.await.unwrap().unwrap();
        assert_eq!((&*chunk.data, chunk.ended), (b" again".as_slice(), false));
    }
    let follower = scene.follow(11);
    scene.until_waiting(1).await;
    scene.save(dead()).await;
    let chunk = follower.await.unwrap().unwrap();
    assert!(chunk.data.is_empty() && chunk.ended);
    let chunk = scene.follow(11).await.unwrap().unwrap();
    assert!(chunk.ended, "the task has ended before the request");
}

#[tokio::test]
async fn the_number_of_waiting_requests_is_limited() {
    let scene = Followed::new(running()).await;
    let _others = scene.files.waiting.acquire_many(u32::try_from(WAITING_MAX).unwrap()).await.unwrap();
    let refusal = scene.follow(5).await.unwrap().unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotReady, "{}", refusal.message);
}
