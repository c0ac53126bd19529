//! The table `job_submissions`: the sources that versions of jobs were registered from.

use futures::TryStreamExt;
use model::JobVersionKey;
use model::change::Change;
use model::job::JobSubmission;
use sqlx::postgres::PgConnection;
use state::State;

use super::{chunks, column, decode, encode, int, split_present, text};
use crate::error::{Error, database};
use crate::loading::Loading;
use crate::touched::Touched;

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    if !touched.jobs_deleted.is_empty() {
        delete_of_jobs(transaction, touched).await?;
    }
    let (present, gone) = split_present(&touched.submissions, |version| after.job_submission(version));
    if !gone.is_empty() {
        delete(transaction, &gone).await?;
    }
    let present: Vec<&JobSubmission> = present.into_iter().map(AsRef::as_ref).collect();
    for (submissions, bodies) in chunks(&present, encode) {
        upsert(transaction, submissions, &bodies).await?;
    }
    Ok(())
}

/// A purge deletes sources without naming them. Sources of a job that is registered again are written after this.
async fn delete_of_jobs(transaction: &mut PgConnection, touched: &Touched) -> Result<(), Error> {
    let gone: Vec<_> = touched.jobs_deleted.iter().collect();
    sqlx::query!(
        "delete from job_submissions using unnest($1::text[], $2::text[]) as gone (namespace, job_id)
        where (job_submissions.namespace, job_submissions.job_id) = (gone.namespace, gone.job_id)",
        &column(&gone, |job| text(&job.namespace)) as &[&str],
        &column(&gone, |job| text(&job.id)) as &[&str],
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("delete sources of jobs"))
}

async fn delete(transaction: &mut PgConnection, gone: &[&JobVersionKey]) -> Result<(), Error> {
    sqlx::query!(
        "delete from job_submissions
        using unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) as gone (namespace, job_id, created, version)
        where (job_submissions.namespace, job_submissions.job_id, job_submissions.create_index, job_submissions.version)
            = (gone.namespace, gone.job_id, gone.created, gone.version)",
        &column(gone, |version| text(&version.job.namespace)) as &[&str],
        &column(gone, |version| text(&version.job.id)) as &[&str],
        &column(gone, |version| int(version.create_index.0)),
        &column(gone, |version| int(version.version)),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("delete sources of job versions"))
}

async fn upsert(
    transaction: &mut PgConnection,
    submissions: &[&JobSubmission],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    sqlx::query!(
        "insert into job_submissions (namespace, job_id, create_index, version, format, source, job_modify_index, body)
        select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[],
            $8::bytea[])
        on conflict (namespace, job_id, create_index, version) do update set (format, source, job_modify_index, body)
            = (excluded.format, excluded.source, excluded.job_modify_index, excluded.body)",
        &column(submissions, |submission| text(&submission.version.job.namespace)) as &[&str],
        &column(submissions, |submission| text(&submission.version.job.id)) as &[&str],
        &column(submissions, |submission| int(submission.version.create_index.0)),
        &column(submissions, |submission| int(submission.version.version)),
        &column(submissions, |submission| text(&submission.source.format)) as &[&str],
        &column(submissions, |submission| text(&submission.source.text)) as &[&str],
        &column(submissions, |submission| int(submission.job_modify_index.0)),
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write sources of job versions"))
}

pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    let mut bodies = sqlx::query_scalar!("select body from job_submissions").fetch(transaction);
    while let Some(body) = bodies.try_next().await.map_err(database("read sources of job versions"))? {
        into.push(Change::JobSubmission(decode("source of a job version", &body)?)).await?;
    }
    Ok(())
}
