//! Validation of the volumes and the scaling policy of a group, and of the identities of a task (N-19.16, N-19.17,
//! N-19.19).

use api_types::{ScalingPolicy, TaskGroup, VolumeRequest, WorkloadIdentity};
use model::job::JobType;
use model::text::quoted;

use crate::admission::fields::{flag, items, number, text};
use crate::admission::problems::Problems;

/// Maximum length of an identity's name.
const IDENTITY_NAME_BYTES_MAX: usize = 128;
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
    let canaries = group.update.as_ref().is_some_and(|update| number(update.canary) > 0);
    let on_every_node = matches!(kind, Some(JobType::System | JobType::SysBatch));
    problems.add_if(per_alloc && canaries, || "volume cannot be per_alloc when canaries are in use");
    problems.add_if(per_alloc && on_every_node, || "volume cannot be per_alloc for system or sysbatch jobs");
    problems.add_if(per_alloc && sticky, || "volume cannot be per_alloc when sticky");
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
    let reads_only = matches!(access, "single-node-reader-only" | "multi-node-reader-only");
    problems.add_if(reads_only && !flag(volume.read_only), || {
        format!("volume with access mode {} must be read-only", quoted(access))
    });
    problems
}

/// Checks the count limits of a scaling policy.
pub(crate) fn scaling(policy: &ScalingPolicy, count: i64) -> Problems {
    let mut problems = Problems::default();
    let wrong = |what: &str| format!("Scaling policy invalid: {what}");
    problems.add_if(text(&policy.r#type).is_empty(), || wrong("missing policy type"));
    let (min, Some(max)) = (number(policy.min), policy.max) else {
        problems.add(wrong("maximum count must be specified"));
        return problems;
    };
    problems.add_if(max < 0, || wrong("maximum count must be specified and non-negative"));
    problems.add_if(max < min, || wrong("maximum count must not be less than minimum count"));
    problems.add_if(min < 0, || wrong("minimum count must be specified and non-negative"));
    problems.add_if(count < min, || {
        wrong("task group count must not be less than minimum count in scaling policy")
    });
    problems.add_if(count > max && max >= min, || {
        wrong("task group count must not be greater than maximum count in scaling policy")
    });
    problems
}

/// Checks the identities of a task, the default one first.
pub(crate) fn identities(
    default: Option<&WorkloadIdentity>,
    others: &Option<Vec<WorkloadIdentity>>,
    problems: &mut Problems,
) {
    let mut defaults = 0;
    for (position, identity) in default.into_iter().chain(items(others)).enumerate() {
        let name = text(&identity.name);
        let is_default = position == 0 && default.is_some() || matches!(name, "" | DEFAULT_IDENTITY);
        defaults += usize::from(is_default);
        problems.nest(
            format_args!("Identity {} is invalid: ", quoted(name)),
            &self::identity(identity, is_default),
        );
    }
    problems.add_if(defaults > 1, || "Duplicate default identities found");
}

fn identity(identity: &WorkloadIdentity, is_default: bool) -> Problems {
    let mut problems = Problems::default();
    let name = text(&identity.name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    problems.add_if(
        !is_default && (name.len() > IDENTITY_NAME_BYTES_MAX || !name.bytes().all(is_plain)),
        || {
            format!(
                "invalid name {}: at most {IDENTITY_NAME_BYTES_MAX} letters, digits, dashes and underscores",
                quoted(name)
            )
        },
    );
    for (position, audience) in (1..).zip(items(&identity.audience)) {
        problems
            .add_if(audience.is_empty(), || format!("an empty string is an invalid audience ({position})"));
    }
    let ttl = number(identity.ttl);
    problems.add_if(ttl < 0, || "ttl must be >= 0");
    problems.add_if(is_default && ttl > 0, || "ttl for default identity not yet supported");
    let (mode, signal) = (text(&identity.change_mode), text(&identity.change_signal));
    problems.add_if(!matches!(mode, "" | "noop" | "restart" | "signal"), || {
        format!("change_mode must be noop, restart or signal; not {}", quoted(mode))
    });
    problems.add_if(
        mode == "signal" && signal.is_empty(),
        || "change_signal must be specified when using change_mode=signal",
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
