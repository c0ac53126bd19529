//! A private PostgreSQL: its files, settings, start and stop, and new databases in it.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use dir_lock::DirLock;
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, User},
};
use tokio::{
    sync::OnceCell,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::{
    error::Error,
    guard::{Guard, Launch, STOP_TIMEOUT},
    host,
    paused::Paused,
    programs, template,
};

const SERVER: &str = "postgres";
/// Files for TLS in the data directory.
const CERTIFICATE_FILE: &str = "server.crt";
const KEY_FILE: &str = "server.key";
/// The database that initdb creates.
pub(crate) const DATABASE: &str = "postgres";
/// The server may have to replay much log after a crash.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which files are polled.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// Maximum number of starts if another process takes the chosen port first.
const STARTS_MAX: u32 = 20;
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Settings of a [`Postgres`].
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The port to listen on; any free port if `None`.
    pub port: Option<u16>,
    /// Maximum number of connections.
    pub max_connections: u16,
    /// Whether commits are flushed to disk. Without it, commits survive the death of the server, but not a crash of the
    /// host.
    pub survives_power_loss: bool,
    /// Certificate and key for TLS, which is off if `None`. With TLS, the server also listens on
    /// [`Certificate::ELSEWHERE`].
    pub certificate: Option<Certificate>,
    /// Where a temporary server has its files; the system's directory for temporary files if `None`.
    pub parent: Option<PathBuf>,
}

/// A server certificate and its private key, both in PEM.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// The private key of the certificate.
    pub key: String,
}

impl Certificate {
    /// An address of this host that certificates usually do not contain.
    pub const ELSEWHERE: &str = "127.0.0.2";
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            port: None,
            max_connections: 200,
            survives_power_loss: true,
            certificate: None,
            parent: None,
        }
    }
}

/// A running PostgreSQL. It stops when this value is dropped or the process dies.
pub struct Postgres {
    files: Files,
    port: u16,
    guard: Guard,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts a server with persistent files in `dir/postgres`, which are created on first use.
    pub async fn start(dir: &Path) -> Result<Postgres, Error> {
        Postgres::start_with(dir, PostgresOptions::default()).await
    }

    /// Starts a server with persistent files in `dir/postgres`, and with these options.
    pub async fn start_with(dir: &Path, options: PostgresOptions) -> Result<Postgres, Error> {
        let dir = dir.to_owned();
        let files = blocking(move || Files::persistent(&dir, options)).await?;
        let (port, guard) = files.launch().await?;
        Ok(Postgres { files, port, guard, databases: AtomicU32::new(0) })
    }

    /// Starts a server with temporary files, whose commits are not flushed to disk.
    pub async fn temporary() -> Result<Postgres, Error> {
        Postgres::temporary_with(PostgresOptions { survives_power_loss: false, ..PostgresOptions::default() })
            .await
    }

    /// Starts a server with temporary files, and with these options.
    pub async fn temporary_with(options: PostgresOptions) -> Result<Postgres, Error> {
        let user = host::postgres_user()?;
        let home = host::temporary_path(SERVER, user.as_ref(), options.parent.as_deref())?;
        let directory_guard = Guard::for_directory(&home, user.as_ref()).await?;
        let files = blocking(move || Files::temporary(home, user, options)).await?;
        let (port, guard) = files.launch().await?;
        directory_guard.keep_files();
        Ok(Postgres { files, port, guard, databases: AtomicU32::new(0) })
    }

    /// Starts a standby of this server, with temporary files. It follows asynchronously: a commit does not wait for it.
    pub async fn standby(&self) -> Result<Postgres, Error> {
        let Files { user, bin, password, options, .. } = &self.files;
        let home = host::temporary_path(SERVER, user.as_ref(), options.parent.as_deref())?;
        let directory_guard = Guard::for_directory(&home, user.as_ref()).await?;
        let options = PostgresOptions { port: None, ..options.clone() };
        let (user, bin, password, primary) = (user.clone(), bin.clone(), password.clone(), self.port);
        let files = blocking(move || Files::of_standby(home, user, bin, &password, primary, options)).await?;
        let (port, guard) = files.launch().await?;
        directory_guard.keep_files();
        Ok(Postgres { files, port, guard, databases: AtomicU32::new(0) })
    }

    /// Fails over to a standby. This server is killed, and the standby, which may be dead, takes over its URL and
    /// becomes the primary. Everything that the standby had not received is lost.
    pub async fn fail_over(&mut self, mut standby: Postgres) -> Result<(), Error> {
        self.kill9().await?;
        standby.kill9().await?;
        standby.port = self.port;
        standby.restart().await?;
        std::mem::replace(self, standby).stop().await?;
        self.run_script("select pg_promote();".to_owned()).await
    }

    /// A temporary server that all tests of a process share. It stops with the process.
    pub async fn shared() -> Result<&'static Postgres, Error> {
        static SHARED: OnceCell<Postgres> = OnceCell::const_new();
        SHARED.get_or_try_init(Postgres::temporary).await
    }

    /// The URL of the initial database, with the administrator's name and password.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, database: &str) -> String {
        let Postgres { files, port, .. } = self;
        format!("postgres://{}:{}@127.0.0.1:{port}/{database}", template::USER, files.password)
    }

    /// The URL of the same database as [`Self::url`] for another role. `login` is the role's name, optionally with a
    /// `:` and its password.
    pub fn url_as(&self, login: &str) -> String {
        format!("postgres://{login}@127.0.0.1:{}/{DATABASE}", self.port)
    }

    /// Runs a script with psql as the administrator, in the database of [`Self::url`].
    pub async fn run_script(&self, script: String) -> Result<(), Error> {
        let (bin, port, password) =
            (self.files.bin.clone(), self.port.to_string(), self.files.password.clone());
        let (file, user) = (self.files.home.join("script.sql"), self.files.user.clone());
        blocking(move || {
            host::write_private(&file, &script, user.as_ref())?;
            let mut arguments =
                vec!["-h", "127.0.0.1", "-p", &port, "-U", template::USER, "-d", DATABASE, "-w"];
            arguments.extend(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file"]);
            arguments.push(template::text(&file)?);
            programs::run("psql", &bin, &arguments, &[("PGPASSWORD", &password)], None).map(drop)
        })
        .await
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id of the server while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.guard.pid().map(|pid| pid.as_raw().unsigned_abs())
    }

    /// Creates an empty database, and returns its URL.
    pub async fn new_database(&self) -> Result<String, Error> {
        let count = self.databases.fetch_add(1, Ordering::Relaxed);
        // The files may be persistent, and another process may get this process's pid.
        let name = format!("fresh_{}_{count}_{}", std::process::id(), &host::password()?[..8]);
        let (bin, port, password) =
            (self.files.bin.clone(), self.port.to_string(), self.files.password.clone());
        let database = name.clone();
        blocking(move || {
            let arguments = ["-h", "127.0.0.1", "-p", &port, "-U", template::USER, "-w", &database];
            programs::run("createdb", &bin, &arguments, &[("PGPASSWORD", &password)], None)
        })
        .await?;
        Ok(self.url_of(&name))
    }

    /// Kills the server and all its children with SIGKILL, and waits until it is dead. Its files stay.
    pub async fn kill9(&self) -> Result<(), Error> {
        let ended = self.guard.end_with(Signal::SIGKILL).await;
        // Children would end by themselves, but only after their current work.
        for pid in processes_in(&self.files.home.join("data")) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        ended
    }

    /// Suspends the server and all its children until the returned value is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(processes_in(&self.files.home.join("data")))
    }

    /// Starts the server again, with the same port and files. A running server is stopped first.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.guard.end_with(Signal::SIGINT).await?;
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
    bin: PathBuf,
    user: Option<User>,
    password: String,
    options: PostgresOptions,
    temporary: bool,
    /// Prevents that a second server uses the same files while this process has them.
    _lock: DirLock,
}

impl Files {
    fn persistent(dir: &Path, options: PostgresOptions) -> Result<Files, Error> {
        let user = host::postgres_user()?;
        let home = host::server_dir(dir, SERVER, user.as_ref())?;
        let lock = host::lock(&home)?;
        let version = fs::read_to_string(home.join("data/PG_VERSION")).ok();
        let bin = programs::postgres(version.as_ref().and_then(|version| version.trim().parse().ok()))?;
        if version.is_none() {
            template::create(&home, &bin, user.as_ref(), options.survives_power_loss)?;
        }
        Files::open(home, bin, user, options, false, lock)
    }

    fn temporary(home: PathBuf, user: Option<User>, options: PostgresOptions) -> Result<Files, Error> {
        let bin = programs::postgres(None)?;
        host::create_private_dir(&home, user.as_ref())?;
        template::copy(&home, &bin, user.as_ref())?;
        let lock = host::lock(&home)?;
        Files::open(home, bin, user, options, true, lock)
    }

    /// The files of a standby of the server on the port `primary`, which runs.
    fn of_standby(
        home: PathBuf,
        user: Option<User>,
        bin: PathBuf,
        password: &str,
        primary: u16,
        options: PostgresOptions,
    ) -> Result<Files, Error> {
        host::create_private_dir(&home, user.as_ref())?;
        host::write_private(&home.join("password"), password, user.as_ref())?;
        let (data, port) = (home.join("data"), primary.to_string());
        let mut arguments = vec!["-h", "127.0.0.1", "-p", &port, "-U", template::USER, "-w"];
        arguments.extend(["--write-recovery-conf", "--checkpoint", "fast", "--no-sync", "--pgdata"]);
        arguments.push(template::text(&data)?);
        programs::run("pg_basebackup", &bin, &arguments, &[("PGPASSWORD", password)], user.as_ref())?;
        let lock = host::lock(&home)?;
        Files::open(home, bin, user, options, true, lock)
    }

    fn open(
        home: PathBuf,
        bin: PathBuf,
        user: Option<User>,
        options: PostgresOptions,
        temporary: bool,
        lock: DirLock,
    ) -> Result<Files, Error> {
        let file = home.join("password");
        let password = fs::read_to_string(&file).map_err(Error::file("read", file))?;
        Ok(Files { home, bin, user, password, options, temporary, _lock: lock })
    }

    /// Starts the server, and waits until it accepts connections.
    async fn launch(&self) -> Result<(u16, Guard), Error> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = self.options.port.map_or_else(|| host::free_port(SERVER), Ok)?;
            let log = self.home.join("postgres.log");
            let guard = self.launch_on(port, &log).await?;
            let Err(reason) = guard.until(self.ready(), READY_TIMEOUT).await else {
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

    async fn launch_on(&self, port: u16, log: &Path) -> Result<Guard, Error> {
        let data = self.home.join("data");
        self.wait_for_predecessor(&data).await?;
        host::rotate_log(log)?;
        if let Some(Certificate { certificate, key }) = &self.options.certificate {
            host::write_private(&data.join(CERTIFICATE_FILE), certificate, self.user.as_ref())?;
            host::write_private(&data.join(KEY_FILE), key, self.user.as_ref())?;
        }
        host::write_private(&data.join("postgresql.conf"), &self.settings(port), self.user.as_ref())?;
        Guard::launch(Launch {
            server: SERVER,
            program: &self.bin.join("postgres"),
            arguments: vec!["-D".to_owned(), template::text(&data)?.to_owned()],
            environment: &[],
            user: self.user.as_ref(),
            stop: Signal::SIGINT,
            log: log.to_owned(),
            remove: self.temporary.then(|| self.home.clone()),
        })
        .await
    }

    /// Waits until the processes of an earlier server have ended: its guard is stopping it, or it was killed and its
    /// children have not noticed yet. Then removes its lock file. The pid in the lock file may meanwhile belong to another
    /// process, which the new server would mistake for a running server.
    async fn wait_for_predecessor(&self, data: &Path) -> Result<(), Error> {
        let gone = async {
            while !processes_in(data).is_empty() {
                sleep(POLL_EVERY).await;
            }
        };
        timeout(STOP_TIMEOUT, gone).await.map_err(|_| Error::InUse { path: self.home.clone() })?;
        let stale = data.join("postmaster.pid");
        match fs::remove_file(&stale) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", stale)(error)),
            _ => Ok(()),
        }
    }

    fn settings(&self, port: u16) -> String {
        let PostgresOptions { max_connections, survives_power_loss, .. } = self.options;
        let (extra_address, tls) = match self.options.certificate {
            None => (String::new(), String::new()),
            Some(_) => (
                format!(",{}", Certificate::ELSEWHERE),
                format!("ssl = on\nssl_cert_file = '{CERTIFICATE_FILE}'\nssl_key_file = '{KEY_FILE}'\n"),
            ),
        };
        let fsync = if survives_power_loss { "on" } else { "off" };
        // Memory-mapped files in the temporary directory need no further cleanup after a kill.
        let memory = if self.temporary { "mmap" } else { "posix" };
        format!(
            "# Rewritten at every start.\n\
             listen_addresses = '127.0.0.1{extra_address}'\n\
             port = {port}\n\
             unix_socket_directories = ''\n\
             max_connections = {max_connections}\n\
             synchronous_commit = on\n\
             fsync = {fsync}\n\
             dynamic_shared_memory_type = {memory}\n\
             timezone = 'UTC'\n\
             log_timezone = 'UTC'\n\
             {tls}"
        )
    }

    /// Waits until the server's lock file says that it accepts connections, if only for reading as a standby does.
    async fn ready(&self) {
        let file = self.home.join("data/postmaster.pid");
        let is_ready = |lines: &str| {
            lines.lines().nth(7).is_some_and(|status| matches!(status.trim(), "ready" | "standby"))
        };
        while !fs::read_to_string(&file).is_ok_and(|lines| is_ready(&lines)) {
            sleep(POLL_EVERY).await;
        }
    }
}

/// The processes with this working directory: the server and all its children, each of which leads its own group.
fn processes_in(data: &Path) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let works =
        |process: &fs::DirEntry| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data);
    let pid = |process: fs::DirEntry| process.file_name().to_str()?.parse().ok().map(Pid::from_raw);
    processes.filter(works).filter_map(pid).collect()
}

/// Runs blocking work on a thread for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.expect("the work does not panic, and the task is not cancelled")
}
