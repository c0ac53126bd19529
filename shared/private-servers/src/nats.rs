//! A private nats-server: its settings, and when it is ready. It keeps nothing but its log.

use std::{
    fs::File,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use nats_auth::{Issuer, server};
use nix::{fcntl::Flock, sys::signal::Signal};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    time::sleep,
};
use wire::{Role, permissions::Purpose};

use crate::{
    error::Error,
    guard::{Guard, Launch},
    paused::Paused,
    places, programs,
};

const SERVER: &str = "nats-server";
const USER: &str = "drover";
const READY_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const STARTS_TRIED: u32 = 20;
const START_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Largest message in bytes: the wire's 8 MiB and room for headers.
const MAX_PAYLOAD: u32 = 9 << 20;
/// Its own memory is a few megabytes, which Go sweeps each time that as much again has come: under load that is half of all
/// that the server does. Ten times as much may come, up to a limit.
const COLLECT: &[(&str, &str)] = &[("GOGC", "1000"), ("GOMEMLIMIT", "512MiB")];
/// Bytes that may wait for one slow reader before it is cut off.
const MAX_PENDING: u32 = 64 << 20;

/// How a [`Nats`] runs.
#[derive(Debug, Clone, Default)]
pub struct NatsOptions {
    /// The port to listen on; without one, any that is free.
    pub port: Option<u16>,
    /// Who is let in.
    pub access: NatsAccess,
    /// With which certificate it speaks TLS; without one it does not.
    pub tls: Option<NatsTls>,
}

/// The files of a [`Nats`] that speaks TLS.
#[derive(Debug, Clone)]
pub struct NatsTls {
    /// Its certificate, for 127.0.0.1.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// The certificate of the authority that signed it.
    pub ca: PathBuf,
}

/// Whom a [`Nats`] lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatsAccess {
    /// Those with credentials, who may do what their role may.
    Credentials(Purpose),
    /// Those who know the password in the URL, who may do everything.
    Password,
}

impl Default for NatsAccess {
    fn default() -> Self {
        Self::Credentials(Purpose::Simulation)
    }
}

/// A running nats-server that stops when this value or its process goes.
pub struct Nats {
    files: Files,
    port: u16,
    guard: Guard,
}

impl Nats {
    /// Starts one whose settings and log are in `dir/nats`.
    pub async fn start(dir: &Path) -> Result<Nats, Error> {
        Nats::start_with(dir, NatsOptions::default()).await
    }

    /// Starts one whose settings and log are in `dir/nats`, with settings of one's own.
    pub async fn start_with(dir: &Path, options: NatsOptions) -> Result<Nats, Error> {
        let files = Files::new(places::home(dir, "nats", None)?, options, false)?;
        let (port, guard) = files.launch().await?;
        Ok(Nats { files, port, guard })
    }

    /// Starts one whose files go when it goes.
    pub async fn temporary() -> Result<Nats, Error> {
        Nats::temporary_with(NatsOptions::default()).await
    }

    /// Starts one whose files go when it goes, with settings of one's own.
    pub async fn temporary_with(options: NatsOptions) -> Result<Nats, Error> {
        let home = places::temporary("nats", None)?;
        let over_files = Guard::over_files(&home, None).await?;
        places::make_private(&home, None)?;
        let files = Files::new(home, options, true)?;
        let (port, guard) = files.launch().await?;
        over_files.keep_files();
        Ok(Nats { files, port, guard })
    }

    /// The URL to connect to; with user and password where that is how it lets in.
    pub fn url(&self) -> String {
        let login = match &self.files.login {
            Login::Password(password) => format!("{USER}:{password}@"),
            Login::Credentials(_) => String::new(),
        };
        let scheme = if self.files.options.tls.is_some() { "tls" } else { "nats" };
        format!("{scheme}://{login}127.0.0.1:{}", self.port)
    }

    /// The file with the authority's certificate, if it speaks TLS.
    pub fn ca(&self) -> Option<&Path> {
        self.files.options.tls.as_ref().map(|tls| tls.ca.as_path())
    }

    /// The file with the credentials of a role, and `None` where a password lets in.
    ///
    /// # Errors
    /// If the role has none, or the file cannot be written.
    pub fn credentials(&self, role: Role) -> Result<Option<PathBuf>, Error> {
        let Login::Credentials(issuer) = &self.files.login else { return Ok(None) };
        let path = self.files.home.join(format!("{role}.creds"));
        if !path.exists() {
            let mut random = Seeds::draw()?;
            let credentials =
                issuer.service(role, &mut || random.next(), now_secs()).map_err(Error::Identity)?;
            places::write_private(&path, &credentials.text(), None)?;
        }
        Ok(Some(path))
    }

    /// The file with the key that signs for nodes, and `None` where a password lets in.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn node_key(&self) -> Result<Option<PathBuf>, Error> {
        let Login::Credentials(issuer) = &self.files.login else { return Ok(None) };
        let path = self.files.home.join("node.key");
        places::write_private(&path, &issuer.node_key().text(), None)?;
        Ok(Some(path))
    }

    /// The keys that it trusts; `None` where a password lets in.
    pub fn issuer(&self) -> Option<&Issuer> {
        match &self.files.login {
            Login::Credentials(issuer) => Some(issuer),
            Login::Password(_) => None,
        }
    }

    /// The process id of the server, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.guard.pid().map(|pid| pid.as_raw().unsigned_abs())
    }

    /// Kills the server with no chance to clean up, and waits until it is dead.
    pub async fn kill9(&self) -> Result<(), Error> {
        self.guard.end_with(Signal::SIGKILL).await
    }

    /// Stops the server where it is, until what is returned is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(self.guard.pid().into_iter().collect())
    }

    /// Starts the server again under the same URL; one that still runs is stopped in order first.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.guard.end_with(Signal::SIGTERM).await?;
        self.files.options.port = Some(self.port);
        let (_, guard) = self.files.launch().await?;
        std::mem::replace(&mut self.guard, guard).keep_files();
        Ok(())
    }

    /// Stops the server in order, and waits until it and what was temporary are gone.
    pub async fn stop(self) -> Result<(), Error> {
        self.guard.stop().await
    }
}

/// One server's directory and how it is to be run there.
struct Files {
    home: PathBuf,
    program: PathBuf,
    login: Login,
    options: NatsOptions,
    temporary: bool,
    /// Against a second server that would overwrite the settings.
    _lock: Flock<File>,
}

/// How it lets in.
enum Login {
    Password(String),
    Credentials(Box<Issuer>),
}

impl Login {
    fn new(access: NatsAccess) -> Result<Login, Error> {
        Ok(match access {
            NatsAccess::Password => Login::Password(places::password()?),
            NatsAccess::Credentials(purpose) => {
                let mut random = Seeds::draw()?;
                Login::Credentials(Box::new(Issuer::new(purpose, &mut || random.next())))
            }
        })
    }

    /// The lines about it in the server's settings.
    fn settings(&self) -> String {
        match self {
            Login::Password(password) => {
                format!("authorization {{ user: \"{USER}\", password: \"{password}\" }}\n")
            }
            Login::Credentials(issuer) => server::configuration(issuer, &[], now_secs()),
        }
    }
}

/// Random bytes for as many keys as are made at once.
struct Seeds(Vec<[u8; 32]>);

impl Seeds {
    fn draw() -> Result<Seeds, Error> {
        (0..KEYS_MAX).map(|_| places::random()).collect::<Result<_, _>>().map(Seeds)
    }

    fn next(&mut self) -> [u8; 32] {
        self.0.pop().expect("no more keys are made at once")
    }
}

/// The most keys that are made at once: operator, two accounts and two signing keys.
const KEYS_MAX: usize = 5;

/// When credentials are signed.
#[expect(clippy::disallowed_methods, reason = "a private server is the rim, and nobody gives it the time")]
fn now_secs() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or_default()
}

impl Files {
    fn new(home: PathBuf, options: NatsOptions, temporary: bool) -> Result<Files, Error> {
        let lock = places::lock(&home)?;
        let (program, login) = (programs::nats_server()?, Login::new(options.access)?);
        // Of an earlier run, which had other keys.
        for role in Role::ALL {
            places::remove_file(&home.join(format!("{role}.creds")))?;
        }
        Ok(Files { home, program, login, options, temporary, _lock: lock })
    }

    async fn launch(&self) -> Result<(u16, Guard), Error> {
        let mut tried = 0;
        loop {
            tried += 1;
            let port = self.options.port.map_or_else(|| places::free_port(SERVER), Ok)?;
            // Tells this server from another that took the port first.
            let name = places::password()?;
            let log = self.home.join("nats.log");
            let guard = self.launch_on(port, &name, &log).await?;
            let Err(reason) = guard.until(greets(port, &name), READY_WITHIN).await else {
                tracing::info!(server = SERVER, port, directory = %self.home.display(), "private server started");
                return Ok((port, guard));
            };
            let log = places::log_tail(&log);
            // The files are this process's still, or those of the guard over a temporary directory.
            guard.end_with(Signal::SIGKILL).await?;
            guard.keep_files();
            let taken = places::port_was_taken(&log);
            match taken && tried < STARTS_TRIED {
                true => sleep(START_AGAIN_AFTER).await,
                false if taken => return Err(Error::PortTaken { server: SERVER, port }),
                false => return Err(Error::NotStarted { server: SERVER, reason, log }),
            }
        }
    }

    async fn launch_on(&self, port: u16, name: &str, log: &Path) -> Result<Guard, Error> {
        places::turn_log(log)?;
        let settings = self.home.join("nats.conf");
        // In a file, where the list of processes does not show the password.
        let text = format!(
            "# Written at every start.\n\
             host: \"127.0.0.1\"\n\
             port: {port}\n\
             server_name: \"{name}\"\n\
             max_payload: {MAX_PAYLOAD}\n\
             max_pending: {MAX_PENDING}\n\
             {}{}",
            self.login.settings(),
            self.options.tls.as_ref().map(tls_settings).unwrap_or_default(),
        );
        places::write_private(&settings, &text, None)?;
        Guard::launch(Launch {
            server: SERVER,
            program: &self.program,
            arguments: vec!["-c".to_owned(), settings.to_string_lossy().into_owned()],
            environment: COLLECT,
            user: None,
            stop: Signal::SIGTERM,
            log: log.to_owned(),
            remove: self.temporary.then(|| self.home.clone()),
        })
        .await
    }
}

/// The lines about TLS in the server's settings.
fn tls_settings(tls: &NatsTls) -> String {
    let (certificate, key) = (tls.certificate.display(), tls.key.display());
    format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\n")
}

/// Waits until the server of that name greets on the port.
async fn greets(port: u16, name: &str) {
    while !greeting(port).await.is_ok_and(|line| line.contains(name)) {
        sleep(LOOK_EVERY).await;
    }
}

/// The line with which every nats-server begins.
async fn greeting(port: u16) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?).read_line(&mut line).await?;
    Ok(line)
}
