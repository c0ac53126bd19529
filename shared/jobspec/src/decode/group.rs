//! Task groups, and blocks that the tasks of a group share.

use api_types::{CsiMountOptions, EphemeralDisk, Secret, Task, TaskGroup, Vault, VolumeRequest};

use super::{access, block::Block, network, policies, service, task};

pub(super) fn group(block: &mut Block<'_>) -> TaskGroup {
    let volumes = block.labelled("volume", volume).unwrap_or_default();
    let named = |volume: VolumeRequest| Some((volume.name.clone()?, volume));
    let mut group = TaskGroup {
        name: block.label(),
        count: block.int("count"),
        shutdown_delay: block.duration("shutdown_delay"),
        max_run_duration: block.duration("max_run_duration"),
        stop_after_client_disconnect: block.duration("stop_after_client_disconnect"),
        max_client_disconnect: block.duration("max_client_disconnect"),
        prevent_reschedule_on_lost: block.flag("prevent_reschedule_on_lost"),
        constraints: block.many("constraint", policies::constraint),
        affinities: block.many("affinity", policies::affinity),
        tasks: block.labelled("task", task::task),
        spreads: block.many("spread", policies::spread),
        volumes: (!volumes.is_empty()).then(|| volumes.into_iter().filter_map(named).collect()),
        restart_policy: block.one("restart", policies::restart),
        disconnect: block.one("disconnect", policies::disconnect),
        reschedule_policy: block.one("reschedule", policies::reschedule),
        ephemeral_disk: block.one("ephemeral_disk", ephemeral_disk),
        update: block.one("update", policies::update),
        migrate: block.one("migrate", policies::migrate),
        networks: block.many("network", network::network),
        meta: block.text_map("meta"),
        services: block.many("service", service::service),
        scaling: block.one("scaling", policies::group_scaling).map(Box::new),
        consul: block.one("consul", access::consul),
    };
    // The last of several vault blocks applies (§1).
    let vault = block.many("vault", access::vault).and_then(|mut vaults| vaults.pop());
    let secrets = block.labelled("secret", access::secret).unwrap_or_default();
    // An error has been recorded if there is too much to inherit.
    let _ = Inherited::new(vault, secrets).give_to(&mut group, block);
    group
}

/// The group for a task directly under the job.
pub(super) fn of_one_task(task: Task) -> TaskGroup {
    TaskGroup { name: task.name.clone(), tasks: Some(vec![task]), ..TaskGroup::default() }
}

/// The parts that tasks inherit from their group or job: a vault block, and secrets.
pub(super) struct Inherited {
    vault: Option<Vault>,
    secrets: Vec<Secret>,
    /// The approximate size of a copy of either, in bytes.
    vault_bytes: usize,
    secrets_bytes: usize,
}

impl Inherited {
    pub(super) fn new(vault: Option<Vault>, secrets: Vec<Secret>) -> Inherited {
        let length = |json: serde_json::Result<String>| json.map_or(0, |json| json.len());
        let vault_bytes = size_of::<Vault>() + length(serde_json::to_string(&vault));
        let secrets_bytes = secrets.len() * size_of::<Secret>() + length(serde_json::to_string(&secrets));
        Inherited { vault, secrets, vault_bytes, secrets_bytes }
    }

    /// Gives every task without a vault block this one, and appends the secrets to those of every task. `None` if the file's
    /// limit is exceeded, because many secrets for each of many tasks are far more than the file.
    pub(super) fn give_to(&self, group: &mut TaskGroup, block: &Block<'_>) -> Option<()> {
        for task in group.tasks.iter_mut().flatten() {
            if let (None, Some(vault)) = (&task.vault, &self.vault) {
                block.spend(self.vault_bytes)?;
                task.vault = Some(Box::new(vault.clone()));
            }
            if !self.secrets.is_empty() {
                block.spend(self.secrets_bytes)?;
                task.secrets.get_or_insert_default().extend_from_slice(&self.secrets);
            }
        }
        Some(())
    }
}

fn ephemeral_disk(block: &mut Block<'_>) -> EphemeralDisk {
    EphemeralDisk { sticky: block.flag("sticky"), size_mb: block.int("size"), migrate: block.flag("migrate") }
}

fn volume(block: &mut Block<'_>) -> VolumeRequest {
    VolumeRequest {
        name: block.label(),
        r#type: block.text_or_empty("type"),
        source: block.text_or_empty("source"),
        read_only: block.flag_or_false("read_only"),
        sticky: block.flag_or_false("sticky"),
        access_mode: block.text_or_empty("access_mode"),
        attachment_mode: block.text_or_empty("attachment_mode"),
        mount_options: block.one("mount_options", |block| CsiMountOptions {
            fs_type: block.text("fs_type"),
            mount_flags: block.texts("mount_flags"),
        }),
        per_alloc: block.flag_or_false("per_alloc"),
    }
}
