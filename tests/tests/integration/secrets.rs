//! `drover operator init` and the files that it makes, as operators use them: files are made once and missing ones are
//! added, PostgreSQL uses the roles and the certificate, and services trust only that certificate's authority.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output};

use private_servers::{Certificate, Postgres, PostgresOptions};
use serde_json::Value;
use store::roles::Role;

use crate::BINARY;

fn drover(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().expect("the binary can be started")
}

/// Runs `operator init` and returns its report.
fn init(dir: &Path, more: &[&str]) -> Value {
    let dir = dir.to_str().expect("the path is UTF-8");
    let output = drover(&[&["operator", "init", "-json", "-dir", dir], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}

fn names(report: &Value, list: &str) -> Vec<String> {
    let names = report[list].as_array().expect("the member is a list");
    names.iter().map(|name| name.as_str().expect("the item is a string").to_owned()).collect()
}

/// All files below a directory, with their contents.
fn files(dir: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for directory in std::fs::read_dir(dir).expect("the directory can be read") {
        let directory = directory.expect("the directory can be read").path();
        for file in std::fs::read_dir(&directory).expect("the directory can be read") {
            let file = file.expect("the directory can be read").path();
            let name = file.strip_prefix(dir).expect("the path is below the directory").display().to_string();
            files.insert(name, std::fs::read_to_string(&file).expect("the file is UTF-8"));
        }
    }
    files
}

#[test]
fn secrets_are_made_once_and_what_is_missing_is_made_again() {
    let temporary = tempfile::tempdir().expect("a temporary directory can be created");
    let dir = temporary.path();
    // A sub-directory may be a mount point.
    std::fs::create_dir(dir.join("api")).expect("the directory can be created");
    let report = init(dir, &[]);
    let made = files(dir);
    let mut reported = names(&report, "made");
    reported.sort();
    assert_eq!(reported, made.keys().cloned().collect::<Vec<_>>());
    assert_eq!((names(&report, "kept").len(), names(&report, "notes").len()), (0, 0), "{report}");

    let mut expected = vec![
        "agent/ca.pem",
        "agent/node.key",
        "nats/auth.conf",
        "nats/ca.pem",
        "nats/server.key",
        "nats/server.pem",
        "operator/ca.key",
        "operator/ca.pem",
        "postgres/ca.pem",
        "postgres/password",
        "postgres/roles.sql",
        "postgres/server.key",
        "postgres/server.pem",
        "reader/ca.pem",
        "reader/postgres-password",
    ];
    let of_services: Vec<String> = Role::ALL
        .into_iter()
        .filter(|role| *role != Role::Reader)
        .flat_map(|role| {
            ["ca.pem", "nats.creds", "postgres-password"].map(|file| format!("{}/{file}", role.service()))
        })
        .collect();
    expected.extend(of_services.iter().map(String::as_str));
    for file in expected {
        assert!(made.contains_key(file), "{file} is missing");
        let mode = std::fs::metadata(dir.join(file)).expect("the file exists").permissions().mode() & 0o777;
        let is_public = file.ends_with(".pem") || file == "nats/auth.conf";
        assert_eq!(mode, if is_public { 0o644 } else { 0o600 }, "{file}");
    }
    let authorities: Vec<&String> =
        made.iter().filter(|(name, _)| name.ends_with("/ca.pem")).map(|(_, text)| text).collect();
    assert!(authorities.windows(2).all(|pair| pair[0] == pair[1]), "all services have the same authority");

    let again = init(dir, &[]);
    assert_eq!((names(&again, "made").len(), files(dir)), (0, made.clone()), "{again}");

    // As after a crash, or after the loss of a volume.
    for file in ["postgres/server.pem", "scheduler/ca.pem", "nats/auth.conf", "reader/postgres-password"] {
        std::fs::remove_file(dir.join(file)).expect("the file exists");
    }
    std::fs::write(dir.join("api/.unfinished-ca.pem"), "half").expect("the file can be written");
    let mended = init(dir, &[]);
    let mut reported = names(&mended, "made");
    reported.sort();
    assert_eq!(
        reported,
        ["nats/auth.conf", "postgres/server.pem", "reader/postgres-password", "scheduler/ca.pem"]
    );
    let notes = names(&mended, "notes");
    assert!(notes.iter().any(|note| note.contains("postgres/roles.sql has other passwords")), "{notes:?}");
    let now = files(dir);
    assert_eq!(now.keys().collect::<Vec<_>>(), made.keys().collect::<Vec<_>>());
    // The authority is the same. The trusted accounts in auth.conf are signed again, so only their time of issue may differ.
    for (name, text) in &made {
        let is_new = ["postgres/server.pem", "reader/postgres-password"].contains(&name.as_str());
        assert!(name == "nats/auth.conf" || is_new == (now[name] != *text), "{name}");
    }
}

#[test]
fn files_are_given_to_their_owners() {
    let temporary = tempfile::tempdir().expect("a temporary directory can be created");
    let dir = temporary.path();
    let owners = ["-owner", "65532:65532", "-nats-owner", "1000:1001", "-postgres-owner", "999:998"];
    if !nix::unistd::Uid::effective().is_root() {
        let output = drover(
            &[&["operator", "init", "-dir", dir.to_str().expect("the path is UTF-8")], &owners[..]].concat(),
        );
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("CAP_CHOWN"), "{error}");
        return;
    }
    for _ in 0..2 {
        // With only the capabilities that its documentation lists.
        let output = Command::new("setpriv")
            .args(["--bounding-set=-all,+chown,+dac_override", "--inh-caps=-all,+chown,+dac_override"])
            .args([BINARY, "operator", "init", "-dir"])
            .arg(dir)
            .args(owners)
            .output()
            .expect("setpriv can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.lines().last().is_some_and(|line| line.contains("files made")), "{text}");
        for name in files(dir).keys() {
            let expected = match name.split('/').next().expect("split yields at least one item") {
                "operator" | "agent" => (0, 0),
                "nats" => (1000, 1001),
                "postgres" => (999, 998),
                _ => (65532, 65532),
            };
            let found = std::fs::metadata(dir.join(name)).expect("the file exists");
            assert_eq!((found.uid(), found.gid()), expected, "{name}");
        }
    }
}

/// Starts a PostgreSQL with the roles and the certificate of a directory.
async fn postgres(dir: &Path) -> Postgres {
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).expect("the file can be read");
    let certificate =
        Certificate { certificate: read("postgres/server.pem"), key: read("postgres/server.key") };
    let options = PostgresOptions {
        survives_power_loss: false,
        certificate: Some(certificate),
        ..PostgresOptions::default()
    };
    let postgres = Postgres::temporary_with(options).await.expect("PostgreSQL starts");
    postgres.run_script(read("postgres/roles.sql")).await.expect("the roles can be created");
    postgres
}

#[tokio::test]
async fn services_trust_the_database_of_their_authority_and_no_other() {
    let temporary = tempfile::tempdir().expect("a temporary directory can be created");
    let (dir, other) = (temporary.path().join("own"), temporary.path().join("other"));
    init(&dir, &["-postgres-host", "db.example.org"]);
    init(&other, &[]);
    let postgres = postgres(&dir).await;
    let url = postgres.url_as("drover_reader");
    let port =
        url.split(':').nth(2).and_then(|rest| rest.split('/').next()).expect("the URL has a port").to_owned();
    let check = |host: &str, authority: &Path, password: &Path| {
        let authority = authority.display();
        let url = format!(
            "postgres://drover_reader@{host}:{port}/drover?sslmode=verify-full&sslrootcert={authority}"
        );
        Command::new(BINARY)
            .args(["operator", "postgres", "check", "-database-url", &url, "-database-wait-secs", "5"])
            .arg("-database-password-file")
            .arg(password)
            .output()
            .expect("the binary can be started")
    };
    let (authority, password) = (dir.join("reader/ca.pem"), dir.join("reader/postgres-password"));

    // The tables do not exist before an applier has created them. Roles, database and schema are correct.
    let output = check("localhost", &authority, &password);
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output_text}{}", String::from_utf8_lossy(&output.stderr));
    let faults = output_text.lines().take_while(|line| !line.is_empty());
    let is_missing = |line: &str| line.starts_with("the table ") && line.ends_with(" does not exist");
    let unexpected: Vec<&str> = faults.filter(|line| !is_missing(line)).collect();
    assert_eq!(unexpected, ["drover_reader lacks EXECUTE on moment(bigint)"], "{output_text}");

    for (host, authority, password, cause) in [
        ("localhost", other.join("reader/ca.pem"), &password, "invalid peer certificate: UnknownIssuer"),
        (Certificate::ELSEWHERE, authority.clone(), &password, "certificate not valid for name"),
        (
            "localhost",
            dir.join("reader/nothing.pem"),
            &password,
            "reader/nothing.pem, which sslrootcert in the database's URL (DROVER_DATABASE_URL) names: No such file",
        ),
        (
            "localhost",
            authority.clone(),
            &other.join("reader/postgres-password"),
            "password authentication failed",
        ),
        ("localhost", authority.clone(), &dir.join("reader/nothing"), "cannot use the password file"),
    ] {
        let output = check(host, &authority, password);
        let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{host} {}: {output_text}", authority.display());
        assert!(output_text.contains(cause), "{output_text}");
    }
}

#[test]
fn certificates_are_renewed_for_their_keys() {
    let temporary = tempfile::tempdir().expect("a temporary directory can be created");
    let dir = temporary.path().to_str().expect("the path is UTF-8");
    let init = drover(&["operator", "tls", "init", "-dir", dir, "-nats-host", "nats.example.org"]);
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let before = files(temporary.path());
    let renew = |more: &[&str]| {
        let output = drover(&[&["operator", "tls", "renew", "-dir", dir], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8_lossy(&output.stdout).into_owned(), files(temporary.path()))
    };
    let (output_text, after) = renew(&[]);
    assert!(output_text.contains("nats/server.pem is valid for 8") && after == before, "{output_text}");
    let changed = |after: &BTreeMap<String, String>| -> Vec<String> {
        before.iter().filter(|(name, text)| after[*name] != **text).map(|(name, _)| name.clone()).collect()
    };
    let (_, after) = renew(&["-postgres-host", "db.example.org"]);
    assert_eq!(changed(&after), ["postgres/server.pem"], "only this certificate lacked the host");
    let (_, after) = renew(&["-force"]);
    assert_eq!(changed(&after), ["nats/server.pem", "postgres/server.pem"]);
    // The certificates still have the names that were requested at first.
    let output = drover(&["operator", "tls", "init", "-json", "-dir", dir, "-nats-host", "nats.example.org"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    let notes = names(&report, "notes");
    assert!(
        notes.len() == 1 && notes[0].starts_with("postgres/server.pem is not valid for postgres"),
        "{notes:?}"
    );

    std::fs::remove_file(temporary.path().join("operator/ca.key")).expect("the file exists");
    let output = drover(&["operator", "tls", "renew", "-dir", dir, "-force"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("operator/ca.key is missing"), "{error}");
}
