//! The script that an administrator runs with psql. It creates the roles and the database, and revokes what PostgreSQL
//! grants to all roles by default.

use std::fmt::Write as _;

use super::passwords::random;
use super::rights::{self, Access, FUNCTIONS, LARGE_OBJECT_FUNCTIONS, SYSTEM_FUNCTIONS};
use super::{Passwords, Role, scram};

/// Session settings of the role for people. They are defaults that a session may change: they guard against mistakes, not
/// against malice.
const READER_SETTINGS: &[(&str, &str, &str)] = &[
    ("statement_timeout", "30s", "ends queries that run for too long"),
    ("idle_in_transaction_session_timeout", "60s", "an open transaction delays trimming of the log"),
    ("lock_timeout", "5s", "does not wait behind a migration"),
];

/// The script for a database, which need not exist yet, with verifiers for the roles that have a password. It may be run
/// repeatedly, by a superuser or by a role that may create roles and databases.
///
/// # Panics
/// If [`is_plain_name`] does not accept the name.
pub fn script(database: &str, passwords: &Passwords) -> String {
    assert!(is_plain_name(database), "{database:?} is not a plain database name");
    let mut script = String::new();
    for part in [
        preamble(database),
        roles(passwords),
        make_database(database),
        database_rights(database),
        ownership(),
        relation_rights(),
        "commit;\n".to_owned(),
    ] {
        script.push_str(&part);
    }
    script
}

/// Whether a database may have this name: lower-case letters, digits and `_`, which no statement has to escape.
pub fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(is_plain) && (1..=63).contains(&name.len()) && !name.as_bytes()[0].is_ascii_digit()
}

/// Whether a script gives each role the password that it has in `passwords`.
pub fn has_passwords(script: &str, passwords: &Passwords) -> bool {
    Role::ALL.into_iter().all(|role| {
        let verifier = script.lines().find_map(|line| line.strip_prefix(&verifier_prefix(role)));
        let verifier = verifier.and_then(|rest| rest.strip_suffix("';"));
        match (verifier, passwords.of(role)) {
            (Some(verifier), Some(password)) => scram::is_verifier_of(verifier, password),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    })
}

/// The text before the verifier in the line of a role.
fn verifier_prefix(role: Role) -> String {
    format!("alter role {} password '", role.name())
}

fn preamble(database: &str) -> String {
    format!(
        "-- Roles and rights of Drover in PostgreSQL (14 or newer), for the database {database}.
--
-- Printed by `drover operator postgres grants`. Run it with psql, as a superuser or as a role that may create roles and
-- databases. It may be run repeatedly. Passwords appear only as SCRAM verifiers; a role without one here keeps its
-- password. The plan applier grants rights on tables whenever it starts, so an upgrade needs no administrator.

\\set ON_ERROR_STOP on
\\set QUIET on
set client_min_messages = warning;

"
    )
}

/// The roles, each of which may log in and has no other attribute.
fn roles(passwords: &Passwords) -> String {
    let mut text = "-- Roles.\n".to_owned();
    for role in Role::ALL {
        let name = role.name();
        let limit = role.connections_max();
        let comment = role.comment().replace('\'', "''");
        let _ = write!(
            text,
            "
select 'create role {name}' where not exists (select from pg_roles where rolname = '{name}') \\gexec
select 'alter role {name} nosuperuser noreplication nobypassrls' from pg_roles
where rolname = '{name}' and (rolsuper or rolreplication or rolbypassrls) \\gexec
alter role {name} with login nocreatedb nocreaterole connection limit {limit};
comment on role {name} is '{comment}';
"
        );
        if let Some(password) = passwords.of(role) {
            let verifier = scram::verifier(password, random());
            let _ = writeln!(text, "{}{verifier}';", verifier_prefix(role));
        }
        if role != Role::PlanApplier {
            let _ = writeln!(text, "alter role {name} set default_transaction_read_only = on;");
        }
        if role == Role::Reader {
            for (setting, value, why) in READER_SETTINGS {
                let _ = writeln!(text, "alter role {name} set {setting} = '{value}'; -- {why}");
            }
        }
    }
    text
}

fn make_database(database: &str) -> String {
    let owner = Role::PlanApplier.name();
    format!(
        "
-- The database. To create it for its owner, a role that is not a superuser must be a member of the owner's role.
select format('grant {owner} to %I', current_user)
where not pg_has_role(current_user, '{owner}', 'usage') \\gexec
select 'create database \"{database}\" owner {owner} template template0 encoding ''UTF8'''
where not exists (select from pg_database where datname = '{database}') \\gexec
alter database \"{database}\" owner to {owner};
comment on database \"{database}\" is 'State of a Drover cluster';

\\connect \"{database}\"
set client_min_messages = warning;
begin;
"
    )
}

fn database_rights(database: &str) -> String {
    let owner = Role::PlanApplier.name();
    let all = names(&Role::ALL);
    let others = names(&Role::ALL[1..]);
    let mut text = format!(
        "
-- No other role connects, creates temporary tables, or uses the schema.
revoke all on database \"{database}\" from public, {others};
grant connect on database \"{database}\" to {all};
revoke all on schema public from public, {others};
grant usage on schema public to {all};
grant create on schema public to {owner};

-- By default, all roles may call new functions.
alter default privileges for role {owner} revoke execute on functions from public;

-- Functions of PostgreSQL itself that services call, in case they were revoked from public.
"
    );
    for function in SYSTEM_FUNCTIONS {
        let callers = names(function.callers);
        let _ = writeln!(text, "grant execute on function {} to {callers};", function.signature);
    }
    text.push_str("\n-- Large objects belong to no table, and by default all roles may create them.\n");
    for function in LARGE_OBJECT_FUNCTIONS {
        let _ = writeln!(text, "revoke execute on function {function} from public, {others};");
    }
    text
}

/// Transfers tables and functions that another role created to the owner, for a database that was used with a single role
/// before.
fn ownership() -> String {
    let owner = Role::PlanApplier.name();
    let relations: Vec<String> = rights::relations().map(|relation| format!("'{}'", relation.name)).collect();
    let relations = relations.join(", ");
    let mut text = format!(
        "
-- Tables and functions that another role created before these roles existed.
select format('alter table public.%I owner to {owner}', relname) from pg_class
where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relowner <> '{owner}'::regrole
    and (relname ~ '^changes_\\d+$' or relname in ({relations}))
order by relispartition \\gexec
"
    );
    for function in FUNCTIONS {
        let _ = writeln!(
            text,
            "select 'alter function public.{0} owner to {owner}' where to_regprocedure('public.{0}') is not null \\gexec",
            function.signature
        );
    }
    text
}

/// The rights on existing tables and functions. The plan applier grants the same rights on what migrations create.
fn relation_rights() -> String {
    let others = names(&Role::ALL[1..]);
    let mut text = "\n-- Rights on existing tables and functions.\n".to_owned();
    for relation in rights::relations() {
        let name = relation.name;
        let exists = format!("where to_regclass('public.{name}') is not null \\gexec");
        let _ = writeln!(text, "select 'revoke all on public.{name} from public, {others}' {exists}");
        let access = |role: &Role| rights::access(name, *role);
        let readers: Vec<Role> = Role::ALL.into_iter().filter(|role| access(role) == Access::Read).collect();
        if !readers.is_empty() {
            let _ = writeln!(text, "select 'grant select on public.{name} to {}' {exists}", names(&readers));
        }
        for role in Role::ALL {
            let Access::Columns(columns) = access(&role) else { continue };
            let role = role.name();
            let list = columns.join(", ");
            let literals = columns.iter().map(|column| format!("'{column}'")).collect::<Vec<_>>().join(", ");
            let _ = writeln!(
                text,
                "select 'grant select ({list}) on public.{name} to {role}' from pg_attribute\nwhere attrelid = \
                 to_regclass('public.{name}') and attname in ({literals})\nhaving count(*) = {} \\gexec",
                columns.len(),
            );
        }
    }
    for function in FUNCTIONS {
        let signature = function.signature;
        let exists = format!("where to_regprocedure('public.{signature}') is not null \\gexec");
        let callers = names(function.callers);
        let _ = writeln!(
            text,
            "select 'revoke all on function public.{signature} from public, {others}' {exists}"
        );
        let _ = writeln!(text, "select 'grant execute on function public.{signature} to {callers}' {exists}");
    }
    text
}

/// The names of roles as a list for a statement.
fn names(roles: &[Role]) -> String {
    roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_verifiers_and_no_passwords() {
        let passwords = Passwords::random();
        let script = script("drover", &passwords);
        assert_eq!(script.matches("password 'SCRAM-SHA-256$4096:").count(), Role::ALL.len());
        for role in Role::ALL {
            assert!(!script.contains(passwords.of(role).unwrap()), "{role:?}");
        }
    }

    #[test]
    fn the_passwords_of_a_script_can_be_told_from_others() {
        let (passwords, others) = (Passwords::random(), Passwords::random());
        let script = script("drover", &passwords);
        assert!(has_passwords(&script, &passwords));
        assert!(!has_passwords(&script, &others) && !has_passwords(&script, &Passwords::default()));
    }

    #[test]
    fn a_role_without_a_password_keeps_what_it_has() {
        assert!(!script("drover", &Passwords::default()).contains(" password "));
    }

    #[test]
    fn names_that_would_have_to_be_escaped_are_not_taken() {
        assert!(["drover", "_a1", "postgres"].into_iter().all(is_plain_name));
        let too_long = "a".repeat(64);
        assert!(!["", "1a", "Drover", "a b", "a\"b", "a-b", &too_long].into_iter().any(is_plain_name));
    }
}
