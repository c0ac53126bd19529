//! Compares a database with the table of rights and reports every difference.

use std::collections::BTreeSet;

use sqlx::postgres::PgConnection;

use super::grants::{self, Object, PUBLIC, Right};
use super::rights::{self, LARGE_OBJECT_FUNCTIONS, SYSTEM_FUNCTIONS};
use super::{Role, rights::Access};
use crate::args::Args;
use crate::error::{Error, database};
use crate::schema;
use crate::server::{Limits, Server};

const CHECKING: Limits = Limits { name: "drover check of rights", durable: false, ..schema::MIGRATING };

/// Compares a database with the table of rights. Returns each difference as a sentence; an empty list means that the rights
/// are correct. The check covers the roles themselves, and what each role and `public` may do with the database, its
/// schema, and all tables, columns and functions in it.
///
/// Any role can run the check, because PostgreSQL shows rights to all roles.
///
/// # Errors
/// If the database fails.
pub async fn check(args: &Args) -> Result<Vec<String>, Error> {
    let server = Server::new(args)?;
    let mut connection = server.ready(|| server.open(&CHECKING)).await?;
    let differences = differences(&mut connection).await;
    differences.map_err(|error| error.of_role(server.role()))
}

async fn differences(connection: &mut PgConnection) -> Result<Vec<String>, Error> {
    let roles = grants::existing(connection).await?;
    let missing = Role::ALL.into_iter().filter(|role| !roles.contains(role));
    let mut all: Vec<String> =
        missing.map(|role| format!("the role {} does not exist", role.name())).collect();
    all.extend(attributes(connection, &roles).await?);

    let relations = grants::relations(connection).await?;
    let owner = Role::PlanApplier.name();
    for relation in &relations {
        if relation.owner != owner {
            all.push(format!("{} belongs to {} instead of {owner}", relation.name, relation.owner));
        }
        if rights::relation(&relation.name).is_none() && !rights::is_log_partition(&relation.name) {
            all.push(format!("{} is not a table that this program knows", relation.name));
        }
    }
    let is_missing = |name: &str| relations.iter().all(|found| found.name != name);
    all.extend(
        rights::relations()
            .filter(|relation| is_missing(relation.name))
            .map(|relation| format!("the table {} does not exist", relation.name)),
    );

    all.extend(columns(connection).await?);

    let names: Vec<&str> = roles.iter().map(|role| role.name()).chain([PUBLIC]).collect();
    let mut found = BTreeSet::from_iter(grants::of_relations(connection, &names).await?);
    found.extend(grants::of_functions(connection, &names).await?);
    found.extend(database_rights(connection, &names).await?);
    let mut wanted = BTreeSet::from_iter(grants::wanted(&relations, &roles));
    wanted.extend(wanted_database_rights(&roles));
    // The owner has all rights on its own objects; that it owns them was checked above.
    let is_owners =
        |right: &Right| right.role == owner && !matches!(right.on, Object::Database | Object::Schema);
    let differs = |right: &&Right| !is_owners(right);
    all.extend(found.difference(&wanted).filter(differs).map(excessive));
    all.extend(wanted.difference(&found).filter(differs).map(lacking));
    all.extend(system_functions(connection, &roles).await?);
    Ok(all)
}

fn excessive(Right { role, on, privilege }: &Right) -> String {
    let role = if role == PUBLIC { "public (all roles)" } else { role };
    format!("{role} has {privilege} on {on}, but should not")
}

fn lacking(Right { role, on, privilege }: &Right) -> String {
    format!("{role} lacks {privilege} on {on}")
}

/// Wrong attributes and memberships of the roles themselves.
async fn attributes(connection: &mut PgConnection, roles: &[Role]) -> Result<Vec<String>, Error> {
    let names: Vec<String> = roles.iter().map(|role| role.name().to_owned()).collect();
    let found = sqlx::query!(
        r#"select rolname::text as "name!", rolsuper as "is_super!", rolcreaterole as "creates_roles!",
            rolcreatedb as "creates_databases!", rolreplication as "replicates!", rolbypassrls as "bypasses!",
            rolcanlogin as "logs_in!",
            array(
                select roleid::regrole::text from pg_auth_members where member = pg_roles.oid order by 1
            ) as "member_of!"
        from pg_roles where rolname = any($1) order by rolname"#,
        &names,
    );
    let found = found.fetch_all(connection).await.map_err(database("read the roles"))?;
    let mut faults = Vec::new();
    for role in found {
        let attributes = [
            (role.is_super, "be a superuser"),
            (role.creates_roles, "be allowed to create roles"),
            (role.creates_databases, "be allowed to create databases"),
            (role.replicates, "be allowed to replicate"),
            (role.bypasses, "be allowed to bypass row security"),
        ];
        let attributes = attributes.into_iter().filter(|(has_it, _)| *has_it);
        faults.extend(attributes.map(|(_, what)| format!("{} should not {what}", role.name)));
        if !role.logs_in {
            faults.push(format!("{} should be allowed to log in", role.name));
        }
        faults
            .extend(role.member_of.iter().map(|of| format!("{} should not be a member of {of}", role.name)));
    }
    Ok(faults)
}

/// Columns that the table of rights lists neither as readable by people nor as hidden.
async fn columns(connection: &mut PgConnection) -> Result<Vec<String>, Error> {
    let found = sqlx::query!(
        r#"select relname::text as "relation!", attname::text as "column!"
        from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped
        where relnamespace = current_schema()::text::regnamespace and relkind in ('r', 'p')
        order by relname, attnum"#
    );
    let found = found.fetch_all(connection).await.map_err(database("list the columns"))?;
    let is_unknown = |relation: &str, column: &str| {
        rights::relation(relation).is_some_and(|relation| match relation.access(Role::Reader) {
            Access::Columns(shown) => !shown.contains(&column) && !relation.hidden().contains(&column),
            Access::Nothing | Access::Read | Access::Own => false,
        })
    };
    let unknown = found.into_iter().filter(|row| is_unknown(&row.relation, &row.column));
    Ok(unknown
        .map(|row| format!("{}.{} is not a column that this program knows", row.relation, row.column))
        .collect())
}

/// The rights of roles on the database and the schema.
async fn database_rights(connection: &mut PgConnection, roles: &[&str]) -> Result<Vec<Right>, Error> {
    let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    let found = sqlx::query!(
        r#"select role as "role!", true as "is_database!", name as "privilege!"
        from unnest($1::text[]) as role, unnest(array['CONNECT', 'CREATE', 'TEMPORARY']) as name
        where has_database_privilege(role::name, current_database(), name)
        union all
        select role, false, name
        from unnest($1::text[]) as role, unnest(array['USAGE', 'CREATE']) as name
        where has_schema_privilege(role::name, current_schema()::text, name)"#,
        &roles,
    );
    let found = found.fetch_all(connection).await.map_err(database("read rights on the database"))?;
    let rights = found.into_iter().map(|row| Right {
        role: row.role,
        on: if row.is_database { Object::Database } else { Object::Schema },
        privilege: row.privilege,
    });
    Ok(rights.collect())
}

fn wanted_database_rights(roles: &[Role]) -> Vec<Right> {
    let mut wanted = Vec::new();
    for role in roles {
        let mut add = |on, privilege: &str| {
            wanted.push(Right { role: role.name().to_owned(), on, privilege: privilege.to_owned() });
        };
        add(Object::Database, "CONNECT");
        add(Object::Schema, "USAGE");
        if *role == Role::PlanApplier {
            add(Object::Database, "CREATE");
            add(Object::Database, "TEMPORARY");
            add(Object::Schema, "CREATE");
        }
    }
    wanted
}

/// Wrong rights on functions of PostgreSQL itself.
async fn system_functions(connection: &mut PgConnection, roles: &[Role]) -> Result<Vec<String>, Error> {
    let mut faults = Vec::new();
    for role in roles {
        let allowed = SYSTEM_FUNCTIONS.iter().filter(|function| function.callers.contains(role));
        let allowed = allowed.map(|function| (function.signature, true));
        let forbidden = LARGE_OBJECT_FUNCTIONS.iter().map(|signature| (*signature, false));
        for (signature, should) in allowed.chain(forbidden) {
            let may = sqlx::query_scalar!(
                r#"select has_function_privilege($1::text::name, $2, 'EXECUTE') as "may!""#,
                role.name(),
                signature,
            );
            let may = may.fetch_one(&mut *connection).await.map_err(database("read rights on functions"))?;
            // The owner of the database may have the right to create large objects: they are in its own database.
            if may != should && (should || rights::access("", *role) != Access::Own) {
                let right = Right {
                    role: role.name().to_owned(),
                    on: Object::Function(signature.to_owned()),
                    privilege: "EXECUTE".to_owned(),
                };
                faults.push(if may { excessive(&right) } else { lacking(&right) });
            }
        }
    }
    Ok(faults)
}
