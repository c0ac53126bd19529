//! Selects the allocation for a command: by id, or any allocation of a job.

use anyhow::Context as _;
use api_types::AllocListStub;
use telemetry::clock;

use crate::cli::chosen::{pick, resolve};
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
