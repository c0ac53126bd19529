//! `drover operator init`: everything that is secret about a cluster, in one directory, made at once or finished.
//!
//! As root it needs `CAP_CHOWN` to hand files to their owners, and `CAP_DAC_OVERRIDE` to look at them again when it is run
//! another time; no other capability.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use store::roles::{self, Passwords, Role};

use super::directory::{Directory, Mode, Owner};
use super::report::{self, Report};
use super::tls::{self, Hosts, Owners};

/// The superuser's password of PostgreSQL, and the script of its roles.
const SUPERUSER_PASSWORD: &str = "postgres/password";
const ROLES: &str = "postgres/roles.sql";
const DATABASE: &str = "drover";

/// Makes all secrets of a cluster in a directory: certificates, identities for NATS, passwords and roles for PostgreSQL.
///
/// What is there is kept, what is missing is made, so that it may be run before every start. Each sub-directory belongs to one
/// part of the cluster and may be a volume of its own: DIR/operator to nobody but the operator, DIR/nats, DIR/postgres,
/// DIR/agent, DIR/reader, and one of the name of each service.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    hosts: Hosts,
    #[command(flatten)]
    owners: Owners,
    /// Print JSON: the names of the files that were made and kept, and what is to be noted.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    report::print(args.json, init(args))
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
    let mut notes = tls::make(&mut directory, &args.hosts, &owners, now_secs)?;
    for name in services.iter().copied().chain([Role::Reader.service()]) {
        tls::trust(&mut directory, name, owners.services)?;
    }
    tls::trust(&mut directory, "agent", None)?;
    nats(&mut directory, &owners, now_secs)?;
    notes.extend(postgres(&mut directory, &owners)?);
    Ok(Report::new(&directory, notes))
}

/// Identities for NATS.
pub(super) fn nats(directory: &mut Directory, owners: &Owners, now_secs: i64) -> anyhow::Result<()> {
    let looked_at = RefCell::new(BTreeMap::new());
    let read = |path: &str| {
        let mut looked_at = looked_at.borrow_mut();
        let text = looked_at.entry(path.to_owned()).or_insert_with(|| directory.read(path));
        text.as_ref().ok().cloned().flatten()
    };
    let missing = nats_auth::directory::missing(&read, &mut random, now_secs);
    // One that cannot be read is not missing.
    let looked_at = looked_at.into_inner().into_iter().map(|(path, text)| Ok((path, text?)));
    let looked_at: BTreeMap<String, Option<String>> = looked_at.collect::<anyhow::Result<_>>()?;
    let mut files = missing.context("cannot make identities for NATS")?;
    let kept = looked_at.into_iter().filter_map(|(path, text)| Some((path, text?)));
    files.extend(kept.map(|(path, text)| nats_auth::File { path, text, is_secret: true }));
    for file in files {
        let mode = if file.is_secret { Mode::Secret } else { Mode::Public };
        directory.file(&file.path, mode, owner(&file.path, owners), || Ok(file.text))?;
    }
    Ok(())
}

/// Whom a file is given to, by the directory that it is in.
fn owner(path: &str, owners: &Owners) -> Option<Owner> {
    match path.split_once('/').map(|(directory, _)| directory) {
        None | Some("operator" | "agent") => None,
        Some("nats") => owners.nats,
        Some("postgres") => owners.postgres,
        Some(_) => owners.services,
    }
}

/// Passwords and roles for PostgreSQL.
fn postgres(directory: &mut Directory, owners: &Owners) -> anyhow::Result<Option<String>> {
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
            "{ROLES} has other passwords than the services: run what \
             `drover operator postgres grants -secrets-dir DIR` prints, and keep it there"
        )
    }))
}

/// 32 bytes of chance.
fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    let (first, second) = bytes.split_at_mut(16);
    first.copy_from_slice(&telemetry::clock::random_bytes());
    second.copy_from_slice(&telemetry::clock::random_bytes());
    bytes
}
