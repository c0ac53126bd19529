//! The table `alloc_shares`: what the allocations of one placement share, once.
//!
//! A share's id follows from its bytes, so that nobody has to remember under which one it was written. When its last
//! allocation goes, no change says so; those without any are looked for, a slice of all ids at a time.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::alloc::AllocCommon;
use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnection;
use state::AllocRef;
use uuid::Uuid;

use super::{chunks, column, decode, encode, int, text};
use crate::error::{Error, database};

/// Into how many slices all ids are cut. A power of two: hashes fall into them evenly.
pub(crate) const SLICES: u8 = 64;

/// The ids of shares, by their place in memory: each is encoded once, however many allocations have it.
#[derive(Default)]
pub(super) struct ShareIds(HashMap<usize, Uuid>);

struct Share<'a> {
    id: Uuid,
    common: &'a AllocCommon,
    body: Vec<u8>,
}

impl ShareIds {
    /// The id of an allocation's share, which must have been written here.
    pub(super) fn of(&self, alloc: AllocRef<'_>) -> Uuid {
        self.0[&address(alloc)]
    }
}

fn address(alloc: AllocRef<'_>) -> usize {
    Arc::as_ptr(alloc.common()).addr()
}

/// Writes the shares of allocations.
pub(super) async fn write(
    transaction: &mut PgConnection,
    allocs: &[AllocRef<'_>],
) -> Result<ShareIds, Error> {
    let mut ids = ShareIds::default();
    let mut shares = Vec::new();
    for alloc in allocs {
        ids.0.entry(address(*alloc)).or_insert_with(|| {
            let common: &AllocCommon = alloc.common();
            let body = encode(common);
            let id = id(&body);
            shares.push(Share { id, common, body });
            id
        });
    }
    for (shares, bodies) in chunks(&shares, |share| share.body.clone()) {
        insert(transaction, shares, &bodies).await?;
    }
    Ok(ids)
}

fn id(body: &[u8]) -> Uuid {
    let hash = Sha256::digest(body);
    let half = hash.first_chunk().expect("a hash of 32 bytes begins with 16");
    Uuid::from_bytes(*half)
}

async fn insert(
    transaction: &mut PgConnection,
    shares: &[Share<'_>],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    sqlx::query!(
        "insert into alloc_shares (id, namespace, job_id, job_create_index, job_version, task_group, eval_id,
            deployment_id, body)
        select * from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::uuid[],
            $8::uuid[], $9::bytea[])
        on conflict (id) do nothing",
        &column(shares, |share| share.id),
        &column(shares, |share| text(&share.common.job.job.namespace)) as &[&str],
        &column(shares, |share| text(&share.common.job.job.id)) as &[&str],
        &column(shares, |share| int(share.common.job.create_index.0)),
        &column(shares, |share| int(share.common.job.version)),
        &column(shares, |share| text(&share.common.task_group)) as &[&str],
        &column(shares, |share| share.common.eval_id.0),
        &column(shares, |share| share.common.deployment_id.map(|id| id.0)) as &[Option<Uuid>],
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write common shares"))
}

/// Deletes the shares without allocations among a slice of them.
pub(super) async fn collect(transaction: &mut PgConnection, slice: u8) -> Result<(), Error> {
    const WIDTH: u8 = u8::MAX / SLICES + 1;
    let (mut first, mut last) = ([0; 16], [u8::MAX; 16]);
    first[0] = slice * WIDTH;
    last[0] = first[0] + (WIDTH - 1);
    sqlx::query!(
        "delete from alloc_shares
        where id between $1 and $2 and not exists (select from allocs where allocs.share_id = alloc_shares.id)",
        Uuid::from_bytes(first),
        Uuid::from_bytes(last),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("collect common shares"))
}

pub(super) async fn load(transaction: &mut PgConnection) -> Result<HashMap<Uuid, Arc<AllocCommon>>, Error> {
    let mut rows = sqlx::query!("select id, body from alloc_shares").fetch(transaction);
    let mut shares = HashMap::new();
    while let Some(row) = rows.try_next().await.map_err(database("read common shares"))? {
        shares.insert(row.id, decode("common share of allocations", &row.body)?);
    }
    Ok(shares)
}
