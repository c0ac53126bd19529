//! The commands of the README's first page: `drover dev`, `drover job run`, `drover alloc logs`, and Ctrl-C.

use std::path::PathBuf;
use std::process::{Command, Output};

use tests::harness::api::{Api, array, text};
use tests::harness::{processes, wait_until};

use crate::BINARY;
use crate::dev::Dev;

const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hello.nomad.hcl");

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_for_one_runs_the_example_and_leaves_nothing() {
    let mut dev = Dev::start(&["dev", "--ephemeral"]);
    let (dir, address) = (dev.dir.path().to_owned(), dev.address.clone());

    let planned = drover(&address, &["job", "plan", HELLO]);
    let page = String::from_utf8_lossy(&planned.stdout);
    assert_eq!(planned.status.code(), Some(1), "allocations would change: {planned:?}");
    assert!(page.contains("Job: \"hello\"") && page.contains("All tasks successfully allocated"), "{page}");

    let output = drover(&address, &["job", "run", HELLO]);
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        stdout.contains("Monitoring deployment") && stdout.trim_end().ends_with("successful"),
        "{stdout}"
    );
    assert_eq!(drover(&address, &["job", "plan", HELLO]).status.code(), Some(0), "nothing would change");
    // Findings and invalid arguments have different exit codes.
    for invalid in [&["job", "plan", "-bogus", HELLO][..], &["job", "plan", "-var", "greeting", HELLO]] {
        assert_eq!(drover(&address, invalid).status.code(), Some(255), "{invalid:?}");
    }
    // Values in the job file take precedence over flags.
    let placed = dev.dir.path().join("placed.nomad.hcl");
    let source = std::fs::read_to_string(HELLO).expect("the job file can be read");
    let source = source.replacen('{', "{\n  region = \"global\"\n  namespace = \"default\"\n", 1);
    std::fs::write(&placed, source).expect("the job file can be written");
    let placed = placed.to_str().expect("the path is UTF-8");
    let flags = ["-region", "nowhere", "-namespace", "nowhere"];
    let planned = drover(&address, &[&["job", "plan"][..], &flags, &[placed]].concat());
    assert_eq!(planned.status.code(), Some(0), "{planned:?}");
    std::fs::remove_file(placed).expect("the job file can be removed");
    let listed = String::from_utf8_lossy(&drover(&address, &["deployment", "list"]).stdout).into_owned();
    assert!(listed.contains("Deployment completed successfully"), "{listed}");
    let api = Api::new(address.strip_prefix("http://").expect("the address is a URL").to_owned());
    let source = api.get("/v1/job/hello/submission?version=0").await;
    let file = std::fs::read_to_string(HELLO).expect("the job file can be read");
    assert_eq!((text(&source, "Source"), text(&source, "Format")), (&*file, "hcl2"));
    let allocs = api.get("/v1/job/hello/allocations").await;
    assert_eq!(array(&allocs).len(), 2);
    let alloc = &array(&allocs)[0];
    let greeting = format!("Hello from {}", text(alloc, "Name"));
    let logs = async || {
        let output = drover(&address, &["alloc", "logs", text(alloc, "ID")]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).contains(&greeting).then_some(())
    };
    wait_until("the log says hello", logs, String::new).await;

    let id = text(alloc, "ID");
    let commands: [(&[&str], &str); 11] = [
        (&["status", &id[..8]], text(alloc, "Name")),
        (&["status", "hel"], "Latest Deployment"),
        (&["eval", "list", "-job", "hello"], "job-register"),
        (&["job", "history", "-p", "hello"], "Version     = 0"),
        (&["alloc", "fs", "-tail", "-n", "1", id, "alloc/logs/greet.stdout.0"], "Hello from"),
        (&["operator", "api", "-filter", "ID == hello", "v1/jobs"], "\"ID\":\"hello\""),
        (
            &[
                "job",
                "status",
                "-t",
                "{{range .}}{{.Summary.JobID}} has {{len .Allocations}}{{end}}",
                "hello",
            ],
            "hello has ",
        ),
        (&["node", "status", "-t", "{{range .}}{{.Status}}{{end}}"], "ready"),
        (&["job", "inspect", "-hcl", "hello"], "job \"hello\" {"),
        (&["operator", "root", "keyring", "list"], "active"),
        (&["job", "restart", "-batch-size=100%", "-on-error=fail", "hello"], "Finished job restart"),
    ];
    for (command, expected) in commands {
        let output = drover(&address, command);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && stdout.contains(expected), "{command:?}: {output:?}");
    }

    // At least itself, PostgreSQL, nats-server, and two tasks.
    assert!(processes::processes_of(&dir).len() >= 5);
    dev.interrupt();
    let have_exited = async || processes::processes_of(&dir).is_empty().then_some(());
    wait_until("all processes have exited", have_exited, || format!("{:?}", processes::processes_of(&dir)))
        .await;
    let remaining: Vec<PathBuf> =
        dir.read_dir().expect("the directory can be read").flatten().map(|entry| entry.path()).collect();
    assert_eq!(remaining, Vec::<PathBuf>::new());
}

fn drover(address: &str, arguments: &[&str]) -> Output {
    let output = Command::new(BINARY).args(arguments).env("NOMAD_ADDR", address).output();
    output.expect("the binary can be started")
}
