//! The partitions of the log: ranges of indexes, made ahead of the head so that no commit waits for one.
//!
//! A partition is made as a plain table and attached. Whatever alters the log's table itself would queue behind any
//! forgotten transaction that has read it, and every commit behind that (design §4). Taking partitions away behind the
//! projection, by `detach … concurrently` and `drop table`, goes by the same names and is not built yet: nothing is
//! trimmed.

use std::ops::Range;

use model::Index;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::error::{Error, commit, database};
use crate::head;

/// How many indexes a new partition takes. Any range may stand in the database: names say which it is.
const PARTITION_ROWS: u64 = 1 << 16;
/// How many whole partitions there are beyond that of the head.
const PARTITIONS_AHEAD: u64 = 2;

/// Makes the partitions that are missing, each in a transaction of its own.
pub(crate) async fn make(connection: &mut PgConnection) -> Result<(), Error> {
    let action = "make a partition of the log";
    while missing(connection).await?.is_some() {
        let mut transaction = connection.begin().await.map_err(database(action))?;
        // What attaching takes as well: nobody else makes one meanwhile, and no commit waits for it.
        let lock = sqlx::query!("lock table changes in share update exclusive mode")
            .execute(&mut *transaction)
            .await;
        lock.map_err(database(action))?;
        let Some(range) = missing(&mut transaction).await? else { break };
        // Not checked when built: names and bounds are no parameters.
        let (name, Range { start, end }) = (name(&range), &range);
        let create = format!("create table {name} (like changes including all)");
        let attach =
            format!("alter table changes attach partition {name} for values from ({start}) to ({end})");
        for statement in [create, attach] {
            let made = sqlx::query(AssertSqlSafe(statement)).execute(&mut *transaction).await;
            made.map_err(database(action))?;
        }
        transaction.commit().await.map_err(commit(action))?;
        tracing::debug!(partition = name, "made a partition of the log");
    }
    Ok(())
}

/// The next range that the log needs.
async fn missing(connection: &mut PgConnection) -> Result<Option<Range<u64>>, Error> {
    let head = head::read(connection).await?.index;
    Ok(next(&ranges(connection).await?, head))
}

/// The range after those that there are, unless there are enough of them.
fn next(ranges: &[Range<u64>], head: Index) -> Option<Range<u64>> {
    let end = ranges.iter().map(|range| range.end).max().unwrap_or(1);
    let is_enough = end > head.next().0 + PARTITIONS_AHEAD * PARTITION_ROWS;
    (!is_enough).then_some(end..end + PARTITION_ROWS)
}

/// The ranges of all partitions that are attached.
async fn ranges(connection: &mut PgConnection) -> Result<Vec<Range<u64>>, Error> {
    let names = sqlx::query_scalar!(
        r#"select relname::text as "name!" from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = 'changes'::regclass"#
    );
    let names = names.fetch_all(connection).await.map_err(database("list the partitions of the log"))?;
    Ok(names.iter().filter_map(|name| range(name)).collect())
}

fn name(range: &Range<u64>) -> String {
    format!("changes_{}_{}", range.start, range.end)
}

fn range(name: &str) -> Option<Range<u64>> {
    let (start, end) = name.strip_prefix("changes_")?.split_once('_')?;
    Some(start.parse().ok()?..end.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_its_range() {
        let made = 65_537..131_073;
        assert_eq!(name(&made), "changes_65537_131073");
        assert_eq!(range(&name(&made)), Some(made));
        for other in ["changes", "changes_1", "changes_1_x", "jobs_1_2"] {
            assert_eq!(range(other), None);
        }
    }

    #[test]
    fn two_whole_partitions_are_ahead_of_the_head_wherever_it_is() {
        let mut ranges = Vec::new();
        for head in (0..10 * PARTITION_ROWS).step_by(1_000) {
            while let Some(range) = next(&ranges, Index(head)) {
                assert_eq!(range.start, ranges.last().map_or(1, |last: &Range<u64>| last.end));
                ranges.push(range);
            }
            let ahead = ranges.iter().filter(|range| range.start > head + 1).count() as u64;
            assert!((PARTITIONS_AHEAD..=PARTITIONS_AHEAD + 1).contains(&ahead), "head {head}: {ahead}");
        }
    }
}
