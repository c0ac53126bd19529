//! The table `allocs`, by far the largest.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::alloc::{
    AllocCommon, AllocExtra, Allocation, DesiredTransition, Health, PackedAssigned, PackedTaskStates,
    ReportNumber,
};
use model::change::Change;
use model::{AllocId, Index, NodeId, Text, Timestamp, is_default};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnection;
use state::{AllocRef, State};
use uuid::Uuid;

use super::copy::{Rows, copy};
use super::shares::{self, ShareIds};
use super::{Pacer, chunks, column, decode, encode, int, split_present};
use crate::error::{Error, database, unreadable};
use crate::head;
use crate::loading::Loading;
use crate::touched::Touched;

/// The fields of an allocation that are neither in columns nor in the common share. Most allocations set few of them. The
/// serialized names have one or two letters, because there are millions of rows.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct AllocBody<'a> {
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    name_index: Option<u32>,
    #[serde(rename = "a", skip_serializing_if = "is_default")]
    assigned: PackedAssigned,
    #[serde(rename = "dd", skip_serializing_if = "is_default")]
    desired_description: Cow<'a, str>,
    #[serde(rename = "dt", skip_serializing_if = "is_default")]
    desired_transition: DesiredTransition,
    #[serde(rename = "cd", skip_serializing_if = "is_default")]
    client_description: Cow<'a, str>,
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    task_states: PackedTaskStates,
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    health: Option<Health>,
    #[serde(rename = "x", skip_serializing_if = "is_default")]
    extra: Cow<'a, AllocExtra>,
    #[serde(rename = "r", skip_serializing_if = "is_default")]
    report: ReportNumber,
    #[serde(rename = "ai")]
    alloc_modify_index: Index,
    #[serde(rename = "ct")]
    create_time: Timestamp,
    #[serde(rename = "mt")]
    modify_time: Timestamp,
}

impl<'a> AllocBody<'a> {
    fn of(alloc: AllocRef<'a>) -> Self {
        Self {
            name_index: alloc.name_index(),
            assigned: alloc.assigned().clone(),
            desired_description: Cow::Borrowed(alloc.desired_description()),
            desired_transition: alloc.transition(),
            client_description: Cow::Borrowed(alloc.client_description()),
            task_states: alloc.task_states().clone(),
            health: alloc.health(),
            extra: Cow::Borrowed(alloc.extra()),
            report: alloc.report(),
            alloc_modify_index: alloc.alloc_modify_index(),
            create_time: alloc.create_time(),
            modify_time: alloc.modify_time(),
        }
    }
}

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    before: Index,
    after: &State,
    pacer: &mut Pacer,
) -> Result<(), Error> {
    // A row whose common share may have changed is deleted and inserted again.
    let unused_shares = delete(transaction, &column(&touched.allocs_replaced, |id| id.0)).await?;
    let (present, _) = split_present(&touched.allocs, |id: &AllocId| after.alloc(*id));
    let is_new = |alloc: &AllocRef<'_>| {
        alloc.create_index() > before || touched.allocs_replaced.binary_search(&alloc.id()).is_ok()
    };
    let (new, changed): (Vec<_>, Vec<_>) = present.into_iter().partition(is_new);
    let shares = shares::write(transaction, &new).await?;
    insert(transaction, &new, &shares, pacer).await?;
    for (allocs, bodies) in chunks(&changed, |alloc| encode(&AllocBody::of(*alloc))) {
        update(transaction, allocs, &bodies).await?;
        pacer.add_written(allocs.len()).await;
    }
    shares::delete_unused(transaction, &unused_shares).await
}

/// Deletes allocations. Returns the shares that have no allocations left.
async fn delete(transaction: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<Uuid>, Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let counted = sqlx::query!(
        "with gone as (delete from allocs where id = any($1) returning share_id),
            gone_of as (select share_id, count(*) as allocs from gone group by share_id)
        update alloc_shares set allocs = alloc_shares.allocs - gone_of.allocs
        from gone_of where alloc_shares.id = gone_of.share_id
        returning alloc_shares.id, alloc_shares.allocs",
        ids,
    );
    let counted = counted.fetch_all(transaction).await.map_err(database("delete allocations"))?;
    Ok(counted.into_iter().filter(|share| share.allocs == 0).map(|share| share.id).collect())
}

async fn insert(
    transaction: &mut PgConnection,
    allocs: &[AllocRef<'_>],
    shares: &ShareIds,
    pacer: &mut Pacer,
) -> Result<(), Error> {
    let statement = "copy allocs (id, namespace, job_id, job_version, task_group, name, eval_id, deployment_id, node_id,
        node_name, desired_status, client_status, create_index, modify_index, create_time, modify_time, share_id, body)
        from stdin (format binary)";
    let fill = |rows: &mut Rows, alloc: &AllocRef<'_>| {
        let (common, job) = (alloc.common(), alloc.job_key());
        rows.uuid(alloc.id().0).text(&job.namespace).text(&job.id).int(common.job.version);
        rows.text(alloc.group_name()).text(&alloc.name()).uuid(alloc.eval_id().0);
        rows.optional_uuid(alloc.deployment_id().map(|id| id.0))
            .uuid(alloc.node_id().0)
            .text(alloc.node_name());
        rows.text(alloc.desired_status().as_str()).text(alloc.client_status().as_str());
        rows.int(alloc.create_index().0).int(alloc.modify_index().0);
        rows.moment(alloc.create_time().0).moment(alloc.modify_time().0);
        rows.uuid(shares.of(*alloc)).encoded(&AllocBody::of(*alloc));
    };
    let copied = copy(transaction, statement, 18, allocs, fill, pacer).await;
    copied.map_err(database("insert allocations"))
}

/// Updates allocations whose common share stays the same.
async fn update(
    transaction: &mut PgConnection,
    allocs: &[AllocRef<'_>],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    sqlx::query!(
        "update allocs set desired_status = rows.desired_status, client_status = rows.client_status,
            modify_index = rows.modify_index, modify_time = moment(rows.modify_time), body = rows.body
        from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[])
            as rows (id, desired_status, client_status, modify_index, modify_time, body)
        where allocs.id = rows.id",
        &column(allocs, |alloc| alloc.id().0),
        &column(allocs, |alloc| alloc.desired_status().as_str()) as &[&str],
        &column(allocs, |alloc| alloc.client_status().as_str()) as &[&str],
        &column(allocs, |alloc| int(alloc.modify_index().0)),
        &column(allocs, |alloc| alloc.modify_time().0),
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("update allocations"))
}

pub(super) async fn load(
    transaction: &mut PgConnection,
    shares: &HashMap<Uuid, Arc<AllocCommon>>,
    into: &mut Loading,
) -> Result<(), Error> {
    let rows = sqlx::query!(
        "select id, node_id, node_name, desired_status, client_status, create_index, modify_index, share_id, body
        from allocs"
    );
    let mut rows = rows.fetch(transaction);
    while let Some(row) = rows.try_next().await.map_err(database("read allocations"))? {
        let body: AllocBody<'_> = decode("allocation", &row.body)?;
        let common = shares.get(&row.share_id).ok_or(MissingShare).map_err(unreadable("allocation"))?;
        into.push(Change::Alloc(Box::new(Allocation {
            id: AllocId(row.id),
            common: Arc::clone(common),
            name_index: body.name_index,
            node_id: NodeId(row.node_id),
            node_name: row.node_name.into(),
            assigned: body.assigned,
            desired_status: row.desired_status.parse().map_err(unreadable("allocation"))?,
            desired_description: Text::from(body.desired_description),
            desired_transition: body.desired_transition,
            client_status: row.client_status.parse().map_err(unreadable("allocation"))?,
            client_description: Text::from(body.client_description),
            task_states: body.task_states,
            health: body.health,
            extra: body.extra.into_owned(),
            report: body.report,
            create_index: head::index(row.create_index),
            modify_index: head::index(row.modify_index),
            alloc_modify_index: body.alloc_modify_index,
            create_time: body.create_time,
            modify_time: body.modify_time,
        })))
        .await?;
    }
    Ok(())
}

/// An allocation refers to a share that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("its common share is missing")]
struct MissingShare;
