//! A private PostgreSQL: its files, its settings, when it is ready, and fresh databases in it.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use nix::{
    fcntl::Flock,
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
    guard::{Guard, Launch, STOP_WITHIN},
    paused::Paused,
    places, programs, template,
};

const SERVER: &str = "postgres";
/// Files of TLS in the directory of the data.
const CERTIFICATE_FILE: &str = "server.crt";
const KEY_FILE: &str = "server.key";
/// The database that initdb makes.
pub(crate) const DATABASE: &str = "postgres";
/// A crash may have left much log to replay.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How often files are looked at for a change that nothing announces.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Starts when another process was quicker to take the port.
const STARTS_TRIED: u32 = 20;
const START_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How a [`Postgres`] runs.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The port to listen on; without one, any that is free.
    pub port: Option<u16>,
    /// Most connections at once.
    pub max_connections: u16,
    /// Whether commits are flushed to disk. Without it they survive a killed server, but not the machine's crash.
    pub survives_power_loss: bool,
    /// Certificate and key for TLS, which is off without. With it, the server also listens on [`Certificate::ELSEWHERE`].
    pub certificate: Option<Certificate>,
}

/// A server's certificate and its private key, both in PEM.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Certificate {
    /// An address of this machine that no certificate is expected to name.
    pub const ELSEWHERE: &str = "127.0.0.2";
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions { port: None, max_connections: 200, survives_power_loss: true, certificate: None }
    }
}

/// A running PostgreSQL that stops when this value or its process goes.
pub struct Postgres {
    files: Files,
    port: u16,
    guard: Guard,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts one whose files stay in `dir/postgres`, made on first use.
    pub async fn start(dir: &Path) -> Result<Postgres, Error> {
        Postgres::start_with(dir, PostgresOptions::default()).await
    }

    /// Starts one whose files stay in `dir/postgres`, with settings of one's own.
    pub async fn start_with(dir: &Path, options: PostgresOptions) -> Result<Postgres, Error> {
        let dir = dir.to_owned();
        let files = blocking(move || Files::kept(&dir, options)).await?;
        let (port, guard) = files.launch().await?;
        Ok(Postgres { files, port, guard, databases: AtomicU32::new(0) })
    }

    /// Starts one whose files go when it goes, and whose commits need no disk.
    pub async fn temporary() -> Result<Postgres, Error> {
        Postgres::temporary_with(PostgresOptions { survives_power_loss: false, ..PostgresOptions::default() })
            .await
    }

    /// Starts one whose files go when it goes, with settings of one's own.
    pub async fn temporary_with(options: PostgresOptions) -> Result<Postgres, Error> {
        let user = places::postgres_user()?;
        let home = places::temporary(SERVER, user.as_ref())?;
        let over_files = Guard::over_files(&home, user.as_ref()).await?;
        let files = blocking(move || Files::temporary(home, user, options)).await?;
        let (port, guard) = files.launch().await?;
        over_files.keep_files();
        Ok(Postgres { files, port, guard, databases: AtomicU32::new(0) })
    }

    /// The one temporary server that all tests of a process share; it goes with the process.
    pub async fn shared() -> Result<&'static Postgres, Error> {
        static SHARED: OnceCell<Postgres> = OnceCell::const_new();
        SHARED.get_or_try_init(Postgres::temporary).await
    }

    /// The URL of the database that is there from the start, with the administrator's name and password.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, database: &str) -> String {
        let Postgres { files, port, .. } = self;
        format!("postgres://{}:{}@127.0.0.1:{port}/{database}", template::USER, files.password)
    }

    /// The URL of the same database as [`Self::url`] for a role that a script made; `login` is its name, perhaps with a `:` and its password.
    pub fn url_as(&self, login: &str) -> String {
        format!("postgres://{login}@127.0.0.1:{}/{DATABASE}", self.port)
    }

    /// Runs a script with psql as the administrator, in the database of [`Self::url`].
    pub async fn run_script(&self, script: String) -> Result<(), Error> {
        let (bin, port, password) =
            (self.files.bin.clone(), self.port.to_string(), self.files.password.clone());
        let (file, user) = (self.files.home.join("script.sql"), self.files.user.clone());
        blocking(move || {
            places::write_private(&file, &script, user.as_ref())?;
            let mut arguments =
                vec!["-h", "127.0.0.1", "-p", &port, "-U", template::USER, "-d", DATABASE, "-w"];
            arguments.extend(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file"]);
            arguments.push(template::text(&file)?);
            programs::run("psql", &bin, &arguments, &[("PGPASSWORD", &password)], None).map(drop)
        })
        .await
    }

    /// The process id of the server, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.guard.pid().map(|pid| pid.as_raw().unsigned_abs())
    }

    /// Makes an empty database and answers its URL.
    pub async fn new_database(&self) -> Result<String, Error> {
        let count = self.databases.fetch_add(1, Ordering::Relaxed);
        // The files may stay, and another process may be given this one's number.
        let name = format!("fresh_{}_{count}_{}", std::process::id(), &places::password()?[..8]);
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

    /// Kills the server and all its children with no chance to clean up, and waits until it is dead. Its files stay.
    pub async fn kill9(&self) -> Result<(), Error> {
        let ended = self.guard.end_with(Signal::SIGKILL).await;
        // Children would go by themselves, but not before they had ended what they were at.
        for pid in working_in(&self.files.home.join("data")) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        ended
    }

    /// Stops the server and all its children where they are, until what is returned is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(working_in(&self.files.home.join("data")))
    }

    /// Starts the server again, on the same port and files; one that still runs is stopped in order first.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.guard.end_with(Signal::SIGINT).await?;
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
    bin: PathBuf,
    user: Option<User>,
    password: String,
    options: PostgresOptions,
    temporary: bool,
    /// Against a second server on the same files, for as long as this process has them.
    _lock: Flock<File>,
}

impl Files {
    fn kept(dir: &Path, options: PostgresOptions) -> Result<Files, Error> {
        let user = places::postgres_user()?;
        let home = places::home(dir, SERVER, user.as_ref())?;
        let lock = places::lock(&home)?;
        let version = fs::read_to_string(home.join("data/PG_VERSION")).ok();
        let bin = programs::postgres(version.as_ref().and_then(|version| version.trim().parse().ok()))?;
        if version.is_none() {
            template::make(&home, &bin, user.as_ref(), options.survives_power_loss)?;
        }
        Files::opened(home, bin, user, options, false, lock)
    }

    fn temporary(home: PathBuf, user: Option<User>, options: PostgresOptions) -> Result<Files, Error> {
        let bin = programs::postgres(None)?;
        places::make_private(&home, user.as_ref())?;
        template::copy(&home, &bin, user.as_ref())?;
        let lock = places::lock(&home)?;
        Files::opened(home, bin, user, options, true, lock)
    }

    fn opened(
        home: PathBuf,
        bin: PathBuf,
        user: Option<User>,
        options: PostgresOptions,
        temporary: bool,
        lock: Flock<File>,
    ) -> Result<Files, Error> {
        let file = home.join("password");
        let password = fs::read_to_string(&file).map_err(Error::file("read", file))?;
        Ok(Files { home, bin, user, password, options, temporary, _lock: lock })
    }

    /// Starts the server and waits until it takes connections.
    async fn launch(&self) -> Result<(u16, Guard), Error> {
        let mut tried = 0;
        loop {
            tried += 1;
            let port = self.options.port.map_or_else(|| places::free_port(SERVER), Ok)?;
            let log = self.home.join("postgres.log");
            let guard = self.launch_on(port, &log).await?;
            let Err(reason) = guard.until(self.ready(), READY_WITHIN).await else {
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

    async fn launch_on(&self, port: u16, log: &Path) -> Result<Guard, Error> {
        let data = self.home.join("data");
        self.predecessor_gone(&data).await?;
        places::turn_log(log)?;
        if let Some(Certificate { certificate, key }) = &self.options.certificate {
            places::write_private(&data.join(CERTIFICATE_FILE), certificate, self.user.as_ref())?;
            places::write_private(&data.join(KEY_FILE), key, self.user.as_ref())?;
        }
        places::write_private(&data.join("postgresql.conf"), &self.settings(port), self.user.as_ref())?;
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

    /// Waits for processes of an earlier server that are about to go: its guard is stopping it, or it was killed and
    /// its children have not noticed yet. Then its lock file means nothing: the number in it may be anybody's, whom the
    /// new server would take for a server that runs.
    async fn predecessor_gone(&self, data: &Path) -> Result<(), Error> {
        let gone = async {
            while !working_in(data).is_empty() {
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(STOP_WITHIN, gone).await.map_err(|_| Error::InUse { path: self.home.clone() })?;
        let stale = data.join("postmaster.pid");
        match fs::remove_file(&stale) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", stale)(error)),
            _ => Ok(()),
        }
    }

    fn settings(&self, port: u16) -> String {
        let PostgresOptions { max_connections, survives_power_loss, .. } = self.options;
        let (also, tls) = match self.options.certificate {
            None => (String::new(), String::new()),
            Some(_) => (
                format!(",{}", Certificate::ELSEWHERE),
                format!("ssl = on\nssl_cert_file = '{CERTIFICATE_FILE}'\nssl_key_file = '{KEY_FILE}'\n"),
            ),
        };
        let fsync = if survives_power_loss { "on" } else { "off" };
        // What goes with the directory needs no other cleaning up after a kill.
        let memory = if self.temporary { "mmap" } else { "posix" };
        format!(
            "# Written at every start.\n\
             listen_addresses = '127.0.0.1{also}'\n\
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

    /// Waits until the server says in its lock file that it takes connections.
    async fn ready(&self) {
        let file = self.home.join("data/postmaster.pid");
        let is_ready = |lines: &str| lines.lines().nth(7).is_some_and(|status| status.trim() == "ready");
        while !fs::read_to_string(&file).is_ok_and(|lines| is_ready(&lines)) {
            sleep(LOOK_EVERY).await;
        }
    }
}

/// The processes that work in that directory, as a server and all its children do; each leads a group of its own.
fn working_in(data: &Path) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let works =
        |process: &fs::DirEntry| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data);
    let pid = |process: fs::DirEntry| process.file_name().to_str()?.parse().ok().map(Pid::from_raw);
    processes.filter(works).filter_map(pid).collect()
}

/// Runs what waits for disks and programs where nothing else has to wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.expect("nothing here panics, and nobody cancels it")
}
