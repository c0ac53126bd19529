//! `drover operator nats`: identities for NATS in the secrets directory. The crate `nats_auth` determines the contents of the
//! files; this module reads and writes them.

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
use crate::command::{Run, commands};
use crate::process::fail;

/// The mode of files with credentials.
const SECRET_MODE: u32 = 0o600;

commands! {
    /// Creates and revokes identities for NATS, which decide who may send and receive which messages.
    Command {
        Init(Init),
        Node(Node),
        Service(Service),
        Revoke(Revoke),
    }
}

/// Creates the identities of a cluster: keys, the configuration of NATS, and credentials.
///
/// Creates the keys of the operator and its accounts (operator/), the file that nats-server includes in its configuration
/// (nats/auth.conf), credentials for each service (ROLE/nats.creds), and the key with which agents sign their own credentials
/// (agent/node.key). Keeps files that exist.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    #[command(flatten)]
    dir: Dir,
    /// Print JSON: the names of the files that were made and kept.
    #[arg(long)]
    json: bool,
}

/// Creates the credentials of a node.
///
/// An agent that uses them takes its node id from them.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    /// A name for people to read, such as that of the machine.
    name: String,
    /// The id of the node. By default, a new one.
    #[arg(long, value_name = "ID")]
    id: Option<NodeId>,
    #[command(flatten)]
    out: Out,
    #[command(flatten)]
    dir: Dir,
}

/// Creates new credentials for a service. Its existing credentials stay valid.
#[derive(Debug, clap::Args)]
pub(crate) struct Service {
    /// The role of the service: api, eval-broker, scheduler, plan-applier, node-tracker, deployment-watcher, or servers for
    /// all services in one process.
    role: Role,
    #[command(flatten)]
    out: Out,
    #[command(flatten)]
    dir: Dir,
}

/// Makes the NATS servers refuse credentials.
///
/// Adds a user to those that nats-server refuses, and writes its configuration (nats/auth.conf). The change takes effect when
/// the servers reload the configuration: `nats-server --signal reload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The public key of the user (U…), as in the logs of nats-server and of services, or a file with its credentials.
    user: String,
    #[command(flatten)]
    dir: Dir,
}

/// The location of the operator's files.
#[derive(Debug, clap::Args)]
struct Dir {
    /// The secrets directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// The destination of credentials.
#[derive(Debug, clap::Args)]
struct Out {
    /// Write the credentials to this new file, which only its owner may read, instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Run for Init {
    fn run(self) -> ExitCode {
        report::print(self.json, init(&self))
    }
}

impl Run for Node {
    fn run(self) -> ExitCode {
        print(node(&self))
    }
}

impl Run for Service {
    fn run(self) -> ExitCode {
        print(service(&self))
    }
}

impl Run for Revoke {
    fn run(self) -> ExitCode {
        print(revoke(&self))
    }
}

/// Prints the result or the error of a command.
fn print(result: anyhow::Result<String>) -> ExitCode {
    match result {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
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
    super::init::create_nats(&mut directory, &Owners::default(), now_secs())?;
    Ok(Report::new(&directory, Vec::new()))
}

fn node(args: &Node) -> anyhow::Result<String> {
    let issuer = with_directory(&args.dir.dir, directory::issuer)?;
    let new_id = || NodeId(uuid::Builder::from_random_bytes(telemetry::clock::random_bytes()).into_uuid());
    let id = args.id.unwrap_or_else(new_id);
    let credentials = issuer.node(&args.name, id, &mut rand::random, now_secs());
    write_credentials(&credentials, &args.out, &format!("node {} with id {id}", args.name))
}

fn service(args: &Service) -> anyhow::Result<String> {
    let issuer = with_directory(&args.dir.dir, directory::issuer)?;
    let credentials = issuer.service(args.role, &mut rand::random, now_secs())?;
    write_credentials(&credentials, &args.out, &format!("the role {}", args.role))
}

fn write_credentials(credentials: &Credentials, out: &Out, subject: &str) -> anyhow::Result<String> {
    let Some(path) = &out.out else { return Ok(credentials.text()) };
    write_new(path, &credentials.text()).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(format!("made {} for {subject}, user {}\n", path.display(), credentials.claims.sub))
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
        "{user} is revoked. Copy {} to the NATS servers and reload them (nats-server --signal reload).\n",
        server.display()
    ))
}

/// Writes a new file that only its owner may read.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(SECRET_MODE).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Calls `action` with a function that reads files of the directory. Fails if an existing file cannot be read.
fn with_directory<T>(
    dir: &Path,
    action: impl FnOnce(nats_auth::Reader<'_>) -> Result<T, nats_auth::Error>,
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
    let result = action(&read);
    if let Some((name, error)) = unreadable.into_inner() {
        return Err(error).with_context(|| format!("cannot read {}", dir.join(name).display()));
    }
    result.with_context(|| format!("cannot use the directory {}", dir.display()))
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

    fn initialised(path: &Path) -> Report {
        init(&Init { dir: dir(path), json: false }).unwrap()
    }

    #[test]
    fn init_makes_what_is_missing_and_keeps_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        initialised(home.path());
        assert_eq!(mode(&home.path().join("agent/node.key")), 0o600);
        assert_eq!(mode(&home.path().join("nats/auth.conf")), 0o644);
        let before = std::fs::read_to_string(home.path().join("nats/auth.conf")).unwrap();
        std::fs::remove_file(home.path().join("api/nats.creds")).unwrap();
        initialised(home.path());
        assert_eq!(std::fs::read_to_string(home.path().join("nats/auth.conf")).unwrap(), before);
        assert!(home.path().join("api/nats.creds").is_file());
    }

    #[test]
    fn a_nodes_credentials_name_the_node_and_no_file_is_overwritten() {
        let home = tempfile::tempdir().unwrap();
        initialised(home.path());
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
