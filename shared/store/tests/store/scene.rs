//! [`Scene`]: a database of its own for each test with an active applier, and a superuser's connection for actions that no
//! applier would take.

use std::sync::Arc;
use std::time::Duration;

use model::change::ChangeSet;
use model::{Index, ProcessId};
use private_servers::Postgres;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use state::State;
use store::{Args, Confirmed, Database, Head, Projector, TakeOutcome, Writer};
use wire::LogRow;

/// A condition that is not met within this time fails the test.
const WAIT: Duration = Duration::from_secs(20);

pub(crate) const FIRST: ProcessId = ProcessId::from_bytes([1; 16]);
pub(crate) const SECOND: ProcessId = ProcessId::from_bytes([2; 16]);

pub(crate) struct Scene {
    pub(crate) args: Args,
    pub(crate) writer: Writer,
    pub(crate) projector: Projector,
    pub(crate) database: Database,
}

impl Scene {
    /// An empty database with an active applier.
    pub(crate) async fn new() -> Self {
        Self::with(|args| args).await
    }

    /// The same with other settings.
    pub(crate) async fn with(change: impl FnOnce(Args) -> Args) -> Self {
        let server = Postgres::shared().await.unwrap();
        Self::on(change(args(server.new_database().await.unwrap()))).await
    }

    pub(crate) async fn at(url: String) -> Self {
        Self::on(args(url)).await
    }

    async fn on(args: Args) -> Self {
        let writer = Writer::connect(&args).await.unwrap();
        writer.migrate().await.unwrap();
        let head = taken(writer.take_lease(FIRST, false).await.unwrap());
        assert_eq!((head.index, head.epoch.0, head.applier), (Index::ZERO, 1, FIRST));
        let database = Database::connect(&args).await.unwrap();
        Self { projector: writer.projector(), args, writer, database }
    }

    /// Another applier process.
    pub(crate) async fn another(&self) -> Writer {
        Writer::connect(&self.args).await.unwrap()
    }

    /// A superuser's connection, for actions that no applier would take.
    pub(crate) async fn superuser(&self) -> Superuser {
        Superuser(PgConnection::connect(&self.args.database_url).await.unwrap())
    }

    /// Commits change sets one by one, and projects all of them.
    pub(crate) async fn commit_and_project(&self, sets: &[Arc<ChangeSet>]) -> State {
        let after = applied(sets);
        for set in sets {
            self.writer.commit(Index(set.index.0 - 1), vec![LogRow::new(set)]).await.unwrap();
        }
        self.projector.project(sets, &after, Duration::ZERO).await.unwrap();
        after
    }
}

pub(crate) fn args(database_url: String) -> Args {
    Args {
        database_url,
        database_password_file: None,
        database_wait_secs: 10,
        // Servers of tests do not flush what they write.
        allow_unsafe_database: true,
        applier_lease_ms: 60_000,
        log_keep_secs: 3_600,
        log_max_mb: 1_024,
    }
}

pub(crate) fn taken(take: TakeOutcome) -> Head {
    match take {
        TakeOutcome::Active(Confirmed { head, .. }) => head,
        TakeOutcome::Held { by, remaining } => panic!("{by} holds the lease for {remaining:?}"),
    }
}

/// The state that results from change sets, starting from the empty state.
pub(crate) fn applied(sets: &[Arc<ChangeSet>]) -> State {
    let mut state = State::default();
    sets.iter().for_each(|set| state.apply(set).unwrap());
    state
}

/// A superuser's connection.
pub(crate) struct Superuser(PgConnection);

impl Superuser {
    pub(crate) async fn run(&mut self, statement: &str) {
        self.try_run(statement).await.unwrap();
    }

    pub(crate) async fn try_run(&mut self, statement: &str) -> Result<(), sqlx::Error> {
        self.0.execute(AssertSqlSafe(statement.to_owned())).await.map(drop)
    }

    /// Runs a query that returns a single value.
    pub(crate) async fn query(&mut self, query: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(&mut self.0).await.unwrap()
    }

    /// Waits until a query returns a value, and returns it.
    pub(crate) async fn wait_for(&mut self, query: &str) -> i64 {
        let found = async {
            loop {
                let found =
                    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_optional(&mut self.0).await;
                if let Some(found) = found.unwrap() {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(WAIT, found).await.unwrap_or_else(|_| panic!("nothing found by {query}"))
    }

    /// Waits until a session with that application name waits for that event, and returns its process id.
    pub(crate) async fn wait_for_session(&mut self, name: &str, event: &str) -> i64 {
        self.wait_for(&format!(
            "select pid::bigint from pg_stat_activity
            where datname = current_database() and application_name = '{name}' and wait_event = '{event}'"
        ))
        .await
    }

    pub(crate) async fn end_session(&mut self, pid: i64) {
        self.run(&format!("select pg_terminate_backend({pid})")).await;
    }

    /// Terminates every other session in this database, as a restart of the server does.
    pub(crate) async fn end_all_sessions(&mut self) {
        self.run(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()",
        )
        .await;
    }
}
