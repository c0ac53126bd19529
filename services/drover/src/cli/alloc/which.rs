//! Selects the allocation for a command: by id, or any allocation of a job.

use anyhow::Context as _;
use api_types::AllocListStub;
use telemetry::clock;

use super::whole;
use crate::cli::client::{Client, escaped};
use crate::cli::{format, job};

/// Flags that select an allocation.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Which {
    /// An allocation id or a prefix of one. With -job, a job id.
    alloc: String,
    /// Use any allocation of the job, preferably a running one.
    #[arg(long)]
    job: bool,
    /// Use an allocation of this task group.
    #[arg(long, value_name = "GROUP", requires = "job")]
    group: Option<String>,
}

impl Which {
    /// Finds the id of the allocation.
    pub(super) async fn find(&self, client: &Client) -> anyhow::Result<String> {
        if !self.job {
            return whole(client, &self.alloc).await;
        }
        let job = job::named(client, &self.alloc).await?;
        let path = format!("/v1/job/{}/allocations", escaped(&job.id));
        let allocs: Vec<AllocListStub> = client.get(&path, &[("namespace", job.namespace.as_str())]).await?;
        let chance = u128::from_le_bytes(clock::random_bytes());
        let alloc = any(&allocs, self.group.as_deref(), chance).with_context(|| match &self.group {
            Some(group) => format!("No allocations found for job \"{}\" in task group \"{group}\"", job.id),
            None => format!("No allocations found for job \"{}\"", job.id),
        })?;
        Ok(format::text(alloc.id.as_ref()))
    }
}

/// A random running allocation; the newest allocation if none is running.
fn any<'a>(allocs: &'a [AllocListStub], group: Option<&str>, chance: u128) -> Option<&'a AllocListStub> {
    let is_meant =
        |alloc: &&AllocListStub| group.is_none_or(|group| alloc.task_group.as_deref() == Some(group));
    let meant: Vec<_> = allocs.iter().filter(is_meant).collect();
    let runs = |alloc: &&AllocListStub| alloc.client_status.as_deref() == Some("running");
    let running: Vec<_> = meant.iter().copied().filter(runs).collect();
    match running.len() {
        0 => meant.into_iter().max_by_key(|alloc| alloc.create_index),
        count => Some(running[(chance % count as u128) as usize]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_runs_is_taken_by_chance_and_else_the_newest() {
        let alloc = |id: &str, group: &str, status: &str, index: u64| AllocListStub {
            id: Some(id.to_owned()),
            task_group: Some(group.to_owned()),
            client_status: Some(status.to_owned()),
            create_index: Some(index),
            ..AllocListStub::default()
        };
        let allocs = [
            alloc("a", "web", "running", 1),
            alloc("b", "web", "failed", 5),
            alloc("c", "web", "running", 2),
            alloc("d", "db", "complete", 3),
            alloc("e", "db", "failed", 4),
        ];
        let taken = |group, chance| any(&allocs, group, chance).and_then(|alloc| alloc.id.as_deref());
        assert_eq!(taken(None, 0), Some("a"));
        assert_eq!(taken(None, 7), Some("c"));
        assert_eq!(taken(Some("db"), 7), Some("e"), "none runs");
        assert_eq!(taken(Some("cache"), 0), None);
    }
}
