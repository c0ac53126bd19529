//! Tests of artifacts of tasks, with the process that downloads them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use api_types::TaskArtifact;

use super::*;

/// A server with one file `/tool`. Other paths are not found, and `/stuck` gets no answer.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut stuck = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut request).unwrap_or_default() > 2 {}
            let answer = match request.split_whitespace().nth(1) {
                Some("/tool") => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
                Some("/stuck") => {
                    stuck.push(stream);
                    continue;
                }
                _ => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            };
            // A client that leaves early is no failure of the server.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

fn scene_with(sources: &[String]) -> Scene {
    let artifact = |source: &String| TaskArtifact {
        getter_source: Some(source.clone()),
        relative_dest: Some("local/".to_owned()),
        ..TaskArtifact::default()
    };
    let artifacts = sources.iter().map(artifact).collect();
    let config = [("run_for".to_owned(), json!("10h"))].into();
    Scene::new(Task { config, artifacts, ..task("web") }, 0)
}

//
#[tokio::test]
async fn a_task_starts_with_its_artifacts() {
    let scene = scene_with(&[format!("{}/tool", serve())]);
    let runner = scene.begin(None);
    scene.until_running().await;
    assert!(
        scene.events().iter().any(|event| event == "Downloading Artifacts: Client is downloading artifacts")
    );
    let dirs = scene.context.dirs(scene.spec.borrow().id());
    let file = dirs.task("web").local.join("tool");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "hello");
    assert!(!dirs.root.join(".drover-artifacts").exists(), "nothing is left behind");
    scene.end();
    runner.await.unwrap();
}

//
#[tokio::test]
async fn a_failed_download_fails_the_start() {
    let server = serve();
    let scene = scene_with(&[format!("{server}/none?sig=s3cret"), format!("{server}/tool")]);
    scene.begin(None).await.unwrap();
    let expected = format!(
        "Failed Artifact Download: failed to download artifact \"{server}/none\": bad response code: 404"
    );
    let events = scene.events();
    assert!(events.contains(&expected), "{events:?}");
    let dirs = scene.context.dirs(scene.spec.borrow().id());
    assert!(dirs.task("web").local.join("tool").exists(), "the others are downloaded");
}

#[tokio::test]
async fn a_kill_ends_a_download() {
    let scene = scene_with(&[format!("{}/stuck", serve())]);
    let runner = scene.begin(None);
    eventually("the download begins", || {
        scene.events().iter().any(|event| event.starts_with("Downloading Artifacts"))
    })
    .await;
    scene.end();
    runner.await.unwrap();
    assert_eq!(scene.events().last().unwrap(), "Killed: Task successfully killed");
}
