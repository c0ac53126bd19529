//! Attacks by what tasks leave in their directories, and by requests for it.

use std::time::Duration;

use tests::harness::api::array;
use tests::harness::jobs;
use tokio::time::timeout;

use crate::attack::{
    Attack, Failure, Outcome, Size, at_once, ensure, expect, expect_answered, expect_refused,
};
use crate::scene::Scene;
use crate::socket::{CLOSED, SILENT, Socket, get, request};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "names-that-are-no-text",
        does: "a directory with 2,100 names that are not UTF-8 is listed",
        expected: "2,100 names",
        size: Size::Full,
        run: |scene| Box::pin(names_that_are_no_text(scene)),
    },
    Attack {
        name: "huge-directory",
        does: "a directory with 120,000 files is listed by four",
        expected: "an error that says how many are listed",
        size: Size::Full,
        run: |scene| Box::pin(huge_directory(scene)),
    },
    Attack {
        name: "deep-directory",
        does: "directories 300 deep, read by a path of 3,000 bytes, and by `a/../` 5,000 times",
        expected: "any answer",
        size: Size::Full,
        run: |scene| Box::pin(deep_directory(scene)),
    },
    Attack {
        name: "files-that-block",
        does: "a FIFO, a socket and links to devices are read",
        expected: "an answer within five seconds, and not without end",
        size: Size::Full,
        run: |scene| Box::pin(files_that_block(scene)),
    },
    Attack {
        name: "links-out",
        does: "links to `/`, to a secret, to themselves, and a directory that turns into a link again and again",
        expected: "the secret is never shown",
        size: Size::Full,
        run: |scene| Box::pin(links_out(scene)),
    },
    Attack {
        name: "logs-replaced",
        does: "a task replaces its `logs` directory by a link to a secret, and goes on printing",
        expected: "the secret is neither shown nor overwritten",
        size: Size::Full,
        run: |scene| Box::pin(logs_replaced(scene)),
    },
    Attack {
        name: "huge-sparse-file",
        does: "a file of 1 TiB without blocks is read by eight that leave after 1 MiB, and at its end",
        expected: "what is asked for",
        size: Size::Full,
        run: |scene| Box::pin(huge_sparse_file(scene)),
    },
    Attack {
        name: "shrinking-file",
        does: "a file that grows and is cut all the time is followed by 20",
        expected: "any answer",
        size: Size::Full,
        run: |scene| Box::pin(shrinking_file(scene)),
    },
    Attack {
        name: "odd-file-requests",
        does: "offsets beyond the end, negative, and of 64 bits; unknown origins; logs of tasks that there are not",
        expected: "an answer, or an error",
        size: Size::Full,
        run: |scene| Box::pin(odd_file_requests(scene)),
    },
    Attack {
        name: "tasks-like-log-files",
        does: "tasks named `web` and `web.partial`, `a` and `a.stdout`: whose logs are whose?",
        expected: "each shows its own, or the names are refused",
        size: Size::Full,
        run: |scene| Box::pin(tasks_like_log_files(scene)),
    },
];

/// The content of a file that must not be readable through the API.
const SECRET: &str = "swordfish-of-the-host";

/// Runs a task with this script, which is to create the file `ready` at its end and then sleep.
async fn prepared(scene: &Scene, id: &str, script: &str) -> Result<String, Failure> {
    let script = format!(
        "cd \"$NOMAD_ALLOC_DIR/data\" || exit 1\n{script}\ntouch \"$NOMAD_ALLOC_DIR/data/ready\"\nsleep 600"
    );
    let alloc = scene.run_job(&jobs::service(id, &script)).await?;
    scene.wait_until_ready(&alloc).await?;
    Ok(alloc)
}

async fn names_that_are_no_text(scene: &Scene) -> Outcome {
    let script =
        "mkdir odd; i=0; while [ $i -lt 2100 ]; do : > \"odd/$(printf '\\377\\376')$i\"; i=$((i+1)); done";
    let alloc = prepared(scene, "no-text", script).await?;
    let listed = scene.file("ls", &alloc, "alloc/data/odd", "").await;
    expect("the list", &listed, &[200])?;
    let count = array(&listed.json()).len();
    ensure(count == 2_100, || format!("{count} names"))?;
    Ok(())
}

async fn huge_directory(scene: &Scene) -> Outcome {
    let alloc = prepared(scene, "huge-directory", "mkdir many; cd many; seq 1 120000 | xargs touch").await?;
    let host = scene.host();
    let answers = at_once(4, |_| {
        let (host, path) = (host.clone(), format!("/v1/client/fs/ls/{alloc}?path=alloc/data/many"));
        async move { get(&host, &path).await }
    })
    .await;
    for answer in answers {
        expect("the list of 120,000 files", &answer, &[500])?;
    }
    Ok(())
}

async fn deep_directory(scene: &Scene) -> Outcome {
    let script = "i=0; while [ $i -lt 300 ]; do mkdir deep-dir; cd deep-dir; i=$((i+1)); done; : > bottom";
    let alloc = prepared(scene, "deep-directory", script).await?;
    let deep = format!("alloc/data/{}bottom", "deep-dir/".repeat(300));
    let back_and_forth = format!("alloc/data/{}ready", "deep-dir/../".repeat(1_000));
    let long = format!("alloc/data/{}", "x".repeat(10_000));
    for path in [deep, back_and_forth, long] {
        for call in ["stat", "cat", "ls"] {
            expect_answered(call, &scene.file(call, &alloc, &path, "").await)?;
        }
    }
    Ok(())
}

async fn files_that_block(scene: &Scene) -> Outcome {
    let script = "mkfifo fifo; ln -s /dev/zero zero; ln -s /dev/stdin input; ln -s /proc/self/mem memory; \
                  ln -s /proc/kmsg kmsg";
    let alloc = prepared(scene, "files-that-block", script).await?;
    for name in ["fifo", "zero", "input", "memory", "kmsg"] {
        for call in ["stat", "cat", "readat", "ls"] {
            let path = format!("alloc/data/{name}");
            let asking = scene.file(call, &alloc, &path, "&offset=0&limit=1000000");
            match timeout(Duration::from_secs(5), asking).await {
                Ok(answer) => {
                    ensure(answer.status != SILENT, || format!("{call} {name}: {}", answer.summary()))?
                }
                Err(_) => return Err(format!("{call} {name} was not answered within five seconds").into()),
            }
        }
    }
    Ok(())
}

/// Writes a file that no attacker may read, and returns its path.
fn secret(scene: &Scene) -> String {
    let dir = scene.cluster.path("secret");
    std::fs::create_dir_all(&dir).expect("the directory can be created");
    for name in ["task.stdout.0", "task.stderr.0", "passwords"] {
        std::fs::write(dir.join(name), SECRET).expect("the file can be written");
    }
    dir.display().to_string()
}

async fn expect_no_secret(scene: &Scene, alloc: &str, paths: &[String]) -> Result<(), String> {
    for path in paths {
        for call in ["cat", "readat", "stat", "ls", "stream"] {
            let answer = scene.file(call, alloc, path, "&offset=0&limit=100&follow=false").await;
            ensure(!answer.text().contains(SECRET), || format!("{call} {path} shows the secret"))?;
            ensure(answer.status != SILENT, || format!("{call} {path}: {}", answer.summary()))?;
        }
    }
    Ok(())
}

async fn links_out(scene: &Scene) -> Outcome {
    let secret = secret(scene);
    let script = format!(
        "ln -s / root; ln -s '{secret}' secret; ln -s self self; ln -s '{secret}/passwords' file\n\
         (while :; do mkdir turning; : > turning/passwords; rm -r turning; ln -s '{secret}' turning; rm turning; done) \
         >/dev/null 2>&1 &"
    );
    let alloc = prepared(scene, "links-out", &script).await?;
    let paths = [
        format!("alloc/data/root{secret}/passwords"),
        "alloc/data/secret/passwords".to_owned(),
        "alloc/data/file".to_owned(),
        "alloc/data/self".to_owned(),
        format!("{}{secret}/passwords", "../".repeat(30)),
        format!("alloc/data/root/../root{secret}/passwords"),
    ];
    expect_no_secret(scene, &alloc, &paths).await?;
    let turning = vec!["alloc/data/turning/passwords".to_owned(); 60];
    expect_no_secret(scene, &alloc, &turning).await?;
    Ok(())
}

async fn logs_replaced(scene: &Scene) -> Outcome {
    let secret = secret(scene);
    let script = format!(
        "mv \"$NOMAD_ALLOC_DIR/logs\" \"$NOMAD_ALLOC_DIR/data/old\"; ln -s '{secret}' \"$NOMAD_ALLOC_DIR/logs\"\n\
         seq 1 300000; seq 1 300000 >&2"
    );
    let alloc = prepared(scene, "logs-replaced", &script).await?;
    for kind in ["stdout", "stderr"] {
        for origin in ["start", "end"] {
            let path = format!("/v1/client/fs/logs/{alloc}?task=task&type={kind}&origin={origin}&plain=true");
            let answer = scene.get(&path).await;
            ensure(!answer.text().contains(SECRET), || format!("the logs ({kind}) show the secret"))?;
        }
    }
    for name in ["task.stdout.0", "task.stderr.0", "passwords"] {
        let content = std::fs::read_to_string(format!("{secret}/{name}")).unwrap_or_default();
        ensure(content == SECRET, || format!("the agent has written to {name} of another directory"))?;
    }
    let written = std::fs::read_dir(&secret).map_or(0, Iterator::count);
    ensure(written == 3, || format!("{written} files are in the directory of the secret"))?;
    Ok(())
}

async fn huge_sparse_file(scene: &Scene) -> Outcome {
    let alloc =
        prepared(scene, "huge-file", "truncate -s 1T huge 2>/dev/null || truncate -s 8G huge").await?;
    let host = scene.host();
    let counts = at_once(8, |_| {
        let request =
            request(&host, "GET", &format!("/v1/client/fs/cat/{alloc}?path=alloc/data/huge"), "", b"");
        let host = host.clone();
        async move {
            let mut socket = Socket::open_narrow(&host).await;
            socket.send(&request).await;
            socket.read_bytes(1 << 20).await.len()
        }
    })
    .await;
    ensure(counts.iter().all(|count| *count >= 1 << 20), || format!("{counts:?} bytes were read"))?;
    for offset in ["1099511627775", "1099511627776", "9223372036854775807"] {
        let further = format!("&offset={offset}&limit=10");
        expect_answered(offset, &scene.file("readat", &alloc, "alloc/data/huge", &further).await)?;
    }
    Ok(())
}

async fn shrinking_file(scene: &Scene) -> Outcome {
    let script = "(while :; do seq 1 5000 > shrinking; : > shrinking; done) >/dev/null 2>&1 &";
    let alloc = prepared(scene, "shrinking", script).await?;
    let host = scene.host();
    let begins = at_once(20, |_| {
        let path = format!("/v1/client/fs/stream/{alloc}?path=alloc/data/shrinking&follow=true&origin=start");
        let request = request(&host, "GET", &path, "", b"");
        let host = host.clone();
        async move {
            let mut socket = Socket::open(&host).await;
            socket.send(&request).await;
            // Three seconds of whatever the stream has.
            let _ = timeout(Duration::from_secs(3), socket.read_bytes(usize::MAX)).await;
        }
    });
    begins.await;
    expect("the file's size", &scene.file("stat", &alloc, "alloc/data/shrinking", "").await, &[200])?;
    Ok(())
}

async fn odd_file_requests(scene: &Scene) -> Outcome {
    let alloc = prepared(scene, "odd-requests", "echo abc > file").await?;
    for number in
        ["-1", "-9223372036854775808", "3", "4", "9223372036854775807", "18446744073709551616", "x", ""]
    {
        for (call, further) in [
            ("readat", format!("&offset={number}&limit=10")),
            ("readat", format!("&offset=0&limit={number}")),
            ("stream", format!("&offset={number}&follow=false")),
            ("stream", format!("&offset={number}&origin=end&follow=false")),
        ] {
            expect_answered(&further, &scene.file(call, &alloc, "alloc/data/file", &further).await)?;
        }
    }
    for query in [
        "task=none&type=stdout",
        "task=task&type=stdin",
        "task=..%2F..&type=stdout",
        "type=stdout",
        "task=task",
    ] {
        expect_refused(query, &scene.get(&format!("/v1/client/fs/logs/{alloc}?{query}&follow=false")).await)?;
    }
    let middle = scene.file("stream", &alloc, "alloc/data/file", "&origin=middle&follow=false").await;
    expect_refused("an unknown origin", &middle)?;
    for call in ["nothing", "..", "cat%2F.."] {
        expect(
            call,
            &scene.get(&format!("/v1/client/fs/{call}/{alloc}")).await,
            &[307, 400, 404, 405, 500, CLOSED],
        )?;
    }
    Ok(())
}

async fn tasks_like_log_files(scene: &Scene) -> Outcome {
    for names in [["web", "web.partial"], ["a", "a.stdout"], ["b", "b.stdout.0"]] {
        let id = format!("like-logs-{}", names[0]);
        let mut job = jobs::service(&id, "echo \"I am $NOMAD_TASK_NAME.\"; sleep 600");
        let task = job["Job"]["TaskGroups"][0]["Tasks"][0].clone();
        let tasks = names.map(|name| {
            let mut task = task.clone();
            task["Name"] = name.into();
            task
        });
        job["Job"]["TaskGroups"][0]["Tasks"] = tasks.to_vec().into();
        let answer = scene.register(&job).await;
        expect(&format!("{names:?}"), &answer, &[200, 400, 500])?;
        if answer.status != 200 {
            continue;
        }
        let alloc = scene.run_job(&job).await?;
        for name in names {
            let path = format!("/v1/client/fs/logs/{alloc}?task={name}&type=stdout&plain=true&follow=false");
            let own = format!("I am {name}.\n");
            let shows_own = async || (scene.get(&path).await.text() == own).then_some(());
            scene.wait_until(&format!("the logs of {name} are its own"), shows_own).await?;
        }
        scene.purge("default", &id).await;
    }
    Ok(())
}
