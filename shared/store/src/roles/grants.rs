//! The rights that roles have in a database and those that they should have: reading, comparing and granting them.
//!
//! Rights are read as they take effect ([`has_table_privilege`] and similar functions), which includes rights through
//! memberships and `public`.
//!
//! [`has_table_privilege`]: https://www.postgresql.org/docs/current/functions-info.html

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};

use super::Role;
use super::rights::{self, Access, FUNCTIONS};
use crate::error::{Error, database};

/// PostgreSQL's name for all roles together.
pub(super) const PUBLIC: &str = "public";

/// A privilege of a role on an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) role: String,
    pub(super) on: Object,
    /// In upper case, as PostgreSQL lists it.
    pub(super) privilege: String,
}

/// An object on which rights are granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Database,
    Schema,
    Relation(String),
    /// A column of a relation, if the role does not have the right on the whole relation.
    Column(String, String),
    /// A function, with the types of its arguments.
    Function(String),
}

/// A relation in the schema: a table, view, sequence or similar.
#[derive(Debug, Clone)]
pub(super) struct FoundRelation {
    pub(super) name: String,
    pub(super) owner: String,
    /// Whether this connection's role may grant rights on it.
    pub(super) is_own: bool,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database => f.write_str("the database"),
            Self::Schema => f.write_str("the schema"),
            Self::Relation(name) => f.write_str(name),
            Self::Column(relation, column) => write!(f, "{relation}.{column}"),
            Self::Function(signature) => f.write_str(signature),
        }
    }
}

/// Grants the existing roles the rights that they lack on the schema's tables and functions, and revokes those that they
/// should not have. Does nothing if none of the roles exists.
pub(crate) async fn apply(transaction: &mut PgConnection) -> Result<(), Error> {
    let roles = existing(transaction).await?;
    if roles.is_empty() {
        return Ok(());
    }
    let relations = relations(transaction).await?;
    let is_own = |name: &str| relations.iter().any(|relation| relation.is_own && relation.name == name);
    let is_ours = |right: &Right| match &right.on {
        // The owner has its rights without grants.
        _ if right.role == Role::PlanApplier.name() => false,
        Object::Relation(name) | Object::Column(name, _) => is_own(name),
        Object::Function(signature) => FUNCTIONS.iter().any(|function| function.signature == signature),
        Object::Database | Object::Schema => false,
    };
    let names: Vec<&str> = roles.iter().map(|role| role.name()).chain([PUBLIC]).collect();
    let found =
        of_relations(transaction, &names).await?.into_iter().chain(of_functions(transaction, &names).await?);
    let found: BTreeSet<Right> = found.filter(is_ours).collect();
    let wanted: BTreeSet<Right> = wanted(&relations, &roles).into_iter().filter(is_ours).collect();
    let statements = statements(&found, &wanted);
    if statements.is_empty() {
        return Ok(());
    }
    tracing::info!(statements = statements.len(), "updating the rights of roles");
    // Not checked at compile time: names cannot be parameters.
    let given = transaction.execute(sqlx::raw_sql(AssertSqlSafe(statements.join(";\n")))).await;
    given.map(drop).map_err(database("grant roles their rights"))
}

/// The roles that exist on the server.
pub(super) async fn existing(connection: &mut PgConnection) -> Result<Vec<Role>, Error> {
    let names: Vec<String> = Role::ALL.iter().map(|role| role.name().to_owned()).collect();
    let found = sqlx::query_scalar!(
        r#"select rolname::text as "name!" from pg_roles where rolname = any($1)"#,
        &names
    );
    let found = found.fetch_all(connection).await.map_err(database("list the roles"))?;
    Ok(Role::ALL.into_iter().filter(|role| found.iter().any(|name| name == role.name())).collect())
}

/// All relations in the schema.
pub(super) async fn relations(connection: &mut PgConnection) -> Result<Vec<FoundRelation>, Error> {
    let found = sqlx::query_as!(
        FoundRelation,
        r#"select relname::text as "name!", pg_get_userbyid(relowner)::text as "owner!",
            pg_has_role(relowner, 'usage') as "is_own!"
        from pg_class
        where relnamespace = current_schema()::text::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
        order by relname"#
    );
    found.fetch_all(connection).await.map_err(database("list the tables"))
}

/// The rights of roles on all relations in the schema, and on single columns where those go further.
pub(super) async fn of_relations(connection: &mut PgConnection, roles: &[&str]) -> Result<Vec<Right>, Error> {
    let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    let found = sqlx::query!(
        r#"with relations as (
            select oid, relname, relkind from pg_class
            where relnamespace = current_schema()::text::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
        ), privileges as (
            select unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) as name
            union all
            select 'MAINTAIN' where current_setting('server_version_num')::int >= 170000
        )
        select role as "role!", relname::text as "relation!", null as "column", name as "privilege!"
        from unnest($1::text[]) as role, relations, privileges
        where relkind <> 'S' and has_table_privilege(role::name, oid, name)
        union all
        select role, relname::text, null, name
        from unnest($1::text[]) as role, relations, unnest(array['USAGE', 'SELECT', 'UPDATE']) as name
        where relkind = 'S' and has_sequence_privilege(role::name, oid, name)
        union all
        select role, relname::text, attname::text, name
        from unnest($1::text[]) as role, relations
        join pg_attribute on attrelid = oid and attnum > 0 and not attisdropped,
            unnest(array['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) as name
        where relkind <> 'S' and has_column_privilege(role::name, oid, attnum, name)
            and not has_table_privilege(role::name, oid, name)"#,
        &roles,
    );
    let found = found.fetch_all(connection).await.map_err(database("read rights on tables"))?;
    let rights = found.into_iter().map(|row| Right {
        role: row.role,
        on: match row.column {
            Some(column) => Object::Column(row.relation, column),
            None => Object::Relation(row.relation),
        },
        privilege: row.privilege,
    });
    Ok(rights.collect())
}

/// The rights of roles on the functions of the schema.
pub(super) async fn of_functions(connection: &mut PgConnection, roles: &[&str]) -> Result<Vec<Right>, Error> {
    let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    let found = sqlx::query!(
        r#"select role as "role!", format('%I(%s)', proname, pg_get_function_identity_arguments(oid)) as "function!",
            'EXECUTE' as "privilege!"
        from unnest($1::text[]) as role, pg_proc
        where pronamespace = current_schema()::text::regnamespace
            and has_function_privilege(role::name, oid, 'EXECUTE')"#,
        &roles,
    );
    let found = found.fetch_all(connection).await.map_err(database("read rights on functions"))?;
    let right = |function: String| {
        // The table of rights lists the types of arguments without their names.
        let known = FUNCTIONS.iter().find(|known| is_signature(&function, known.signature));
        Object::Function(known.map_or(function, |known| known.signature.to_owned()))
    };
    let rights = found.into_iter().map(|row| Right {
        role: row.role,
        on: right(row.function),
        privilege: row.privilege,
    });
    Ok(rights.collect())
}

/// The rights that `roles` should have on the tables and functions of the schema. All other roles should have none.
pub(super) fn wanted(relations: &[FoundRelation], roles: &[Role]) -> Vec<Right> {
    let mut wanted = Vec::new();
    for &role in roles {
        let mut add = |on: Object, privilege: &str| {
            wanted.push(Right { role: role.name().to_owned(), on, privilege: privilege.to_owned() });
        };
        for relation in relations {
            match rights::access(&relation.name, role) {
                Access::Nothing | Access::Own => {}
                Access::Read => add(Object::Relation(relation.name.clone()), "SELECT"),
                Access::Columns(columns) => {
                    for column in columns {
                        add(Object::Column(relation.name.clone(), (*column).to_owned()), "SELECT");
                    }
                }
            }
        }
        for function in FUNCTIONS.iter().filter(|function| function.callers.contains(&role)) {
            add(Object::Function(function.signature.to_owned()), "EXECUTE");
        }
    }
    wanted
}

/// The statements that turn `found` into `wanted`. Each statement covers all privileges of one role on one table.
pub(super) fn statements(found: &BTreeSet<Right>, wanted: &BTreeSet<Right>) -> Vec<String> {
    let revoke = grouped(found.difference(wanted));
    let grant = grouped(wanted.difference(found));
    let revoke = revoke.into_iter().map(|((role, on), what)| format!("revoke {what} on {on} from {role}"));
    let grant = grant.into_iter().map(|((role, on), what)| format!("grant {what} on {on} to {role}"));
    revoke.chain(grant).collect()
}

/// Groups privileges by role and object, in the form in which a statement lists them.
fn grouped<'a>(rights: impl Iterator<Item = &'a Right>) -> BTreeMap<(&'a str, String), String> {
    let mut columns: BTreeMap<(&str, &str, &str), Vec<String>> = BTreeMap::new();
    let mut groups: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for Right { role, on, privilege } in rights {
        let mut add = |on: String| groups.entry((role, on)).or_default().push(privilege.clone());
        match on {
            Object::Column(relation, column) => {
                columns.entry((role, relation, privilege)).or_default().push(quoted(column));
            }
            Object::Relation(relation) => add(quoted(relation)),
            Object::Function(signature) => add(format!("function {signature}")),
            // The administrator's script grants these.
            Object::Database | Object::Schema => {}
        }
    }
    for ((role, relation, privilege), columns) in columns {
        let privilege = format!("{privilege} ({})", columns.join(", "));
        groups.entry((role, quoted(relation))).or_default().push(privilege);
    }
    groups.into_iter().map(|(key, privileges)| (key, privileges.join(", "))).collect()
}

/// A name, quoted for a statement.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether a function such as `moment(ns bigint)`, with names of arguments, has the given signature.
fn is_signature(function: &str, signature: &str) -> bool {
    let Some((name, arguments)) = function.split_once('(') else { return false };
    let types = arguments.trim_end_matches(')').split(", ").map(|argument| argument.rsplit(' ').next());
    let types: Vec<&str> = types.map(Option::unwrap_or_default).collect();
    format!("{name}({})", types.join(", ")) == signature
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(role: &str, on: Object, privilege: &str) -> Right {
        Right { role: role.to_owned(), on, privilege: privilege.to_owned() }
    }

    fn table(name: &str) -> Object {
        Object::Relation(name.to_owned())
    }

    fn column(name: &str) -> Object {
        Object::Column("jobs".to_owned(), name.to_owned())
    }

    #[test]
    fn surplus_grants_are_revoked_and_missing_ones_given() {
        let found = BTreeSet::from([
            right("a", table("jobs"), "SELECT"),
            right("a", table("jobs"), "INSERT"),
            right("a", table("jobs"), "DELETE"),
            right("public", Object::Function("moment(bigint)".to_owned()), "EXECUTE"),
        ]);
        let wanted = BTreeSet::from([
            right("a", table("jobs"), "SELECT"),
            right("b", column("id"), "SELECT"),
            right("b", column("name"), "SELECT"),
            right("b", table("odd\"name"), "SELECT"),
        ]);
        assert_eq!(
            statements(&found, &wanted),
            [
                "revoke DELETE, INSERT on \"jobs\" from a",
                "revoke EXECUTE on function moment(bigint) from public",
                "grant SELECT (\"id\", \"name\") on \"jobs\" to b",
                "grant SELECT on \"odd\"\"name\" to b",
            ]
        );
        assert_eq!(statements(&wanted, &wanted), [""; 0]);
    }

    #[test]
    fn a_function_is_known_whatever_its_arguments_are_called() {
        assert!(is_signature("moment(ns bigint)", "moment(bigint)"));
        assert!(is_signature("f(a oid, b bytea)", "f(oid, bytea)"));
        assert!(is_signature("f()", "f()"));
        assert!(!is_signature("moment(ns int)", "moment(bigint)"));
    }
}
