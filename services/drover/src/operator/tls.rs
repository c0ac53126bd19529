//! `drover operator tls …`: the cluster's own certificate authority, and the servers' certificates that it signs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use super::certificates::{self, RENEW_WITHIN_DAYS};
use super::directory::{Directory, Mode, Owner};
use super::report::{self, Report};
use crate::command::{Run, commands};

/// Certificate and key of the authority. Only the operator has access to the key.
const AUTHORITY: &str = "operator/ca.pem";
const AUTHORITY_KEY: &str = "operator/ca.key";
/// Names of files in the directory of a server or a client.
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";
const TRUSTED: &str = "ca.pem";

commands! {
    /// Creates the certificates of NATS and PostgreSQL, and renews them.
    Command {
        Init(Init),
        Renew(Renew),
    }
}

/// Creates a certificate authority, and certificates for NATS and PostgreSQL.
///
/// The authority is created in DIR/operator, unless there is one, and the certificates that it signs in DIR/nats and
/// DIR/postgres. The authority is valid for ten years. The certificates are valid for 825 days; `drover operator tls renew`
/// renews them.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
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

/// Renews the certificates of NATS and PostgreSQL before they expire.
///
/// Renews a certificate, for the same key, if it is valid for less than 275 days, or not for all given hosts. The servers use
/// the new certificates once they are reloaded: NATS by SIGHUP, PostgreSQL by `select pg_reload_conf()`.
#[derive(Debug, clap::Args)]
pub(crate) struct Renew {
    /// The secrets directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// A name or address under which NATS is reached. May be given several times. By default, those in its certificate.
    #[arg(long, value_name = "HOST")]
    nats_host: Vec<String>,
    /// A name or address under which PostgreSQL is reached. May be given several times. By default, those in its
    /// certificate.
    #[arg(long, value_name = "HOST")]
    postgres_host: Vec<String>,
    /// Renew both certificates, however long they are valid.
    #[arg(long)]
    force: bool,
    /// Print JSON: the names of the files that were made and kept, and notes for the operator.
    #[arg(long)]
    json: bool,
}

/// The names under which the servers are reached.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Hosts {
    /// A name or address under which NATS is reached. May be given several times.
    #[arg(id = "nats_host", long = "nats-host", value_name = "HOST", default_value = "nats")]
    pub(super) nats: Vec<String>,
    /// A name or address under which PostgreSQL is reached. May be given several times.
    #[arg(id = "postgres_host", long = "postgres-host", value_name = "HOST", default_value = "postgres")]
    pub(super) postgres: Vec<String>,
}

/// The owners of new files. By default, the user that runs the command.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Owners {
    /// The owner of the services' files, as numeric ids such as 65532:65532.
    #[arg(long = "owner", value_name = "UID:GID")]
    pub(super) services: Option<Owner>,
    /// The owner of the files of NATS, as numeric ids.
    #[arg(id = "nats_owner", long = "nats-owner", value_name = "UID:GID")]
    pub(super) nats: Option<Owner>,
    /// The owner of the files of PostgreSQL, as numeric ids. In the official image of PostgreSQL it is 999:999.
    #[arg(id = "postgres_owner", long = "postgres-owner", value_name = "UID:GID")]
    pub(super) postgres: Option<Owner>,
}

impl Run for Init {
    fn run(self) -> ExitCode {
        report::print(self.json, init(&self))
    }
}

impl Run for Renew {
    fn run(self) -> ExitCode {
        report::print(self.json, renew(&self))
    }
}

fn init(args: &Init) -> anyhow::Result<Report> {
    let mut directory = Directory::open(&args.dir)?;
    directory.sub_directory("operator", None)?;
    directory.sub_directory("nats", args.owners.nats)?;
    directory.sub_directory("postgres", args.owners.postgres)?;
    let notes = create_missing(&mut directory, &args.hosts, &args.owners, telemetry::clock::now().as_secs())?;
    Ok(Report::new(&directory, notes))
}

/// Creates the missing parts of the authority and of the servers' certificates. Returns notes on existing certificates. The
/// sub-directories must exist.
pub(super) fn create_missing(
    directory: &mut Directory,
    hosts: &Hosts,
    owners: &Owners,
    now_secs: i64,
) -> anyhow::Result<Vec<String>> {
    // An authority without its key here was provided by the operator, together with the certificates that it signed.
    let has_foreign_authority =
        directory.read(AUTHORITY)?.is_some() && directory.read(AUTHORITY_KEY)?.is_none();
    let authority_key = if has_foreign_authority {
        None
    } else {
        Some(directory.file(AUTHORITY_KEY, Mode::Secret, None, certificates::new_key)?)
    };
    let authority = directory.file(AUTHORITY, Mode::Public, None, || {
        let key = authority_key.as_deref().context("the key of the authority is missing")?;
        certificates::authority(key, now_secs)
    })?;
    let mut notes = Vec::new();
    for (server, hosts, owner) in
        [("nats", &hosts.nats, owners.nats), ("postgres", &hosts.postgres, owners.postgres)]
    {
        copy_authority(directory, server, owner)?;
        let (certificate_file, key_file) = (format!("{server}/{CERTIFICATE}"), format!("{server}/{KEY}"));
        let key = directory.file(&key_file, Mode::Secret, owner, certificates::new_key)?;
        let certificate = directory.file(&certificate_file, Mode::Public, owner, || {
            let authority_key = authority_key.as_deref().with_context(|| {
                format!("{certificate_file} is missing, and without {AUTHORITY_KEY} it cannot be signed")
            })?;
            certificates::server(&authority, authority_key, &key, hosts, now_secs)
        })?;
        let used = || format!("cannot use {certificate_file}");
        certificates::check_pair(&certificate, &key).with_context(used)?;
        notes.extend(note(&certificate_file, &certificate, server, hosts, now_secs).with_context(used)?);
    }
    let left = certificates::parse(&authority)
        .with_context(|| format!("cannot use {AUTHORITY}"))?
        .days_left(now_secs);
    if left < i64::from(RENEW_WITHIN_DAYS) {
        notes.push(format!("{AUTHORITY} expires in {left} days: replace the authority before that"));
    }
    Ok(notes)
}

/// Copies the authority's certificate to the directory of a server or a client.
pub(super) fn copy_authority(
    directory: &mut Directory,
    of: &str,
    owner: Option<Owner>,
) -> anyhow::Result<()> {
    let authority = directory.read(AUTHORITY)?.with_context(|| format!("{AUTHORITY} is missing"))?;
    directory.file(&format!("{of}/{TRUSTED}"), Mode::Public, owner, || Ok(authority)).map(drop)
}

/// A note if a certificate should be renewed.
fn note(
    file: &str,
    certificate: &str,
    server: &str,
    hosts: &[String],
    now_secs: i64,
) -> anyhow::Result<Option<String>> {
    let info = certificates::parse(certificate)?;
    let missing = info.missing(hosts);
    let left = info.days_left(now_secs);
    Ok(if !missing.is_empty() {
        let flags: String = hosts.iter().map(|host| format!(" -{server}-host {host}")).collect();
        let missing = missing.join(", ");
        Some(format!("{file} is not valid for {missing}: drover operator tls renew -dir DIR{flags}"))
    } else if left < i64::from(RENEW_WITHIN_DAYS) {
        Some(format!("{file} expires in {left} days: drover operator tls renew -dir DIR"))
    } else {
        None
    })
}

fn renew(args: &Renew) -> anyhow::Result<Report> {
    ensure!(args.dir.is_dir(), "there is no directory {}", args.dir.display());
    let now_secs = telemetry::clock::now().as_secs();
    let mut directory = Directory::open(&args.dir)?;
    let require = |directory: &Directory, file: &str| {
        directory
            .read(file)?
            .with_context(|| format!("{file} is missing: `drover operator tls init` creates it"))
    };
    let authority = require(&directory, AUTHORITY)?;
    let authority_key = require(&directory, AUTHORITY_KEY)?;
    let wanted = BTreeMap::from([("nats", &args.nats_host), ("postgres", &args.postgres_host)]);
    let mut notes = Vec::new();
    for (server, hosts) in wanted {
        let certificate_file = format!("{server}/{CERTIFICATE}");
        let certificate = require(&directory, &certificate_file)?;
        let key = require(&directory, &format!("{server}/{KEY}"))?;
        let info =
            certificates::parse(&certificate).with_context(|| format!("cannot use {certificate_file}"))?;
        let left = info.days_left(now_secs);
        let is_due = left < i64::from(RENEW_WITHIN_DAYS) || !info.missing(hosts).is_empty();
        if !is_due && !args.force {
            notes.push(format!("{certificate_file} is valid for {left} more days and is kept"));
            continue;
        }
        let hosts = if hosts.is_empty() { &info.hosts } else { hosts };
        let renewed = certificates::server(&authority, &authority_key, &key, hosts, now_secs)?;
        directory.replace(&certificate_file, Mode::Public, &renewed)?;
    }
    Ok(Report::new(&directory, notes))
}
