//! The login roles against a real PostgreSQL: the rights of each role equal the table of rights, whatever the database
//! contained before, and attempts at anything else fail.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use model::{HistoryId, Index, Nanos, RootKeyId};
use private_servers::Postgres;
use sqlx::postgres::{PgConnection, PgDatabaseError, PgSeverity};
use sqlx::{AssertSqlSafe, Connection, Executor};
use state::Scope;
use store::roles::{Passwords, Role, check, script};
use store::{Args, Database, Error, Writer, compare_with_log};
use wire::LogRow;

use crate::history::empty_sets;
use crate::scene::{FIRST, applied, args, taken};

/// A server of its own, because roles belong to the whole server, with the roles and the administrator's connection.
struct Server {
    postgres: Postgres,
    passwords: Passwords,
    admin: PgConnection,
}

impl Server {
    /// A server with roles and without tables.
    async fn new() -> Self {
        let server = Self::without_roles().await;
        server.run_script().await;
        server
    }

    async fn without_roles() -> Self {
        let postgres = Postgres::temporary().await.unwrap();
        let admin = PgConnection::connect(&postgres.url()).await.unwrap();
        Self { postgres, passwords: Passwords::random(), admin }
    }

    /// A server with roles, tables and one change set in the log.
    async fn migrated() -> Self {
        let server = Self::new().await;
        let writer = server.migrate().await;
        taken(writer.take_lease(FIRST, false).await.unwrap());
        let rows = empty_sets(1..=1).iter().map(|set| LogRow::new(set)).collect();
        writer.commit(Index::ZERO, rows).await.unwrap();
        server
    }

    async fn run_script(&self) {
        self.postgres.run_script(script("postgres", &self.passwords)).await.unwrap();
    }

    /// The settings of a service that logs in with the role.
    fn args(&self, role: Role) -> Args {
        let login = format!("{}:{}@", role.name(), self.passwords.of(role).unwrap());
        args(self.postgres.url_as(role.name()).replace(&format!("{}@", role.name()), &login))
    }

    async fn migrate(&self) -> Writer {
        let writer = Writer::connect(&self.args(Role::PlanApplier)).await.unwrap();
        writer.migrate().await.unwrap();
        writer
    }

    /// A session of the role without the setting that makes it read-only.
    async fn session(&self, role: Role) -> PgConnection {
        let mut session = PgConnection::connect(&self.args(role).database_url).await.unwrap();
        session.execute("set default_transaction_read_only = off").await.unwrap();
        session
    }

    /// The differences from the table of rights, as found by the role with the fewest rights.
    async fn faults(&self) -> Vec<String> {
        check(&self.args(Role::Reader)).await.unwrap()
    }

    async fn as_admin(&mut self, statements: &str) {
        self.admin.execute(sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))).await.unwrap();
    }

    async fn list(&mut self, query: &str) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_all(&mut self.admin).await.unwrap()
    }
}

/// The SQLSTATE with which the server refuses a statement; `None` if it executes it.
async fn refusal(session: &mut PgConnection, statement: &str) -> Option<String> {
    let mut transaction = session.begin().await.unwrap();
    let done = transaction.execute(sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))).await;
    transaction.rollback().await.unwrap();
    let error = done.err()?;
    let error = error.into_database_error().unwrap_or_else(|| panic!("no answer to {statement}"));
    let error: Box<PgDatabaseError> = error.downcast();
    assert_eq!(error.severity(), PgSeverity::Error, "{statement}: {error}");
    Some(error.code().to_owned())
}

/// The SQLSTATE `insufficient_privilege`.
const FORBIDDEN: &str = "42501";

async fn assert_forbidden(session: &mut PgConnection, role: Role, statement: &str) {
    let refused = refusal(session, statement).await;
    assert_eq!(refused.as_deref(), Some(FORBIDDEN), "{} with: {statement}", role.name());
}

#[tokio::test]
async fn every_role_has_the_rights_of_the_table_on_everything_there_is() {
    let mut server = Server::migrated().await;
    assert_eq!(server.faults().await, [""; 0]);
    // An independent query over all schemas. `pg_settings` is excluded: every role may update it, for its own session.
    let writers = server
        .list(
            "select distinct format('%s %s %s', rolname, oid::regclass, privilege)
            from (select oid as role, rolname from pg_roles where rolname ~ '^drover_') as roles,
                (select oid from pg_class where relkind in ('r', 'p', 'v', 'm', 'f')) as relations,
                unnest(array['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) as privilege
            where rolname <> 'drover_plan_applier' and has_table_privilege(role, oid, privilege)
                and oid <> 'pg_settings'::regclass",
        )
        .await;
    assert_eq!(writers, [""; 0]);
}

#[tokio::test]
async fn every_difference_from_the_table_of_rights_is_found() {
    let mut server = Server::migrated().await;
    for (statement, undo, fault) in [
        (
            "grant insert on jobs to drover_api",
            "revoke insert on jobs from drover_api",
            "drover_api has INSERT on jobs, but should not",
        ),
        (
            "revoke select on evals from drover_scheduler",
            "grant select on evals to drover_scheduler",
            "drover_scheduler lacks SELECT on evals",
        ),
        (
            "grant select on nodes to drover_eval_broker",
            "revoke select on nodes from drover_eval_broker",
            "drover_eval_broker has SELECT on nodes, but should not",
        ),
        (
            "grant select (body) on jobs to drover_reader",
            "revoke select (body) on jobs from drover_reader",
            "drover_reader has SELECT on jobs.body, but should not",
        ),
        (
            "grant update (index) on head to drover_node_tracker",
            "revoke update (index) on head from drover_node_tracker",
            "drover_node_tracker has UPDATE on head.index, but should not",
        ),
        (
            "revoke select (job_id) on allocs from drover_reader",
            "grant select (job_id) on allocs to drover_reader",
            "drover_reader lacks SELECT on allocs.job_id",
        ),
        (
            "grant select on changes_0 to drover_api",
            "revoke select on changes_0 from drover_api",
            "drover_api has SELECT on changes_0, but should not",
        ),
        (
            "grant select on leases to public",
            "revoke select on leases from public",
            "public (all roles) has SELECT on leases, but should not",
        ),
        (
            "grant execute on function moment(bigint) to drover_api",
            "revoke execute on function moment(bigint) from drover_api",
            "drover_api has EXECUTE on moment(bigint), but should not",
        ),
        ("create table more (id int)", "drop table more", "more is not a table that this program knows"),
        (
            "alter table jobs add column more text",
            "alter table jobs drop column more",
            "jobs.more is not a column that this program knows",
        ),
        (
            "create sequence more; grant usage on sequence more to drover_api",
            "drop sequence more",
            "drover_api has USAGE on more, but should not",
        ),
        (
            "create function more() returns int language sql return 1",
            "drop function more()",
            "public (all roles) has EXECUTE on more(), but should not",
        ),
        (
            "alter table jobs owner to drover",
            "alter table jobs owner to drover_plan_applier",
            "jobs belongs to drover instead of drover_plan_applier",
        ),
        (
            "grant create on schema public to drover_api",
            "revoke create on schema public from drover_api",
            "drover_api has CREATE on the schema, but should not",
        ),
        (
            "grant temporary on database postgres to public",
            "revoke temporary on database postgres from public",
            "public (all roles) has TEMPORARY on the database, but should not",
        ),
        (
            "revoke connect on database postgres from drover_api",
            "grant connect on database postgres to drover_api",
            "drover_api lacks CONNECT on the database",
        ),
        (
            "grant execute on function lo_create(oid) to public",
            "revoke execute on function lo_create(oid) from public",
            "drover_reader has EXECUTE on pg_catalog.lo_create(oid), but should not",
        ),
        (
            "revoke execute on function pg_control_system() from public, drover_scheduler",
            "grant execute on function pg_control_system() to public, drover_scheduler",
            "drover_scheduler lacks EXECUTE on pg_catalog.pg_control_system()",
        ),
        (
            "alter role drover_api superuser",
            "alter role drover_api nosuperuser",
            "drover_api should not be a superuser",
        ),
        (
            "alter role drover_api createrole nologin",
            "alter role drover_api nocreaterole login",
            "drover_api should not be allowed to create roles",
        ),
        (
            "grant drover_plan_applier to drover_api",
            "revoke drover_plan_applier from drover_api",
            "drover_api should not be a member of drover_plan_applier",
        ),
    ] {
        server.as_admin(statement).await;
        let faults = server.faults().await;
        assert!(faults.iter().any(|found| found == fault), "{statement}: {faults:#?}");
        server.as_admin(undo).await;
        assert_eq!(server.faults().await, [""; 0], "after {undo}");
    }
}

#[tokio::test]
async fn no_role_but_the_owner_can_write_anything() {
    let mut server = Server::migrated().await;
    let tables = server
        .list("select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')")
        .await;
    assert!(tables.iter().any(|table| table == "changes_0") && tables.len() > 20, "{tables:?}");
    let _applier = server.session(Role::PlanApplier).await;
    for role in Role::ALL.into_iter().filter(|role| *role != Role::PlanApplier) {
        let mut session = server.session(role).await;
        for table in &tables {
            for statement in [
                format!("insert into {table} default values"),
                format!("delete from {table}"),
                format!("truncate {table}"),
                format!("drop table {table}"),
                format!("alter table {table} add column more int"),
                format!("alter table {table} owner to {}", role.name()),
                format!("create index on {table} ((1))"),
                format!("copy {table} from stdin"),
                format!("lock table {table} in row exclusive mode"),
            ] {
                assert_forbidden(&mut session, role, &statement).await;
            }
        }
        for statement in [
            "update head set index = 0",
            "update head set applier_epoch = applier_epoch + 1",
            "update projection set projected_index = 0",
            "select index from head for update",
            "update leases set epoch = epoch + 1",
            "select * from root_key_secrets",
            "select secret from root_key_secrets",
            "copy root_key_secrets to stdout",
            "select * from migration_lock",
            "select * from changes_0",
            "create table more (id int)",
            "create temporary table more (id int)",
            "create schema more",
            "create function more() returns int language sql return 1",
            "create view more as select 1",
            "create extension pg_trgm",
            "select lo_create(0)",
            "select lo_from_bytea(0, 'x')",
            "alter schema public owner to current_user",
            "alter role drover_plan_applier password 'mine'",
            "alter role current_user superuser",
            "create role more",
            "set role drover_plan_applier",
            "set session authorization drover_plan_applier",
            "grant select on root_key_secrets to public",
            "copy (select 1) to program 'true'",
            "copy (select 1) to '/tmp/more'",
            "select pg_read_file('/etc/passwd')",
            "select pg_reload_conf()",
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'drover_plan_applier'",
        ] {
            assert_forbidden(&mut session, role, statement).await;
        }
        // These statements cannot run in transactions, and leave nothing to roll back if they are refused.
        for statement in ["create database more", "alter system set fsync = off", "drop database postgres"] {
            let error = session.execute(AssertSqlSafe(statement.to_owned())).await.unwrap_err();
            let code = error.as_database_error().and_then(|error| error.code()).map(Into::<String>::into);
            assert!(code.is_some_and(|code| code == FORBIDDEN || code == "55006"), "{statement}: {error}");
        }
    }
}

#[tokio::test]
async fn the_owner_is_master_of_its_database_and_of_nothing_else() {
    let server = Server::migrated().await;
    let mut session = server.session(Role::PlanApplier).await;
    for statement in [
        "create role more",
        "alter role drover_api superuser",
        "alter role current_user superuser",
        "alter role drover_api password 'mine'",
        "set role drover",
        "create extension adminpack",
        "copy (select 1) to program 'true'",
        "copy (select 1) to '/tmp/more'",
        "select pg_read_file('/etc/passwd')",
        "select pg_reload_conf()",
        "select * from pg_authid",
    ] {
        assert_forbidden(&mut session, Role::PlanApplier, statement).await;
    }
}

#[tokio::test]
async fn services_and_people_read_what_they_should_and_no_more() {
    let mut server = Server::migrated().await;
    let columns: Vec<(String, String, String)> = sqlx::query_as(
        "select relname::text, attname::text, atttypid::regtype::text from pg_class join pg_attribute on attrelid = pg_class.oid
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
            and attnum > 0 and not attisdropped",
    )
    .fetch_all(&mut server.admin)
    .await
    .unwrap();
    let mut reader = server.session(Role::Reader).await;
    let mut readable = 0;
    for (table, column, kind) in &columns {
        let refused = refusal(&mut reader, &format!("select {column} from {table}")).await;
        // Migrations store the hash of their own text in a column, which contains no user data.
        let is_opaque = kind == "bytea" && table != "_sqlx_migrations";
        let is_hidden = is_opaque
            || column == "source"
            || ["changes", "root_key_secrets", "migration_lock"].contains(&table.as_str());
        assert_eq!(refused.as_deref(), is_hidden.then_some(FORBIDDEN), "{table}.{column}");
        readable += usize::from(!is_hidden);
    }
    assert!(readable > 100, "{readable}");
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Reader) {
        let database = Database::connect(&server.args(role)).await.unwrap();
        let loaded = database.load(role.scope()).await.unwrap();
        assert_eq!(loaded.state.index(), Index(1), "{role:?}");
        database.changes_after(Index::ZERO, usize::MAX).await.unwrap();
    }
    let broker = Database::connect(&server.args(Role::EvalBroker)).await.unwrap();
    let error = broker.load(Scope::ALL).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
}

#[tokio::test]
async fn the_owner_does_all_of_an_appliers_work() {
    let mut server = Server::migrated().await;
    let writer = server.migrate().await;
    taken(writer.take_lease(FIRST, true).await.unwrap());
    let first = empty_sets(1..=1).remove(0);
    // The projection session of an applier that hangs: it has the same role and application name.
    let mut hangs = server.session(Role::PlanApplier).await;
    hangs.execute("set application_name = 'drover projection'").await.unwrap();
    let projector = writer.projector();
    projector.projected().await.unwrap();
    hangs.execute("select 1").await.unwrap_err();

    // The log contains one change set, which is empty. It is projected; its partition is closed and dropped.
    let state = applied(&[Arc::clone(&first)]);
    projector.project(&[Arc::clone(&first)], &state, Duration::ZERO).await.unwrap();
    for _ in 0..3 {
        writer.maintain_log(first.at + Nanos::from_hours(2)).await.unwrap();
    }
    let parts =
        server.list("select relname::text from pg_class where relname ~ '^changes_\\d+$' order by 1").await;
    assert_eq!(parts, ["changes_1", "changes_2", "changes_3"]);
    // Partitions that were created later are read through the log, like the first ones.
    assert_eq!(server.faults().await, [""; 0]);

    writer.store_root_key(RootKeyId::from_bytes([1; 16]), b"secret").await.unwrap();
    writer.mark_refused("to see that it can").await.unwrap();
    writer.accept(HistoryId::from_bytes([2; 16])).await.unwrap();
    // The comparison creates a schema, and then finds that the beginning of the log is gone.
    let error = compare_with_log(&server.args(Role::PlanApplier)).await.unwrap_err();
    assert!(matches!(error, Error::Gap { after: Index::ZERO }), "{error}");
}

#[tokio::test]
async fn missing_rights_are_named_with_their_cure() {
    let mut server = Server::migrated().await;
    let database = Database::connect(&server.args(Role::Api)).await.unwrap();
    server.as_admin("revoke select on changes from drover_api").await;
    let error = database.changes_after(Index::ZERO, usize::MAX).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "role drover_api may not read the log, permission denied for table changes: `drover operator postgres grants` \
         prints the SQL that gives each role its rights"
    );
    // At startup, a missing right is waited for like a missing schema.
    server.as_admin("revoke select on _sqlx_migrations from drover_api").await;
    let args = Args { database_wait_secs: 1, ..server.args(Role::Api) };
    let error = Database::connect(&args).await.unwrap_err();
    let Error::NotReady { source: Some(source), .. } = error else { panic!("{error}") };
    assert!(matches!(*source, Error::Forbidden { .. }), "{source}");
}

#[tokio::test]
async fn the_applier_gives_rights_back_and_takes_those_that_nobody_should_have() {
    let mut server = Server::migrated().await;
    server
        .as_admin(
            "revoke select on jobs, changes from drover_api; grant insert, update on jobs to drover_api;
            revoke select (name) on jobs from drover_reader; grant select (body) on jobs to drover_reader;
            grant execute on function moment(bigint) to public; grant delete on leases to public",
        )
        .await;
    assert!(server.faults().await.len() >= 7);
    server.migrate().await;
    assert_eq!(server.faults().await, [""; 0]);
}

#[tokio::test]
async fn a_database_that_was_used_with_one_role_comes_to_have_all() {
    let mut server = Server::without_roles().await;
    let writer = Writer::connect(&args(server.postgres.url())).await.unwrap();
    writer.migrate().await.unwrap();
    taken(writer.take_lease(FIRST, false).await.unwrap());
    for _ in 0..2 {
        server.run_script().await;
        assert_eq!(server.faults().await, [""; 0]);
    }
    let before = server
        .list("select rolname || rolpassword from pg_authid where rolname ~ '^drover_' order by 1")
        .await;
    server.postgres.run_script(script("postgres", &Passwords::default())).await.unwrap();
    let after = server
        .list("select rolname || rolpassword from pg_authid where rolname ~ '^drover_' order by 1")
        .await;
    assert_eq!(
        (before.len(), before),
        (Role::ALL.len(), after),
        "without passwords, the script keeps the existing ones"
    );
    // The owner continues where the other role stopped.
    let writer = server.migrate().await;
    let head = taken(writer.take_lease(FIRST, false).await.unwrap());
    assert_eq!(head.epoch.0, 2);
}

#[tokio::test]
async fn an_administrator_who_is_no_superuser_can_run_the_script() {
    let mut server = Server::without_roles().await;
    server.as_admin("create role admin login createrole createdb password 'secret'").await;
    let url = server.postgres.url_as("admin:secret");
    let script = script("drover", &server.passwords);
    for _ in 0..2 {
        let psql = Command::new("psql")
            .args(["--no-psqlrc", &url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut psql = psql.unwrap();
        psql.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = psql.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let of_drover = |role| {
        let args = server.args(role);
        Args { database_url: args.database_url.replace("/postgres", "/drover"), ..args }
    };
    let writer = Writer::connect(&of_drover(Role::PlanApplier)).await.unwrap();
    writer.migrate().await.unwrap();
    taken(writer.take_lease(FIRST, false).await.unwrap());
    let database = Database::connect(&of_drover(Role::Api)).await.unwrap();
    database.load(Scope::ALL).await.unwrap();
    let mut session = PgConnection::connect(&of_drover(Role::Api).database_url).await.unwrap();
    session.execute("set default_transaction_read_only = off").await.unwrap();
    assert_forbidden(&mut session, Role::Api, "create table more (id int)").await;
    assert_forbidden(&mut session, Role::Api, "select * from root_key_secrets").await;
}

#[tokio::test]
async fn a_password_is_read_from_its_file_for_each_connection() {
    let mut server = Server::migrated().await;
    let dir = std::env::temp_dir().join(format!("drover-roles-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("password");
    std::fs::write(&file, format!("{}\n", server.passwords.of(Role::Api).unwrap())).unwrap();
    let with_file = Args {
        // The password in the URL is not used.
        database_url: server.postgres.url_as("drover_api:wrong"),
        database_password_file: Some(file.clone()),
        ..args(String::new())
    };
    let database = Database::connect(&with_file).await.unwrap();
    database.head().await.unwrap();

    server.as_admin("alter role drover_api password 'another'").await;
    server
        .as_admin("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'drover_api'")
        .await;
    std::fs::write(&file, "another\n").unwrap();
    // The first use of the terminated connection fails.
    while database.head().await.is_err() {
        tokio::task::yield_now().await;
    }

    std::fs::write(&file, "wrong").unwrap();
    let wrong = Args { database_wait_secs: 1, ..with_file.clone() };
    let error = Database::connect(&wrong).await.unwrap_err();
    let Error::NotReady { source: Some(source), .. } = error else { panic!("{error}") };
    let cause = std::error::Error::source(&*source).unwrap().to_string();
    assert!(cause.contains("password authentication failed for user \"drover_api\""), "{cause}");

    std::fs::remove_dir_all(&dir).unwrap();
    let error = Database::connect(&with_file).await.unwrap_err();
    assert!(matches!(error, Error::PasswordFile { .. }), "{error}");
}
