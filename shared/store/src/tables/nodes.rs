//! The table `nodes`, and the names of nodes in `allocs`.

use futures::TryStreamExt;
use model::NodeId;
use model::change::Change;
use model::node::{Node, NodeServerSide, NodeSpec};
use sqlx::postgres::PgConnection;
use state::State;
use uuid::Uuid;

use super::{chunks, column, decode, encode, int, split_present, text};
use crate::error::{Error, database};
use crate::loading::Loading;
use crate::touched::Touched;

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    let node = |id: &NodeId| after.node(*id).map(|node| &**node.node());
    let (registered, gone) = split_present(&touched.nodes_registered, node);
    rename(transaction, &registered).await?;
    for (nodes, specs) in chunks(&registered, |node| encode(&node.spec)) {
        upsert(transaction, nodes, &specs).await?;
    }
    delete(transaction, &column(&gone, |id| id.0)).await?;
    let (changed, _) = split_present(touched.nodes.difference(&touched.nodes_registered), node);
    for (nodes, bodies) in chunks(&changed, |node| encode(&node.server)) {
        update(transaction, nodes, &bodies).await?;
    }
    Ok(())
}

async fn delete(transaction: &mut PgConnection, ids: &[Uuid]) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let deleted = sqlx::query!("delete from nodes where id = any($1)", ids).execute(transaction).await;
    deleted.map(drop).map_err(database("delete nodes"))
}

/// Updates the node names in allocations, which show the name even after the node is deleted. Runs before the nodes are
/// written, because it compares their new names with the stored ones.
async fn rename(transaction: &mut PgConnection, nodes: &[&Node]) -> Result<(), Error> {
    if nodes.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "update allocs set node_name = new.name
        from unnest($1::uuid[], $2::text[]) as new (id, name) left join nodes old on old.id = new.id
        where old.name is distinct from new.name and allocs.node_id = new.id and allocs.node_name <> new.name",
        &column(nodes, |node| node.id.0),
        &column(nodes, |node| text(&node.spec.name)) as &[&str],
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("update the node names of allocations"))
}

async fn upsert(transaction: &mut PgConnection, nodes: &[&Node], specs: &[Vec<u8>]) -> Result<(), Error> {
    sqlx::query!(
        "insert into nodes (id, name, datacenter, node_pool, node_class, computed_class, status, status_description,
            scheduling_eligibility, draining, status_updated_at, create_index, modify_index, spec, body)
        select id, name, datacenter, node_pool, node_class, computed_class, status, status_description,
            scheduling_eligibility, draining, moment(status_updated_at), create_index, modify_index, spec, body
        from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::bool[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bytea[], $15::bytea[])
            as rows (id, name, datacenter, node_pool, node_class, computed_class, status, status_description,
            scheduling_eligibility, draining, status_updated_at, create_index, modify_index, spec, body)
        on conflict (id) do update set (name, datacenter, node_pool, node_class, computed_class, status,
            status_description, scheduling_eligibility, draining, status_updated_at, create_index, modify_index, spec,
            body)
            = (excluded.name, excluded.datacenter, excluded.node_pool, excluded.node_class, excluded.computed_class,
            excluded.status, excluded.status_description, excluded.scheduling_eligibility, excluded.draining,
            excluded.status_updated_at, excluded.create_index, excluded.modify_index, excluded.spec, excluded.body)",
        &column(nodes, |node| node.id.0),
        &column(nodes, |node| text(&node.spec.name)) as &[&str],
        &column(nodes, |node| text(&node.spec.datacenter)) as &[&str],
        &column(nodes, |node| text(&node.spec.node_pool)) as &[&str],
        &column(nodes, |node| text(&node.spec.node_class)) as &[&str],
        &column(nodes, |node| text(&node.spec.computed_class)) as &[&str],
        &column(nodes, |node| node.server.status.as_str()) as &[&str],
        &column(nodes, |node| text(&node.server.status_description)) as &[&str],
        &column(nodes, |node| node.server.eligibility.as_str()) as &[&str],
        &column(nodes, |node| node.server.drain.is_some()),
        &column(nodes, |node| node.server.status_updated_at.0),
        &column(nodes, |node| int(node.server.create_index.0)),
        &column(nodes, |node| int(node.server.modify_index.0)),
        specs,
        &column(nodes, |node| encode(&node.server)),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write nodes"))
}

/// Updates the server side of nodes, and leaves the agents' specifications unchanged.
async fn update(transaction: &mut PgConnection, nodes: &[&Node], bodies: &[Vec<u8>]) -> Result<(), Error> {
    sqlx::query!(
        "update nodes set (status, status_description, scheduling_eligibility, draining, status_updated_at,
            create_index, modify_index, body)
            = (rows.status, rows.status_description, rows.scheduling_eligibility, rows.draining,
            moment(rows.status_updated_at), rows.create_index, rows.modify_index, rows.body)
        from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bool[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bytea[])
            as rows (id, status, status_description, scheduling_eligibility, draining, status_updated_at,
            create_index, modify_index, body)
        where nodes.id = rows.id",
        &column(nodes, |node| node.id.0),
        &column(nodes, |node| node.server.status.as_str()) as &[&str],
        &column(nodes, |node| text(&node.server.status_description)) as &[&str],
        &column(nodes, |node| node.server.eligibility.as_str()) as &[&str],
        &column(nodes, |node| node.server.drain.is_some()),
        &column(nodes, |node| node.server.status_updated_at.0),
        &column(nodes, |node| int(node.server.create_index.0)),
        &column(nodes, |node| int(node.server.modify_index.0)),
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("update nodes"))
}

pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    let mut rows = sqlx::query!("select id, spec, body from nodes").fetch(transaction);
    while let Some(row) = rows.try_next().await.map_err(database("read nodes"))? {
        let spec: NodeSpec = decode("node specification", &row.spec)?;
        let server: NodeServerSide = decode("server side of a node", &row.body)?;
        into.push(Change::Node(Box::new(Node { id: NodeId(row.id), spec: spec.into(), server }))).await?;
    }
    Ok(())
}
