//! The table `alloc_shares`: the common part of the allocations of one placement, stored once.
//!
//! The id of a share is a hash of its body, so that equal shares have equal ids and no map of ids has to be kept. A share's
//! row counts its allocations, and is deleted with the last one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::TryStreamExt;
use model::TraceContext;
use model::alloc::AllocCommon;
use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnection;
use state::AllocRef;
use uuid::Uuid;

use super::{chunks, column, decode, encode, int, text};
use crate::error::{Error, database};

/// The ids of shares, by the address of the common part in memory. Each common part is encoded once, whatever its number of
/// allocations.
#[derive(Default)]
pub(super) struct ShareIds(HashMap<usize, Uuid>);

struct Share<'a> {
    id: Uuid,
    common: &'a AllocCommon,
    /// The number of new allocations that have it.
    allocs: u64,
    body: Vec<u8>,
}

impl ShareIds {
    /// The id of an allocation's share, which [`write`] must have written.
    pub(super) fn of(&self, alloc: AllocRef<'_>) -> Uuid {
        self.0[&address(alloc)]
    }
}

fn address(alloc: AllocRef<'_>) -> usize {
    Arc::as_ptr(alloc.common()).addr()
}

/// Writes the shares of new allocations, and adds those to the counts.
pub(super) async fn write(transaction: &mut PgConnection, new: &[AllocRef<'_>]) -> Result<ShareIds, Error> {
    let mut ids = ShareIds::default();
    let mut shares: BTreeMap<Uuid, Share<'_>> = BTreeMap::new();
    for alloc in new {
        let id = *ids.0.entry(address(*alloc)).or_insert_with(|| {
            let common: &AllocCommon = alloc.common();
            let body = encode(common);
            let id = id(&body);
            shares.entry(id).or_insert(Share { id, common, allocs: 0, body });
            id
        });
        if let Some(share) = shares.get_mut(&id) {
            share.allocs += 1;
        }
    }
    let shares: Vec<Share<'_>> = shares.into_values().collect();
    for (shares, bodies) in chunks(&shares, |share| share.body.clone()) {
        insert(transaction, shares, &bodies).await?;
    }
    Ok(ids)
}

fn id(body: &[u8]) -> Uuid {
    let hash = Sha256::digest(body);
    let half = hash.first_chunk().expect("a SHA-256 hash has 32 bytes");
    Uuid::from_bytes(*half)
}

async fn insert(
    transaction: &mut PgConnection,
    shares: &[Share<'_>],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    sqlx::query!(
        "insert into alloc_shares (id, namespace, job_id, job_create_index, job_version, task_group, eval_id,
            deployment_id, trace_id, body, allocs)
        select * from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::uuid[],
            $8::uuid[], $9::text[], $10::bytea[], $11::bigint[])
        on conflict (id) do update set allocs = alloc_shares.allocs + excluded.allocs",
        &column(shares, |share| share.id),
        &column(shares, |share| text(&share.common.job.job.namespace)) as &[&str],
        &column(shares, |share| text(&share.common.job.job.id)) as &[&str],
        &column(shares, |share| int(share.common.job.create_index.0)),
        &column(shares, |share| int(share.common.job.version)),
        &column(shares, |share| text(&share.common.task_group)) as &[&str],
        &column(shares, |share| share.common.eval_id.0),
        &column(shares, |share| share.common.deployment_id.map(|id| id.0)) as &[Option<Uuid>],
        &column(shares, |share| share.common.trace.map(TraceContext::trace_id_text)) as &[Option<String>],
        bodies,
        &column(shares, |share| int(share.allocs)),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write allocation shares"))
}

/// Deletes the shares in `ids` that have no allocations left.
pub(super) async fn delete_unused(transaction: &mut PgConnection, ids: &[Uuid]) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let deleted = sqlx::query!("delete from alloc_shares where id = any($1) and allocs = 0", ids);
    deleted.execute(transaction).await.map(drop).map_err(database("delete allocation shares"))
}

pub(super) async fn load(transaction: &mut PgConnection) -> Result<HashMap<Uuid, Arc<AllocCommon>>, Error> {
    let mut rows = sqlx::query!("select id, body from alloc_shares").fetch(transaction);
    let mut shares = HashMap::new();
    while let Some(row) = rows.try_next().await.map_err(database("read allocation shares"))? {
        shares.insert(row.id, decode("allocation share", &row.body)?);
    }
    Ok(shares)
}
