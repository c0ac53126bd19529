//! `drover operator nats`: identities for NATS in the secrets directory. What the files say is `nats_auth`'s; here they are
//! read and written.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use model::NodeId;
use nats_auth::{Credentials, directory};
use wire::Role;

use super::directory::{Directory, Mode};
use super::report::{self, Report};
use super::tls::Owners;
use crate::process::fail;

/// The mode of files with credentials.
const SECRET_MODE: u32 = 0o600;

/// What can be done.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Makes keys, the servers' configuration and the services' credentials, as far as they are missing
    Init(Init),
    /// Makes the credentials of a node
    Node(Node),
    /// Makes the credentials of a service
    Service(Service),
    /// Makes servers refuse credentials
    Revoke(Revoke),
}

/// Makes the identities of a cluster: the keys of the operator and its accounts (operator/), what nats-server includes in its
/// configuration (nats/auth.conf), credentials for each service (ROLE/nats.creds), and the key with which agents sign their
/// own (agent/node.key). What is there stays as it is; what is missing is made.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    #[command(flatten)]
    dir: Dir,
    /// Print JSON: the names of the files that were made and kept.
    #[arg(long)]
    json: bool,
}

/// Makes the credentials of one node. An agent that has them takes over the node's id from them.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    /// A name for people, such as the machine's.
    name: String,
    /// The node's id; a new one if not given.
    #[arg(long, value_name = "ID")]
    id: Option<NodeId>,
    #[command(flatten)]
    out: Out,
    #[command(flatten)]
    dir: Dir,
}

/// Makes new credentials for a service; those that it has stay good. `servers` is all services in one process.
#[derive(Debug, clap::Args)]
pub(crate) struct Service {
    /// The service's role: api, eval-broker, scheduler, plan-applier, node-tracker, deployment-watcher or servers.
    role: Role,
    #[command(flatten)]
    out: Out,
    #[command(flatten)]
    dir: Dir,
}

/// Adds a user to those that nats-server refuses, and writes its configuration again (nats/auth.conf). It takes effect when
/// the servers read it: `nats-server --signal reload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The user's public key (U…), as nats-server and services log it, or a file with its credentials.
    user: String,
    #[command(flatten)]
    dir: Dir,
}

/// Where the operator's files are.
#[derive(Debug, clap::Args)]
struct Dir {
    /// The operator's directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// Where credentials go.
#[derive(Debug, clap::Args)]
struct Out {
    /// Write them to this new file, which only its owner may read, and not to the standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Does it, and says what was done.
pub(crate) fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Init(args) => return report::print(args.json, init(args)),
        Command::Node(args) => node(args),
        Command::Service(args) => service(args),
        Command::Revoke(args) => revoke(args),
    };
    match done {
        Ok(said) => {
            let _ = std::io::stdout().write_all(said.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

fn init(args: &Init) -> anyhow::Result<Report> {
    let mut directory = Directory::open(&args.dir.dir)?;
    for name in ["operator", "nats", "agent"].into_iter().chain(Role::SERVICES.map(Role::as_str)) {
        directory.sub_directory(name, None)?;
    }
    super::init::nats(&mut directory, &Owners::default(), now_secs())?;
    Ok(Report::new(&directory, Vec::new()))
}

fn node(args: &Node) -> anyhow::Result<String> {
    let issuer = with_directory(&args.dir.dir, directory::issuer)?;
    let made = || NodeId(uuid::Builder::from_random_bytes(telemetry::clock::random_bytes()).into_uuid());
    let id = args.id.unwrap_or_else(made);
    let credentials = issuer.node(&args.name, id, &mut rand::random, now_secs());
    give(&credentials, &args.out, &format!("node {} with id {id}", args.name))
}

fn service(args: &Service) -> anyhow::Result<String> {
    let issuer = with_directory(&args.dir.dir, directory::issuer)?;
    let credentials = issuer.service(args.role, &mut rand::random, now_secs())?;
    give(&credentials, &args.out, &format!("the role {}", args.role))
}

fn give(credentials: &Credentials, out: &Out, whose: &str) -> anyhow::Result<String> {
    let Some(path) = &out.out else { return Ok(credentials.text()) };
    write_new(path, &credentials.text()).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(format!("made {} for {whose}, user {}\n", path.display(), credentials.claims.sub))
}

fn revoke(args: &Revoke) -> anyhow::Result<String> {
    let dir = &args.dir.dir;
    let user = match std::fs::read_to_string(&args.user) {
        Ok(text) => Credentials::read(&text).with_context(|| format!("cannot use {}", args.user))?.claims.sub,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => args.user.clone(),
        Err(error) => bail!("cannot read {}: {error}", args.user),
    };
    let changed = with_directory(dir, |read| directory::revoke(read, &user, now_secs()))?;
    let mut directory = Directory::open(dir)?;
    for file in &changed {
        let mode = if file.is_secret { Mode::Secret } else { Mode::Public };
        match directory.read(&file.path)? {
            Some(_) => directory.replace(&file.path, mode, &file.text)?,
            None => drop(directory.file(&file.path, mode, None, || Ok(file.text.clone()))?),
        }
    }
    let server = dir.join(directory::SERVER);
    Ok(format!(
        "{user} is revoked. Give {} to the NATS servers and have them read it (nats-server --signal reload).\n",
        server.display()
    ))
}

/// Writes a new file that only its owner may read.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(SECRET_MODE).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Calls `ask` with what reads the files of a directory; a file that is there and cannot be read is an error.
fn with_directory<T>(
    dir: &Path,
    ask: impl FnOnce(nats_auth::Reader<'_>) -> Result<T, nats_auth::Error>,
) -> anyhow::Result<T> {
    let unreadable = std::cell::RefCell::new(None);
    let read = |name: &str| match std::fs::read_to_string(dir.join(name)) {
        Ok(text) => Some(text),
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                unreadable.borrow_mut().get_or_insert((name.to_owned(), error));
            }
            None
        }
    };
    let asked = ask(&read);
    if let Some((name, error)) = unreadable.into_inner() {
        return Err(error).with_context(|| format!("cannot read {}", dir.join(name).display()));
    }
    asked.with_context(|| format!("cannot use the directory {}", dir.display()))
}

fn now_secs() -> i64 {
    telemetry::clock::now().as_secs()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn dir(path: &Path) -> Dir {
        Dir { dir: path.to_owned() }
    }

    fn made(path: &Path) -> Report {
        init(&Init { dir: dir(path), json: false }).unwrap()
    }

    #[test]
    fn init_makes_what_is_missing_and_keeps_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        made(home.path());
        assert_eq!(mode(&home.path().join("agent/node.key")), 0o600);
        assert_eq!(mode(&home.path().join("nats/auth.conf")), 0o644);
        let before = std::fs::read_to_string(home.path().join("nats/auth.conf")).unwrap();
        std::fs::remove_file(home.path().join("api/nats.creds")).unwrap();
        made(home.path());
        assert_eq!(std::fs::read_to_string(home.path().join("nats/auth.conf")).unwrap(), before);
        assert!(home.path().join("api/nats.creds").is_file());
    }

    #[test]
    fn a_nodes_credentials_name_the_node_and_no_file_is_overwritten() {
        let home = tempfile::tempdir().unwrap();
        made(home.path());
        let file = home.path().join("worker.creds");
        let id: NodeId = "07070707-0707-0707-0707-070707070707".parse().unwrap();
        let args = || Node {
            name: "worker".to_owned(),
            id: Some(id),
            out: Out { out: Some(file.clone()) },
            dir: dir(home.path()),
        };
        assert!(node(&args()).unwrap().contains("node worker with id 07070707"));
        assert_eq!(mode(&file), 0o600);
        assert_eq!(Credentials::read(&std::fs::read_to_string(&file).unwrap()).unwrap().node(), Some(id));
        let error = format!("{:#}", node(&args()).unwrap_err());
        assert!(error.contains("worker.creds"), "{error}");
        let revoked = revoke(&Revoke { user: file.display().to_string(), dir: dir(home.path()) }).unwrap();
        assert!(revoked.starts_with('U'), "{revoked}");
    }

    #[test]
    fn a_directory_without_keys_is_named() {
        let home = tempfile::tempdir().unwrap();
        let args = Service { role: Role::Api, out: Out { out: None }, dir: dir(home.path()) };
        let error = format!("{:#}", service(&args).unwrap_err());
        assert!(error.contains("operator nats init") && error.contains("nats-operator.seed"), "{error}");
    }
}
