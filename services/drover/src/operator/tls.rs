//! `drover operator tls …`: an authority of the cluster's own, and certificates of the servers that it signs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use super::certificates::{self, RENEW_WITHIN_DAYS};
use super::directory::{Directory, Mode, Owner};
use super::report::{self, Report};

/// Certificate and key of the authority; the key is nobody's but the operator's.
const AUTHORITY: &str = "operator/ca.pem";
const AUTHORITY_KEY: &str = "operator/ca.key";
/// Names of files in the directory of a server or a client.
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";
const TRUSTED: &str = "ca.pem";

/// What can be done with certificates.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Makes an authority, and certificates for NATS and PostgreSQL
    Init(Init),
    /// Signs the servers' certificates anew before they end
    Renew(Renew),
}

/// Makes an authority of the cluster's own in DIR/operator, unless one is there, and certificates that it signs in DIR/nats and
/// DIR/postgres. The authority lives for ten years, a certificate for 825 days; `drover operator tls renew` signs it anew.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// The directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    hosts: Hosts,
    #[command(flatten)]
    owners: Owners,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Signs the certificates of NATS and PostgreSQL in DIR anew, for the keys that they have: those that live for less than 275
/// days, and those that are not for all hosts that are given. The servers read them when they are reloaded: NATS on SIGHUP,
/// PostgreSQL by `select pg_reload_conf()`.
#[derive(Debug, clap::Args)]
pub(crate) struct Renew {
    /// The directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// A name or address of NATS; may be given again. Those of the old certificate unless given.
    #[arg(long, value_name = "HOST")]
    nats_host: Vec<String>,
    /// A name or address of PostgreSQL; may be given again. Those of the old certificate unless given.
    #[arg(long, value_name = "HOST")]
    postgres_host: Vec<String>,
    /// Also those that live long enough.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Under which names the servers are reached.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Hosts {
    /// A name or address under which NATS is reached; may be given again.
    #[arg(id = "nats_host", long = "nats-host", value_name = "HOST", default_value = "nats")]
    pub(super) nats: Vec<String>,
    /// A name or address under which PostgreSQL is reached; may be given again.
    #[arg(id = "postgres_host", long = "postgres-host", value_name = "HOST", default_value = "postgres")]
    pub(super) postgres: Vec<String>,
}

/// Whom files are given to. Without, they belong to whoever runs the command.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Owners {
    /// Whom the files of services are given to, by number, such as 65532:65532.
    #[arg(long = "owner", value_name = "UID:GID")]
    pub(super) services: Option<Owner>,
    /// Whom the files of NATS are given to, by number.
    #[arg(id = "nats_owner", long = "nats-owner", value_name = "UID:GID")]
    pub(super) nats: Option<Owner>,
    /// Whom the files of PostgreSQL are given to, by number; 999:999 in its official image.
    #[arg(id = "postgres_owner", long = "postgres-owner", value_name = "UID:GID")]
    pub(super) postgres: Option<Owner>,
}

pub(super) fn run(command: Command) -> ExitCode {
    match command {
        Command::Init(args) => report::print(args.json, init(&args)),
        Command::Renew(args) => report::print(args.json, renew(&args)),
    }
}

fn init(args: &Init) -> anyhow::Result<Report> {
    let mut directory = Directory::open(&args.dir)?;
    directory.sub_directory("operator", None)?;
    directory.sub_directory("nats", args.owners.nats)?;
    directory.sub_directory("postgres", args.owners.postgres)?;
    let notes = make(&mut directory, &args.hosts, &args.owners, telemetry::clock::now().as_secs())?;
    Ok(Report::new(&directory, notes))
}

/// Makes what is missing of the authority and of the servers' certificates, and says what is to be noted of those that are
/// there. The sub-directories are there.
pub(super) fn make(
    directory: &mut Directory,
    hosts: &Hosts,
    owners: &Owners,
    now_secs: i64,
) -> anyhow::Result<Vec<String>> {
    // A certificate whose key is not here was brought by the operator, with whatever it signed.
    let has_foreign_authority =
        directory.read(AUTHORITY)?.is_some() && directory.read(AUTHORITY_KEY)?.is_none();
    let authority_key = if has_foreign_authority {
        None
    } else {
        Some(directory.file(AUTHORITY_KEY, Mode::Secret, None, certificates::new_key)?)
    };
    let authority = directory.file(AUTHORITY, Mode::Public, None, || {
        let key = authority_key.as_deref().context("an authority has a key")?;
        certificates::authority(key, now_secs)
    })?;
    let mut notes = Vec::new();
    for (server, hosts, owner) in
        [("nats", &hosts.nats, owners.nats), ("postgres", &hosts.postgres, owners.postgres)]
    {
        trust(directory, server, owner)?;
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
        notes.extend(noted(&certificate_file, &certificate, server, hosts, now_secs).with_context(used)?);
    }
    let left = certificates::facts(&authority)
        .with_context(|| format!("cannot use {AUTHORITY}"))?
        .days_left(now_secs);
    if left < i64::from(RENEW_WITHIN_DAYS) {
        notes.push(format!("{AUTHORITY} ends in {left} days: the authority has to be replaced before"));
    }
    Ok(notes)
}

/// Gives a server or a client the authority's certificate.
pub(super) fn trust(directory: &mut Directory, of: &str, owner: Option<Owner>) -> anyhow::Result<()> {
    let authority = directory.read(AUTHORITY)?.with_context(|| format!("{AUTHORITY} is missing"))?;
    directory.file(&format!("{of}/{TRUSTED}"), Mode::Public, owner, || Ok(authority)).map(drop)
}

/// What an operator should know of a certificate.
fn noted(
    file: &str,
    certificate: &str,
    server: &str,
    hosts: &[String],
    now_secs: i64,
) -> anyhow::Result<Option<String>> {
    let facts = certificates::facts(certificate)?;
    let missing = facts.missing(hosts);
    let left = facts.days_left(now_secs);
    Ok(if !missing.is_empty() {
        let flags: String = hosts.iter().map(|host| format!(" -{server}-host {host}")).collect();
        let missing = missing.join(", ");
        Some(format!("{file} is not for {missing}: drover operator tls renew -dir DIR{flags}"))
    } else if left < i64::from(RENEW_WITHIN_DAYS) {
        Some(format!("{file} ends in {left} days: drover operator tls renew -dir DIR"))
    } else {
        None
    })
}

fn renew(args: &Renew) -> anyhow::Result<Report> {
    ensure!(args.dir.is_dir(), "there is no directory {}", args.dir.display());
    let now_secs = telemetry::clock::now().as_secs();
    let mut directory = Directory::open(&args.dir)?;
    let there = |directory: &Directory, file: &str| {
        directory
            .read(file)?
            .with_context(|| format!("{file} is missing: `drover operator tls init` makes it"))
    };
    let authority = there(&directory, AUTHORITY)?;
    let authority_key = there(&directory, AUTHORITY_KEY)?;
    let wanted = BTreeMap::from([("nats", &args.nats_host), ("postgres", &args.postgres_host)]);
    let mut notes = Vec::new();
    for (server, hosts) in wanted {
        let certificate_file = format!("{server}/{CERTIFICATE}");
        let certificate = there(&directory, &certificate_file)?;
        let key = there(&directory, &format!("{server}/{KEY}"))?;
        let facts =
            certificates::facts(&certificate).with_context(|| format!("cannot use {certificate_file}"))?;
        let left = facts.days_left(now_secs);
        let is_due = left < i64::from(RENEW_WITHIN_DAYS) || !facts.missing(hosts).is_empty();
        if !is_due && !args.force {
            notes.push(format!("{certificate_file} lives for {left} days more and is kept"));
            continue;
        }
        let hosts = if hosts.is_empty() { &facts.hosts } else { hosts };
        let renewed = certificates::server(&authority, &authority_key, &key, hosts, now_secs)?;
        directory.replace(&certificate_file, Mode::Public, &renewed)?;
    }
    Ok(Report::new(&directory, notes))
}
