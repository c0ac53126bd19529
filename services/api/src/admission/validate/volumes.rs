//! Validation of the volumes and the scaling policy of a group, and of the mounts and identities of a task (N-19.16, N-19.17,
//! N-19.19).

use api_types::{ScalingPolicy, Task, TaskGroup, VolumeRequest, WorkloadIdentity};
use model::job::JobType;
use model::text::quoted;

use crate::admission::fields::{flag, is_identifier, items, number, text};
use crate::admission::problems::Problems;

/// Name of the identity that every task has.
const DEFAULT_IDENTITY: &str = "default";

/// Checks the volumes of a group.
pub(crate) fn volumes(group: &TaskGroup, kind: Option<JobType>, problems: &mut Problems) {
    for (name, volume) in group.volumes.iter().flatten() {
        problems.nest(
            format_args!("Task group volume validation for {name} failed: "),
            &self::volume(volume, group, kind),
        );
    }
}

fn volume(volume: &VolumeRequest, group: &TaskGroup, kind: Option<JobType>) -> Problems {
    let mut problems = Problems::default();
    let (access, attachment) = (text(&volume.access_mode), text(&volume.attachment_mode));
    let (per_alloc, sticky) = (flag(volume.per_alloc), flag(volume.sticky));
    problems.add_if(text(&volume.source).is_empty(), || "volume has an empty source");
    match text(&volume.r#type) {
        "host" => {
            problems.add_if(volume.mount_options.is_some(), || "host volumes cannot have mount options");
            problems.add_if(!access.is_empty() && !access.starts_with("single-node-"), || {
                format!("host volumes cannot be used with access mode {}", quoted(access))
            });
        }
        "csi" => {
            problems.add_if(attachment.is_empty(), || "CSI volumes must have an attachment mode");
            problems.add_if(access.is_empty(), || "CSI volumes must have an access mode");
            problems.add_if(sticky, || "CSI volumes cannot be sticky");
            let is_exclusive = matches!(
                access,
                "single-node-reader-only" | "single-node-writer" | "multi-node-single-writer"
            );
            problems.add_if(is_exclusive && number(group.count) > 1 && !per_alloc, || {
                format!("volume with access mode {} and count > 1 requires per_alloc", quoted(access))
            });
        }
        other => problems.add(format!("volume has unrecognized type {}", quoted(other))),
    }
    let canaries = group.update.as_ref().is_some_and(|update| number(update.canary) > 0);
    let on_every_node = matches!(kind, Some(JobType::System | JobType::SysBatch));
    problems.add_if(per_alloc && canaries, || "volume cannot be per_alloc when canaries are in use");
    problems.add_if(per_alloc && on_every_node, || "volume cannot be per_alloc for system or sysbatch jobs");
    problems.add_if(per_alloc && sticky, || "volume cannot be per_alloc and sticky at the same time");
    let reads_only = matches!(access, "single-node-reader-only" | "multi-node-reader-only");
    problems.add_if(reads_only && !flag(volume.read_only), || format!("{access} volumes must be read-only"));
    problems
}

/// Checks where a task mounts volumes.
pub(crate) fn mounts(task: &Task, group: &TaskGroup, problems: &mut Problems) {
    for (position, mount) in items(&task.volume_mounts).iter().enumerate() {
        let volume = text(&mount.volume);
        let is_known = group.volumes.as_ref().is_some_and(|volumes| volumes.contains_key(volume));
        problems
            .add_if(!is_known, || format!("Volume Mount ({position}) references undefined volume {volume}"));
        let (mode, mut of_mount) = (text(&mount.propagation_mode), Problems::default());
        of_mount.add_if(!matches!(mode, "" | "private" | "host-to-task" | "bidirectional"), || {
            format!("volume mount has an invalid propagation mode: {}", quoted(mode))
        });
        problems
            .add_if(!of_mount.is_empty(), || format!("Volume Mount ({position}) is invalid: \"{of_mount}\""));
    }
}

/// Checks the count limits of a scaling policy.
pub(crate) fn scaling(policy: &ScalingPolicy, count: i64) -> Problems {
    let mut problems = Problems::default();
    let wrong = |what: &str| format!("Scaling policy invalid: {what}");
    problems.add_if(text(&policy.r#type).is_empty(), || wrong("missing policy type"));
    // The minimum is the group's count by default. A maximum that is absent counts as less than none.
    let (min, max) = (policy.min.unwrap_or(count), policy.max.unwrap_or(-1));
    problems.add_if(max < 0, || wrong("maximum count must be specified and non-negative"));
    problems.add_if(min < 0, || wrong("minimum count must be specified and non-negative"));
    problems.add_if(policy.max.is_some() && max < min, || {
        wrong("maximum count must not be less than minimum count")
    });
    problems.add_if(count > max, || {
        wrong("task group count must not be greater than maximum count in scaling policy")
    });
    problems.add_if(count < min, || {
        wrong("task group count must not be less than minimum count in scaling policy")
    });
    problems
}

/// Checks the identities of a task, the default one first.
pub(crate) fn identities(
    default: Option<&WorkloadIdentity>,
    others: &Option<Vec<WorkloadIdentity>>,
    problems: &mut Problems,
) {
    let mut has_default = default.is_some();
    if let Some(identity) = default {
        let name = Some(text(&identity.name)).filter(|name| !name.is_empty()).unwrap_or(DEFAULT_IDENTITY);
        problems
            .nest(format_args!("Identity {} is invalid: ", quoted(name)), &self::identity(identity, true));
    }
    for identity in items(others) {
        let name = text(&identity.name);
        let is_default = name == DEFAULT_IDENTITY;
        problems.add_if(is_default && has_default, || "Duplicate default identities found");
        has_default |= is_default;
        problems.nest(
            format_args!("Identity {} is invalid: ", quoted(name)),
            &self::identity(identity, is_default),
        );
    }
}

/// Checks an identity. One without a name may have it from elsewhere.
fn identity(identity: &WorkloadIdentity, is_default: bool) -> Problems {
    let mut problems = Problems::default();
    let name = text(&identity.name);
    problems.add_if(!name.is_empty() && !is_identifier(name), || {
        format!("invalid name {}. Must match regex ^[a-zA-Z0-9-_]{{1,128}}$", quoted(name))
    });
    for (position, audience) in (1..).zip(items(&identity.audience)) {
        problems
            .add_if(audience.is_empty(), || format!("an empty string is an invalid audience ({position})"));
    }
    let ttl = number(identity.ttl);
    problems.add_if(ttl < 0, || "ttl must be >= 0");
    problems.add_if(is_default && ttl > 0, || "ttl for default identity not yet supported");
    let (mode, signal) = (text(&identity.change_mode), text(&identity.change_signal));
    problems.add_if(!matches!(mode, "" | "noop" | "restart" | "signal"), || {
        format!("invalid change_mode: {mode}")
    });
    problems.add_if(
        mode == "signal" && signal.is_empty(),
        || "change_signal must be specified when using change_mode=\"signal\"",
    );
    problems.add_if(
        mode != "signal" && !signal.is_empty(),
        || "can only use change_signal=signal with change_mode=signal",
    );
    problems.add_if(
        !text(&identity.filepath).is_empty() && !flag(identity.file),
        || "file must be true if filepath is specified",
    );
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csi() -> VolumeRequest {
        VolumeRequest {
            r#type: Some("csi".to_owned()),
            source: Some("data".to_owned()),
            access_mode: Some("single-node-writer".to_owned()),
            attachment_mode: Some("file-system".to_owned()),
            ..VolumeRequest::default()
        }
    }

    #[test]
    fn a_volume_for_one_is_not_for_many() {
        let found = |volume: &VolumeRequest, count| {
            let group = TaskGroup { count: Some(count), ..TaskGroup::default() };
            self::volume(volume, &group, Some(JobType::Service)).into_vec()
        };
        assert_eq!(found(&csi(), 1), [""; 0]);
        assert_eq!(found(&csi(), 2).len(), 1);
        assert_eq!(found(&VolumeRequest { per_alloc: Some(true), ..csi() }, 2), [""; 0]);
        let host = VolumeRequest { r#type: Some("host".to_owned()), ..csi() };
        assert_eq!(found(&host, 2), [""; 0]);
        let many = VolumeRequest { access_mode: Some("multi-node-multi-writer".to_owned()), ..host };
        assert_eq!(found(&many, 1).len(), 1);
    }

    #[test]
    fn identities_say_who_they_are_for() {
        let named =
            |name: &str| WorkloadIdentity { name: Some(name.to_owned()), ..WorkloadIdentity::default() };
        let found = |others: Vec<WorkloadIdentity>| {
            let mut problems = Problems::default();
            identities(Some(&named("default")), &Some(others), &mut problems);
            problems.into_vec()
        };
        assert_eq!(found(vec![named("vault_default")]), [""; 0]);
        assert_eq!(found(vec![named("default")]), ["Duplicate default identities found"]);
        assert_eq!(found(vec![named("not this")]).len(), 1);
        let signal = WorkloadIdentity { change_mode: Some("signal".to_owned()), ..named("a") };
        assert_eq!(found(vec![signal]).len(), 1);
    }
}
