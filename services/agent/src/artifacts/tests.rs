//! Tests of the fetcher against a server of this process, and of Git against a repository on disk.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;

/// A server that answers each path with a fixed answer, and remembers what was asked.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// The answer to a path: the status line and headers, the body, and whether the body never ends.
type Answer = (String, Vec<u8>, bool);

fn ok(body: &[u8]) -> Answer {
    (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len()), body.to_vec(), false)
}

fn status(line: &str) -> Answer {
    (format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n"), Vec::new(), false)
}

fn redirect(to: &str) -> Answer {
    status(&format!("302 Found\r\nLocation: {to}"))
}

impl Server {
    fn new(answers: impl Fn(&str, usize) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                // A client that leaves early is no failure of the server.
                let _ = answer(stream, &answers, &seen);
            }
        });
        Self { address, asked }
    }

    fn of(path: &'static str, answer: Answer) -> Self {
        Self::new(move |asked, _| if asked == path { answer.clone() } else { status("404 Not Found") })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    mut stream: TcpStream,
    answers: &impl Fn(&str, usize) -> Answer,
    seen: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    while reader.read_line(&mut request)? > 2 {}
    let path = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let count = {
        let mut seen = seen.lock().unwrap();
        seen.push(request);
        seen.len()
    };
    let (head, body, endless) = answers(&path, count);
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"Connection: close\r\n\r\n")?;
    stream.write_all(&body)?;
    if endless {
        loop {
            stream.write_all(&[0; 4096])?;
        }
    }
    Ok(())
}

fn limits() -> Limits {
    Limits {
        download_bytes: 1 << 20,
        http_time: Duration::from_secs(60),
        git_time: Duration::from_secs(60),
        unpacked_bytes: 200 << 20,
        unpacked_files: 100,
    }
}

fn fetch_of(source: &str, options: &[(&str, &str)]) -> Fetch {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Fetch {
        source: Source::read(source, &options).unwrap(),
        headers: BTreeMap::new(),
        insecure: false,
        mode: Mode::Any,
        limits: limits(),
        staging: PathBuf::new(),
        sandbox: Sandbox::Own,
    }
}

/// Fetches into a new directory.
fn run(fetch: &Fetch) -> (tempfile::TempDir, Result<(), String>) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = fetch_into(&runtime, fetch, dir.path());
    runtime.shutdown_background();
    (dir, done)
}

fn error(fetch: &Fetch) -> String {
    run(fetch).1.unwrap_err()
}

fn sha256(bytes: &[u8]) -> String {
    hex(&checksum::digest(checksum::Algorithm::Sha256, bytes).unwrap())
}

//
#[test]
fn a_file_is_downloaded_with_its_headers() {
    let server = Server::of("/a/tool", ok(b"hello"));
    let mut fetch =
        fetch_of(&server.url("/a/tool"), &[("checksum", &format!("sha256:{}", sha256(b"hello")))]);
    fetch.headers = [("X-Token".to_owned(), "abc".to_owned())].into();
    let (dir, done) = run(&fetch);
    assert_eq!(done, Ok(()));
    assert_eq!(fs::read(dir.path().join("out/tool")).unwrap(), b"hello");
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].to_lowercase().contains("x-token: abc"), "{asked:?}");
    fetch.mode = Mode::Dir;
    assert_eq!(error(&fetch), "the source is not an archive, and the mode is dir");
}

//
#[test]
fn a_wrong_checksum_fails() {
    let server = Server::of("/a", ok(b"hello"));
    let fetch = fetch_of(&server.url("/a"), &[("checksum", &format!("sha256:{}", sha256(b"other")))]);
    let expected =
        format!("checksums did not match: expected {}, got {}", sha256(b"other"), sha256(b"hello"));
    assert_eq!(error(&fetch), expected);
}

//
#[test]
fn a_checksum_may_be_in_a_file() {
    let list = format!("{}  tool\n", sha256(b"hello"));
    let server = Server::new(move |path, _| match path {
        "/tool" => ok(b"hello"),
        "/other" => ok(b"changed"),
        _ => ok(list.as_bytes()),
    });
    let sums = format!("file:{}", server.url("/SUMS"));
    assert_eq!(run(&fetch_of(&server.url("/tool"), &[("checksum", &sums)])).1, Ok(()));
    let other = fetch_of(&server.url("/other"), &[("checksum", &sums)]);
    assert_eq!(error(&other), "the file of checksums has none for the artifact");
}

#[test]
fn what_may_pass_is_tried_again() {
    let server =
        Server::new(|_, count| if count == 1 { status("503 Service Unavailable") } else { ok(b"hello") });
    assert_eq!(run(&fetch_of(&server.url("/a"), &[])).1, Ok(()));
    assert_eq!(server.asked().len(), 2);
    let server = Server::of("/a", ok(b""));
    assert_eq!(error(&fetch_of(&server.url("/b"), &[])), "bad response code: 404");
    assert_eq!(server.asked().len(), 1, "what is missing stays missing");
}

#[test]
fn redirects_lead_to_other_hosts_and_not_to_the_link() {
    let other = Server::of("/b", ok(b"hello"));
    let target = other.url("/b");
    let server = Server::new(move |path, _| match path {
        "/moved" => redirect("/once"),
        "/once" => redirect(&target),
        "/link" => redirect("http://169.254.169.254/latest/meta-data/"),
        "/file" => redirect("file:///etc/passwd"),
        _ => redirect("/loop"),
    });
    let mut fetch = fetch_of(&server.url("/moved"), &[]);
    fetch.headers = [("X-Token".to_owned(), "abc".to_owned())].into();
    assert_eq!(run(&fetch).1, Ok(()));
    assert!(server.asked()[1].to_lowercase().contains("x-token"), "the same host gets the headers");
    assert!(!other.asked()[0].to_lowercase().contains("x-token"), "another host does not");
    assert_eq!(error(&fetch_of(&server.url("/link"), &[])), http::refusal("169.254.169.254"));
    let scheme = "a redirect leads to another scheme than http and https";
    assert_eq!(error(&fetch_of(&server.url("/file"), &[])), scheme);
    assert_eq!(error(&fetch_of(&server.url("/loop"), &[])), "there were more than 10 redirects");
}

#[test]
fn a_body_without_an_end_is_cut_off() {
    let server = Server::of("/a", ("HTTP/1.1 200 OK\r\n".to_owned(), Vec::new(), true));
    assert_eq!(error(&fetch_of(&server.url("/a"), &[])), "the download is larger than 1048576 bytes");
}

#[test]
fn an_archive_is_unpacked_unless_the_job_says_otherwise() {
    let mut archive =
        ::tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = ::tar::Header::new_gnu();
    header.set_size(5);
    header.set_mode(0o4755);
    archive.append_data(&mut header, "bin/tool", &b"hello"[..]).unwrap();
    let packed = archive.into_inner().unwrap().finish().unwrap();
    let server = Server::of("/tool.tgz", ok(&packed));
    let (dir, done) = run(&fetch_of(&server.url("/tool.tgz"), &[]));
    assert_eq!(done, Ok(()));
    let tool = dir.path().join("out/bin/tool");
    assert_eq!(fs::read(&tool).unwrap(), b"hello");
    assert_eq!(fs::metadata(&tool).unwrap().permissions().mode() & 0o7777, 0o755, "without set-uid");
    assert!(!dir.path().join("download").exists());
    let (dir, done) = run(&fetch_of(&server.url("/tool.tgz"), &[("archive", "false")]));
    assert_eq!(done, Ok(()));
    assert_eq!(fs::read(dir.path().join("out/tool.tgz")).unwrap(), packed);
}

/// The name of Git in `DROVER_REQUIRE`.
const GIT: &str = "git";

/// Whether there is Git, where the fetcher looks for it. If not, the test is skipped, or fails if `DROVER_REQUIRE` has it.
fn has_git(test: &str) -> bool {
    let is_there = git::PATH.split(':').any(|dir| Path::new(dir).join("git").exists());
    if !is_there {
        let required = std::env::var("DROVER_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|name| name.trim() == GIT);
        assert!(!is_required, "{test} needs {GIT}, which DROVER_REQUIRE requires");
        println!("skipped {test}: Git is not installed");
    }
    is_there
}

/// Runs Git in a directory, without the configuration of the machine.
fn git_in(dir: &Path, args: &[&str]) {
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", git::PATH)
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

//
#[test]
fn a_repository_is_cloned_at_a_reference() {
    if !has_git("a_repository_is_cloned_at_a_reference") {
        return;
    }
    let origin = tempfile::tempdir().unwrap();
    git_in(origin.path(), &["init", "--quiet"]);
    fs::write(origin.path().join("a"), "first").unwrap();
    git_in(origin.path(), &["add", "a"]);
    git_in(origin.path(), &["commit", "--quiet", "-m", "first"]);
    git_in(origin.path(), &["tag", "v1"]);
    fs::write(origin.path().join("a"), "second").unwrap();
    git_in(origin.path(), &["commit", "--quiet", "-a", "-m", "second"]);

    let url = format!("file://{}", origin.path().display());
    let cloned = |reference: Option<&str>, protocols: &str| {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let git = source::Git {
            url: url.clone(),
            reference: reference.map(str::to_owned),
            depth: None,
            ssh_key: None,
        };
        let fetch = fetch_of("git::https://example.org/a", &[]);
        let done = runtime.block_on(git::clone(&git, &fetch, dir.path(), protocols));
        (done, fs::read_to_string(dir.path().join("out/a")).unwrap_or_default())
    };
    assert_eq!(cloned(None, "file"), (Ok(()), "second".to_owned()));
    assert_eq!(cloned(Some("v1"), "file"), (Ok(()), "first".to_owned()));
    let (missing, _) = cloned(Some("v2"), "file");
    assert!(missing.unwrap_err().starts_with("git has failed: "));
    let (refused, _) = cloned(None, git::PROTOCOLS);
    assert!(refused.unwrap_err().contains("not allowed"));
}
