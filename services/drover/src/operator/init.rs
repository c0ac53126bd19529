//! `drover operator init`: creates all secrets of a cluster in one directory, or completes them.
//!
//! As root it needs `CAP_CHOWN` to hand files to their owners, and `CAP_DAC_OVERRIDE` to read those files when it runs again;
//! no other capability.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use store::roles::{self, Passwords, Role};

use super::directory::{Directory, Mode, Owner};
use super::report::{self, Report};
use super::tls::{self, Hosts, Owners};
use crate::command::Run;

/// The password of PostgreSQL's superuser, and the script that creates the roles.
const SUPERUSER_PASSWORD: &str = "postgres/password";
const ROLES: &str = "postgres/roles.sql";
const DATABASE: &str = "drover";

/// Creates all secrets of a cluster in a directory: certificates, credentials and passwords.
///
/// Keeps files that exist, and creates those that are missing, so it can run before every start. Each sub-directory belongs to
/// one part of the cluster, and can be a volume of its own: DIR/operator for the operator alone, DIR/nats, DIR/postgres,
/// DIR/agent, DIR/reader, and one for each service, with its name.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The secrets directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    hosts: Hosts,
    #[command(flatten)]
    owners: Owners,
    /// Print JSON: the names of the files that were made and kept, and notes for the operator.
    #[arg(long)]
    json: bool,
}

impl Run for Args {
    fn run(self) -> ExitCode {
        report::print(self.json, init(&self))
    }
}

fn init(args: &Args) -> anyhow::Result<Report> {
    let owners = args.owners;
    let mut directory = Directory::open(&args.dir)?;
    let services: Vec<&str> =
        Role::ALL.into_iter().filter(|role| *role != Role::Reader).map(Role::service).collect();
    directory.sub_directory("operator", None)?;
    for (name, owner) in [("nats", owners.nats), ("postgres", owners.postgres), ("agent", None)] {
        directory.sub_directory(name, owner)?;
    }
    for name in services.iter().copied().chain([Role::Reader.service()]) {
        directory.sub_directory(name, owners.services)?;
    }

    let now_secs = telemetry::clock::now().as_secs();
    let mut notes = tls::create_missing(&mut directory, &args.hosts, &owners, now_secs)?;
    for name in services.iter().copied().chain([Role::Reader.service()]) {
        tls::copy_authority(&mut directory, name, owners.services)?;
    }
    tls::copy_authority(&mut directory, "agent", None)?;
    create_nats(&mut directory, &owners, now_secs)?;
    notes.extend(create_postgres(&mut directory, &owners)?);
    Ok(Report::new(&directory, notes))
}

/// Creates missing identities for NATS.
pub(super) fn create_nats(directory: &mut Directory, owners: &Owners, now_secs: i64) -> anyhow::Result<()> {
    let files_read = RefCell::new(BTreeMap::new());
    let read = |path: &str| {
        let mut files_read = files_read.borrow_mut();
        let text = files_read.entry(path.to_owned()).or_insert_with(|| directory.read(path));
        text.as_ref().ok().cloned().flatten()
    };
    let missing = nats_auth::directory::missing(&read, &mut random, now_secs);
    // A file that cannot be read is not missing.
    let files_read = files_read.into_inner().into_iter().map(|(path, text)| Ok((path, text?)));
    let files_read: BTreeMap<String, Option<String>> = files_read.collect::<anyhow::Result<_>>()?;
    let mut files = missing.context("cannot create identities for NATS")?;
    let kept = files_read.into_iter().filter_map(|(path, text)| Some((path, text?)));
    files.extend(kept.map(|(path, text)| nats_auth::File { path, text, is_secret: true }));
    for file in files {
        let mode = if file.is_secret { Mode::Secret } else { Mode::Public };
        directory.file(&file.path, mode, owner_of(&file.path, owners), || Ok(file.text))?;
    }
    Ok(())
}

/// The owner of a file, which depends on its directory.
fn owner_of(path: &str, owners: &Owners) -> Option<Owner> {
    match path.split_once('/').map(|(directory, _)| directory) {
        None | Some("operator" | "agent") => None,
        Some("nats") => owners.nats,
        Some("postgres") => owners.postgres,
        Some(_) => owners.services,
    }
}

/// Creates missing passwords, and the script of roles for PostgreSQL.
fn create_postgres(directory: &mut Directory, owners: &Owners) -> anyhow::Result<Option<String>> {
    let new_password = || Ok(format!("{}\n", Passwords::random_one()));
    directory.file(SUPERUSER_PASSWORD, Mode::Secret, owners.postgres, new_password)?;
    for role in Role::ALL {
        let file = format!("{}/{}", role.service(), roles::PASSWORD_FILE);
        directory.file(&file, Mode::Secret, owners.services, new_password)?;
    }
    let passwords = Passwords::read(directory.root())?;
    let script = || Ok(roles::script(DATABASE, &passwords));
    let script = directory.file(ROLES, Mode::Secret, owners.postgres, script)?;
    Ok((!roles::has_passwords(&script, &passwords)).then(|| {
        format!(
            "{ROLES} has other passwords than the services: execute the output of \
             `drover operator postgres grants -secrets-dir DIR`, and store it in that file"
        )
    }))
}

/// 32 random bytes.
fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    let (first, second) = bytes.split_at_mut(16);
    first.copy_from_slice(&telemetry::clock::random_bytes());
    second.copy_from_slice(&telemetry::clock::random_bytes());
    bytes
}
