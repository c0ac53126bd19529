//! Selects the allocation for a command: by id, or any allocation of a job.

use anyhow::Context as _;
use api_types::AllocListStub;
use telemetry::clock;

use super::resolve;
use crate::cli::client::{Client, escaped};
use crate::cli::{format, job};

/// Flags that select an allocation.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Selection {
    /// The id of an allocation, or a prefix of it. With -job, the id of a job.
    alloc: String,
    /// Choose an allocation of a job: a random running one, or the newest if none is running.
    #[arg(long)]
    job: bool,
    /// With -job: choose an allocation of this task group.
    #[arg(long, value_name = "GROUP", requires = "job")]
    group: Option<String>,
}

impl Selection {
    /// Finds the id of the allocation. With `verbose`, an error about several matches shows their whole ids.
    pub(super) async fn find(&self, client: &Client, verbose: bool) -> anyhow::Result<String> {
        if !self.job {
            return resolve(client, &self.alloc, verbose).await;
        }
        let job = job::resolve(client, &self.alloc).await?;
        let path = format!("/v1/job/{}/allocations", escaped(&job.id));
        let allocs: Vec<AllocListStub> = client.get(&path, &[("namespace", job.namespace.as_str())]).await?;
        let random = u128::from_le_bytes(clock::random_bytes());
        let alloc = pick(&allocs, self.group.as_deref(), random).with_context(|| match &self.group {
            Some(group) => format!("No allocations found for job \"{}\" in task group \"{group}\"", job.id),
            None => format!("No allocations found for job \"{}\"", job.id),
        })?;
        Ok(format::text(alloc.id.as_ref()))
    }
}

/// A random running allocation; the newest allocation if none is running.
fn pick<'a>(allocs: &'a [AllocListStub], group: Option<&str>, random: u128) -> Option<&'a AllocListStub> {
    let is_selected =
        |alloc: &&AllocListStub| group.is_none_or(|group| alloc.task_group.as_deref() == Some(group));
    let selected: Vec<_> = allocs.iter().filter(is_selected).collect();
    let runs = |alloc: &&AllocListStub| alloc.client_status.as_deref() == Some("running");
    let running: Vec<_> = selected.iter().copied().filter(runs).collect();
    match running.len() {
        0 => selected.into_iter().max_by_key(|alloc| alloc.create_index),
        count => Some(running[(random % count as u128) as usize]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_running_allocation_is_chosen_or_else_the_newest() {
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
        let picked = |group, random| pick(&allocs, group, random).and_then(|alloc| alloc.id.as_deref());
        assert_eq!(picked(None, 0), Some("a"));
        assert_eq!(picked(None, 7), Some("c"));
        assert_eq!(picked(Some("db"), 7), Some("e"), "none runs");
        assert_eq!(picked(Some("cache"), 0), None);
    }
}
