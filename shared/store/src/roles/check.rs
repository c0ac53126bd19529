//! Compares a database with the table of rights, and says every difference.

use std::collections::BTreeSet;

use sqlx::postgres::PgConnection;

use super::grants::{self, Object, PUBLIC, Right};
use super::rights::{self, LARGE_OBJECT_FUNCTIONS, SYSTEM_FUNCTIONS};
use super::{Role, rights::Access};
use crate::args::Args;
use crate::error::{Error, database};
use crate::schema;
use crate::server::{Limits, Server};

const CHECKING: Limits = Limits { name: "drover check of rights", ..schema::MIGRATING };

/// Every way in which the database differs from what it should be, as sentences; none if it is as it should be. It looks
/// at the roles, at what each and everybody may do with the database, its schema, and all tables, columns and functions in it.
///
/// Any role may ask, for PostgreSQL shows rights to all.
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
            all.push(format!("{} is no table that this program knows", relation.name));
        }
    }
    let is_missing = |name: &str| relations.iter().all(|found| found.name != name);
    all.extend(
        rights::RELATIONS
            .iter()
            .filter(|relation| is_missing(relation.name))
            .map(|relation| format!("the table {} does not exist", relation.name)),
    );

    all.extend(columns(connection).await?);

    let names: Vec<&str> = roles.iter().map(|role| role.name()).chain([PUBLIC]).collect();
    let mut found = BTreeSet::from_iter(grants::of_relations(connection, &names).await?);
    found.extend(grants::of_functions(connection, &names).await?);
    found.extend(of_surroundings(connection, &names).await?);
    let mut wanted = BTreeSet::from_iter(grants::wanted(&relations, &roles));
    wanted.extend(wanted_of_surroundings(&roles));
    // The owner may do everything with what is its own, as was looked at already.
    let is_owners =
        |right: &Right| right.role == owner && !matches!(right.on, Object::Database | Object::Schema);
    let differs = |right: &&Right| !is_owners(right);
    all.extend(found.difference(&wanted).filter(differs).map(|right| told(right, "may", "and should not")));
    all.extend(wanted.difference(&found).filter(differs).map(|right| told(right, "may not", "and should")));
    all.extend(system_functions(connection, &roles).await?);
    Ok(all)
}

fn told(Right { role, on, privilege }: &Right, may: &str, should: &str) -> String {
    let role = if role == PUBLIC { "everybody (public)" } else { role };
    format!("{role} {may} {privilege} on {on}, {should}")
}

/// What is wrong with the roles themselves.
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
        let too_much = [
            (role.is_super, "is a superuser"),
            (role.creates_roles, "may create roles"),
            (role.creates_databases, "may create databases"),
            (role.replicates, "may replicate"),
            (role.bypasses, "is above row security"),
        ];
        let too_much = too_much.into_iter().filter(|(is_so, _)| *is_so);
        faults.extend(too_much.map(|(_, what)| format!("{} {what}, and should not", role.name)));
        if !role.logs_in {
            faults.push(format!("{} may not log in, and should", role.name));
        }
        faults.extend(
            role.member_of.iter().map(|of| format!("{} is a member of {of}, and should not", role.name)),
        );
    }
    Ok(faults)
}

/// Columns of which the table of rights says neither that people may read them nor that they may not.
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
        .map(|row| format!("{}.{} is no column that this program knows", row.relation, row.column))
        .collect())
}

/// The rights of roles on the database and the schema.
async fn of_surroundings(connection: &mut PgConnection, roles: &[&str]) -> Result<Vec<Right>, Error> {
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

fn wanted_of_surroundings(roles: &[Role]) -> Vec<Right> {
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

/// What is wrong with who may call functions of PostgreSQL itself.
async fn system_functions(connection: &mut PgConnection, roles: &[Role]) -> Result<Vec<String>, Error> {
    let mut faults = Vec::new();
    for role in roles {
        let called = SYSTEM_FUNCTIONS.iter().filter(|function| function.callers.contains(role));
        let called = called.map(|function| (function.signature, true));
        let others = LARGE_OBJECT_FUNCTIONS.iter().map(|signature| (*signature, false));
        for (signature, should) in called.chain(others) {
            let may = sqlx::query_scalar!(
                r#"select has_function_privilege($1::text::name, $2, 'EXECUTE') as "may!""#,
                role.name(),
                signature,
            );
            let may = may.fetch_one(&mut *connection).await.map_err(database("read rights on functions"))?;
            // The owner of the database may make large objects if somebody lets it: they are in its own database.
            if may != should && (should || rights::access("", *role) != Access::Own) {
                let right = Right {
                    role: role.name().to_owned(),
                    on: Object::Function(signature.to_owned()),
                    privilege: "EXECUTE".to_owned(),
                };
                faults.push(if may {
                    told(&right, "may", "and should not")
                } else {
                    told(&right, "may not", "and should")
                });
            }
        }
    }
    Ok(faults)
}
