//! A private nats-server: its settings, start and stop. It stores nothing but its log.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use dir_lock::DirLock;
use nats_auth::{Issuer, server};
use nix::sys::signal::Signal;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    time::sleep,
};
use wire::{Role, permissions::Purpose};

use crate::{
    error::Error,
    guard::{Guard, Launch},
    host,
    paused::Paused,
    programs,
};

const SERVER: &str = "nats-server";
const USER: &str = "drover";
const READY_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_EVERY: Duration = Duration::from_millis(10);
const STARTS_MAX: u32 = 20;
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum size of a message in bytes: 8 MiB for the body, and room for headers.
const MAX_PAYLOAD: u32 = 9 << 20;
/// Settings of Go's garbage collector. The server's heap is a few megabytes, and Go by default collects garbage whenever
/// the heap has doubled; under load that takes half of the server's time. With these settings, the heap may grow tenfold
/// between two collections, up to a limit.
const GC_SETTINGS: &[(&str, &str)] = &[("GOGC", "1000"), ("GOMEMLIMIT", "512MiB")];
/// Maximum number of bytes that wait for a slow client before the server disconnects it.
const MAX_PENDING: u32 = 64 << 20;

/// Settings of a [`Nats`].
#[derive(Debug, Clone, Default)]
pub struct NatsOptions {
    /// The port to listen on; any free port if `None`.
    pub port: Option<u16>,
    /// How clients log in.
    pub access: NatsAccess,
    /// Files for TLS; TLS is off if `None`.
    pub tls: Option<NatsTls>,
    /// Where a temporary server has its files; the system's directory for temporary files if `None`.
    pub parent: Option<PathBuf>,
}

/// Files of a [`Nats`] with TLS.
#[derive(Debug, Clone)]
pub struct NatsTls {
    /// Certificate of the server, for 127.0.0.1.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Certificate of the authority that signed the server's certificate.
    pub ca: PathBuf,
}

/// How clients of a [`Nats`] log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatsAccess {
    /// With credentials, which have the permissions of their role.
    Credentials(Purpose),
    /// With the password in the URL, which has all permissions.
    Password,
}

impl Default for NatsAccess {
    fn default() -> Self {
        Self::Credentials(Purpose::Simulation)
    }
}

/// A running nats-server. It stops when this value is dropped or the process dies.
pub struct Nats {
    files: Files,
    port: u16,
    guard: Guard,
}

impl Nats {
    /// Starts a server with its settings and its log in `dir/nats`.
    pub async fn start(dir: &Path) -> Result<Nats, Error> {
        Nats::start_with(dir, NatsOptions::default()).await
    }

    /// Starts a server with its settings and its log in `dir/nats`, and with these options.
    pub async fn start_with(dir: &Path, options: NatsOptions) -> Result<Nats, Error> {
        let files = Files::new(host::server_dir(dir, "nats", None)?, options, false)?;
        let (port, guard) = files.launch().await?;
        Ok(Nats { files, port, guard })
    }

    /// Starts a server with temporary files.
    pub async fn temporary() -> Result<Nats, Error> {
        Nats::temporary_with(NatsOptions::default()).await
    }

    /// Starts a server with temporary files, and with these options.
    pub async fn temporary_with(options: NatsOptions) -> Result<Nats, Error> {
        let home = host::temporary_path("nats", None, options.parent.as_deref())?;
        let directory_guard = Guard::for_directory(&home, None).await?;
        host::create_private_dir(&home, None)?;
        let files = Files::new(home, options, true)?;
        let (port, guard) = files.launch().await?;
        directory_guard.keep_files();
        Ok(Nats { files, port, guard })
    }

    /// The URL to connect to; with user and password if these are required.
    pub fn url(&self) -> String {
        let login = match &self.files.login {
            Login::Password(password) => format!("{USER}:{password}@"),
            Login::Credentials(_) => String::new(),
        };
        let scheme = if self.files.options.tls.is_some() { "tls" } else { "nats" };
        format!("{scheme}://{login}127.0.0.1:{}", self.port)
    }

    /// The file with the authority's certificate; `None` without TLS.
    pub fn ca(&self) -> Option<&Path> {
        self.files.options.tls.as_ref().map(|tls| tls.ca.as_path())
    }

    /// The file with the credentials of a role; `None` if the server requires a password.
    ///
    /// # Errors
    /// If there are no credentials for this role, or the file cannot be written.
    pub fn credentials(&self, role: Role) -> Result<Option<PathBuf>, Error> {
        let Login::Credentials(issuer) = &self.files.login else { return Ok(None) };
        let path = self.files.home.join(format!("{role}.creds"));
        if !path.exists() {
            let mut random = Seeds::generate()?;
            let credentials =
                issuer.service(role, &mut || random.next(), now_secs()).map_err(Error::Identity)?;
            host::write_private(&path, &credentials.text(), None)?;
        }
        Ok(Some(path))
    }

    /// The file with the key that signs credentials of nodes; `None` if the server requires a password.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn node_key(&self) -> Result<Option<PathBuf>, Error> {
        let Login::Credentials(issuer) = &self.files.login else { return Ok(None) };
        let path = self.files.home.join("node.key");
        host::write_private(&path, &issuer.node_key().text(), None)?;
        Ok(Some(path))
    }

    /// The keys that the server trusts; `None` if the server requires a password.
    pub fn issuer(&self) -> Option<&Issuer> {
        match &self.files.login {
            Login::Credentials(issuer) => Some(issuer),
            Login::Password(_) => None,
        }
    }

    /// Process id of the server while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.guard.pid().map(|pid| pid.as_raw().unsigned_abs())
    }

    /// Kills the server with SIGKILL, and waits until it is dead.
    pub async fn kill9(&self) -> Result<(), Error> {
        self.guard.end_with(Signal::SIGKILL).await
    }

    /// Suspends the server until the returned value is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(self.guard.pid().into_iter().collect())
    }

    /// Starts the server again under the same URL. A running server is stopped first.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.guard.end_with(Signal::SIGTERM).await?;
        self.files.options.port = Some(self.port);
        let (_, guard) = self.files.launch().await?;
        std::mem::replace(&mut self.guard, guard).keep_files();
        Ok(())
    }

    /// Stops the server, and waits until its process and temporary files are gone.
    pub async fn stop(self) -> Result<(), Error> {
        self.guard.stop().await
    }
}

/// Directory and settings of one server.
struct Files {
    home: PathBuf,
    program: PathBuf,
    login: Login,
    options: NatsOptions,
    temporary: bool,
    /// Prevents that a second server overwrites the settings.
    _lock: DirLock,
}

/// How clients log in.
enum Login {
    Password(String),
    Credentials(Box<Issuer>),
}

impl Login {
    fn new(access: NatsAccess) -> Result<Login, Error> {
        Ok(match access {
            NatsAccess::Password => Login::Password(host::password()?),
            NatsAccess::Credentials(purpose) => {
                let mut random = Seeds::generate()?;
                Login::Credentials(Box::new(Issuer::new(purpose, &mut || random.next())))
            }
        })
    }

    /// The section about authentication in the server's settings.
    fn settings(&self) -> String {
        match self {
            Login::Password(password) => {
                format!("authorization {{ user: \"{USER}\", password: \"{password}\" }}\n")
            }
            Login::Credentials(issuer) => server::configuration(issuer, &[], now_secs()),
        }
    }
}

/// Random seeds for the keys of one operation.
struct Seeds(Vec<[u8; 32]>);

impl Seeds {
    fn generate() -> Result<Seeds, Error> {
        (0..KEYS_MAX).map(|_| host::random()).collect::<Result<_, _>>().map(Seeds)
    }

    fn next(&mut self) -> [u8; 32] {
        self.0.pop().expect("an operation creates at most KEYS_MAX keys")
    }
}

/// Maximum number of keys that one operation creates: an operator, two accounts and two signing keys.
const KEYS_MAX: usize = 5;

/// The time at which credentials are signed.
#[expect(clippy::disallowed_methods, reason = "a private server has no caller that provides the time")]
fn now_secs() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or_default()
}

impl Files {
    fn new(home: PathBuf, options: NatsOptions, temporary: bool) -> Result<Files, Error> {
        let lock = host::lock(&home)?;
        let (program, login) = (programs::nats_server()?, Login::new(options.access)?);
        // Credentials of an earlier run were signed with other keys.
        for role in Role::ALL {
            host::remove_file(&home.join(format!("{role}.creds")))?;
        }
        Ok(Files { home, program, login, options, temporary, _lock: lock })
    }

    async fn launch(&self) -> Result<(u16, Guard), Error> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = self.options.port.map_or_else(|| host::free_port(SERVER), Ok)?;
            // The name distinguishes this server from another one that took the port first.
            let name = host::password()?;
            let log = self.home.join("nats.log");
            let guard = self.launch_on(port, &name, &log).await?;
            let Err(reason) = guard.until(wait_for_greeting(port, &name), READY_TIMEOUT).await else {
                tracing::info!(server = SERVER, port, directory = %self.home.display(), "private server started");
                return Ok((port, guard));
            };
            let log = host::log_tail(&log);
            // The files belong to this process, or to the guard of the temporary directory.
            guard.end_with(Signal::SIGKILL).await?;
            guard.keep_files();
            let taken = host::port_was_taken(&log);
            match taken && attempts < STARTS_MAX {
                true => sleep(RETRY_DELAY).await,
                false if taken => return Err(Error::PortTaken { server: SERVER, port }),
                false => return Err(Error::NotStarted { server: SERVER, reason, log }),
            }
        }
    }

    async fn launch_on(&self, port: u16, name: &str, log: &Path) -> Result<Guard, Error> {
        host::rotate_log(log)?;
        let settings = self.home.join("nats.conf");
        // The password is in a file, because the process list would show it on the command line.
        let text = format!(
            "# Rewritten at every start.\n\
             host: \"127.0.0.1\"\n\
             port: {port}\n\
             server_name: \"{name}\"\n\
             max_payload: {MAX_PAYLOAD}\n\
             max_pending: {MAX_PENDING}\n\
             {}{}",
            self.login.settings(),
            self.options.tls.as_ref().map(tls_settings).unwrap_or_default(),
        );
        host::write_private(&settings, &text, None)?;
        Guard::launch(Launch {
            server: SERVER,
            program: &self.program,
            arguments: vec!["-c".to_owned(), settings.to_string_lossy().into_owned()],
            environment: GC_SETTINGS,
            user: None,
            stop: Signal::SIGTERM,
            log: log.to_owned(),
            remove: self.temporary.then(|| self.home.clone()),
        })
        .await
    }
}

/// The section about TLS in the server's settings.
fn tls_settings(tls: &NatsTls) -> String {
    let (certificate, key) = (tls.certificate.display(), tls.key.display());
    format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\n")
}

/// Waits until a server with this name greets on the port.
async fn wait_for_greeting(port: u16, name: &str) {
    while !greeting(port).await.is_ok_and(|line| line.contains(name)) {
        sleep(POLL_EVERY).await;
    }
}

/// Reads the first line that a nats-server sends to every client.
async fn greeting(port: u16) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?).read_line(&mut line).await?;
    Ok(line)
}
