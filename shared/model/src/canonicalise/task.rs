//! Defaults of tasks and of their templates, artifacts and Vault access.

use api_types::{Task, TaskArtifact, TaskCsiPluginConfig, Template, Vault};

use super::defaults::{self, Block};
use super::merge::merge_block;
use super::resources::{resources, volume_mount};
use super::{affinity, each, fill, fill_empty, fill_zero, service, text};

/// Fills in the defaults of a task, except those of its restart policy.
pub(super) fn canonicalise(task: &mut Task, job_id: &str, group_name: &str) {
    fill(&mut task.kill_timeout, defaults::KILL_TIMEOUT.0);
    resources(task.resources.get_or_insert_default());
    merge_block(&mut task.log_config, None, &Block::always(defaults::LOG_CONFIG));
    each(&mut task.affinities).for_each(affinity);
    each(&mut task.templates).for_each(template);
    each(&mut task.artifacts).for_each(artifact);
    each(&mut task.volume_mounts).for_each(volume_mount);
    for service in each(&mut task.services) {
        service::canonicalise(service, || format!("{job_id}-{group_name}-{}", text(&task.name)));
    }
    if let Some(block) = &mut task.vault {
        vault(block);
    }
    if let Some(consul) = &mut task.consul {
        fill_empty(&mut consul.cluster, defaults::CLUSTER);
    }
    if let Some(plugin) = &mut task.csi_plugin_config {
        csi_plugin(plugin);
    }
}

fn template(template: &mut Template) {
    fill(&mut template.change_mode, defaults::CHANGE_MODE);
    let signal = if text(&template.change_mode) == "signal" { defaults::CHANGE_SIGNAL } else { "" };
    fill(&mut template.change_signal, signal);
    if let Some(signal) = &mut template.change_signal {
        signal.make_ascii_uppercase();
    }
    fill(&mut template.splay, defaults::SPLAY.0);
    fill(&mut template.perms, defaults::PERMS);
    fill(&mut template.left_delim, defaults::DELIMITERS.0);
    fill(&mut template.right_delim, defaults::DELIMITERS.1);
    if let Some(script) = &mut template.change_script {
        fill(&mut script.args, Vec::new());
        fill(&mut script.timeout, defaults::SCRIPT_TIMEOUT.0);
    }
}

fn artifact(artifact: &mut TaskArtifact) {
    fill(&mut artifact.getter_mode, defaults::GETTER_MODE);
    let source = text(&artifact.getter_source).trim_end_matches('/');
    let file_name = match text(&artifact.getter_mode) {
        "file" => source.rsplit('/').next().unwrap_or_default(),
        _ => "",
    };
    fill(&mut artifact.relative_dest, format!("{}{file_name}", defaults::DOWNLOADS));
}

fn vault(vault: &mut Vault) {
    fill(&mut vault.env, true);
    fill(&mut vault.change_mode, defaults::CHANGE_MODE);
    fill(&mut vault.change_signal, defaults::CHANGE_SIGNAL);
    fill_empty(&mut vault.cluster, defaults::CLUSTER);
}

fn csi_plugin(plugin: &mut TaskCsiPluginConfig) {
    fill_empty(&mut plugin.mount_dir, defaults::CSI_MOUNT_DIR);
    fill_empty(&mut plugin.stage_publish_base_dir, defaults::CSI_STAGE_DIR);
    fill_zero(&mut plugin.health_timeout, defaults::CSI_HEALTH_TIMEOUT.0);
}
