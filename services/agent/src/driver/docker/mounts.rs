//! What is mounted into a container: the directories of the allocation, volumes of the group, and what the task asks for,
//! as far as the operator allows it (A-22.7). Pure.

use std::path::{Component, Path, PathBuf};

use model::text::quoted;
use serde_json::{Value, json};

use super::config::{MountConfig, MountKind, TaskConfig};
use super::settings::Settings;
use crate::disk::dirs::TaskDirs;
use crate::driver::start::{Mount, Propagation, Start};

/// The paths at which containers see their directories (A-13.4).
const ALLOC_DIR: &str = "/alloc";
const LOGS_DIR: &str = "/alloc/logs";
const LOCAL_DIR: &str = "/local";
const SECRETS_DIR: &str = "/secrets";

/// How the engine names the propagation of mounts.
const RSLAVE: &str = "rslave";
const RSHARED: &str = "rshared";

/// What is mounted into a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Mounts {
    /// `source:target[:options]`.
    pub(super) binds: Vec<String>,
    /// Mounts that say more.
    pub(super) mounts: Vec<Value>,
    /// Sources within the allocation's directory, which must not lead out of it by a link.
    pub(super) own_sources: Vec<PathBuf>,
}

/// The mounts of a task.
///
/// # Errors
/// If the task may not mount something, or a path cannot be written as the engine reads it.
pub(super) fn mounts(settings: &Settings, config: &TaskConfig, start: &Start) -> Result<Mounts, String> {
    let mut all = Mounts::default();
    let label = settings.volumes_selinux_label.as_str();
    let dirs = &start.dirs;
    let own = [
        (dirs.shared.clone(), ALLOC_DIR, false),
        // The collector writes there.
        (dirs.shared.join("logs"), LOGS_DIR, true),
        (dirs.local.clone(), LOCAL_DIR, false),
        (dirs.secrets.clone(), SECRETS_DIR, false),
    ];
    for (source, target, read_only) in own {
        let options = [if read_only { "ro" } else { "" }, label];
        all.binds.push(bind(&source, target, &options)?);
    }
    for mount in &start.mounts {
        all.binds.push(group_volume(mount, label)?);
    }
    for volume in &config.volumes {
        task_volume(settings, config, dirs, volume, &mut all)?;
    }
    for mount in &config.mounts {
        task_mount(settings, dirs, mount, &mut all)?;
    }
    if let Some(network) = &start.network {
        let files = [(&network.hosts_file, "/etc/hosts"), (&network.resolv_conf, "/etc/resolv.conf")];
        for (file, target) in files {
            if let Some(file) = file {
                all.binds.push(bind(file, target, &["ro", label])?);
            }
        }
    }
    Ok(all)
}

fn bind(source: &Path, target: &str, options: &[&str]) -> Result<String, String> {
    let source = source.display().to_string();
    if source.contains(':') || target.contains(':') {
        return Err(format!(
            "cannot mount {} at {}: the paths must not contain a colon",
            quoted(&source),
            quoted(target)
        ));
    }
    let options: Vec<&str> = options.iter().copied().filter(|option| !option.is_empty()).collect();
    let separator = if options.is_empty() { "" } else { ":" };
    Ok(format!("{source}:{target}{separator}{}", options.join(",")))
}

/// A volume of the group, which a hook has prepared.
fn group_volume(mount: &Mount, label: &str) -> Result<String, String> {
    let propagation = match mount.propagation {
        Propagation::Private => "",
        Propagation::HostToTask => RSLAVE,
        Propagation::Bidirectional => RSHARED,
    };
    let read_only = if mount.read_only { "ro" } else { "" };
    let label = if mount.selinux_label.is_empty() { label } else { &mount.selinux_label };
    bind(&mount.source, &mount.target.display().to_string(), &[read_only, propagation, label])
}

/// An entry of `volumes`.
fn task_volume(
    settings: &Settings,
    config: &TaskConfig,
    dirs: &TaskDirs,
    volume: &str,
    all: &mut Mounts,
) -> Result<(), String> {
    let mut parts = volume.splitn(3, ':');
    let (source, target) = match (parts.next(), parts.next()) {
        (Some(source), Some(target)) if !source.is_empty() && target.starts_with('/') => (source, target),
        _ => {
            return Err(format!(
                "volumes: expected source:/target or source:/target:mode, not {}",
                quoted(volume)
            ));
        }
    };
    let mode = parts.next().unwrap_or_default();
    let label = settings.volumes_selinux_label.as_str();
    if !config.volume_driver.is_empty() && !source.starts_with('/') {
        check_volumes(settings, "mount volume", source)?;
        all.binds.push(bind(Path::new(source), target, &[mode])?);
        return Ok(());
    }
    let source = host_path(settings, dirs, source)?;
    all.binds.push(bind(&source.path, target, &[mode, label])?);
    all.own_sources.extend(source.is_own.then_some(source.path));
    Ok(())
}

/// A block `mount`.
fn task_mount(
    settings: &Settings,
    dirs: &TaskDirs,
    mount: &MountConfig,
    all: &mut Mounts,
) -> Result<(), String> {
    let mut body = json!({ "Target": mount.target, "ReadOnly": mount.readonly });
    match &mount.kind {
        MountKind::Bind { propagation } => {
            let source = host_path(settings, dirs, &mount.source)?;
            body["Type"] = json!("bind");
            body["Source"] = json!(source.path.display().to_string());
            if !propagation.is_empty() {
                body["BindOptions"] = json!({ "Propagation": propagation });
            }
            all.own_sources.extend(source.is_own.then_some(source.path));
        }
        MountKind::Volume { no_copy, labels, driver } => {
            check_volumes(settings, "mount volume", &mount.source)?;
            body["Type"] = json!("volume");
            body["Source"] = json!(mount.source);
            let mut options = json!({ "NoCopy": no_copy, "Labels": labels });
            if let Some((name, driver_options)) = driver {
                options["DriverConfig"] = json!({ "Name": name, "Options": driver_options });
            }
            body["VolumeOptions"] = options;
        }
        MountKind::Tmpfs { bytes, mode } => {
            body["Type"] = json!("tmpfs");
            body["TmpfsOptions"] = json!({ "SizeBytes": bytes, "Mode": mode });
        }
    }
    all.mounts.push(body);
    Ok(())
}

fn check_volumes(settings: &Settings, what: &str, source: &str) -> Result<(), String> {
    if settings.volumes_enabled {
        return Ok(());
    }
    Err(format!("volumes are not enabled; cannot {what}: {}", quoted(source)))
}

/// A path of the node.
struct HostPath {
    path: PathBuf,
    /// Whether it is within the allocation's directory.
    is_own: bool,
}

/// The path of a mount's source. A relative one is below the task's directory.
fn host_path(settings: &Settings, dirs: &TaskDirs, source: &str) -> Result<HostPath, String> {
    let path = without_dots(&dirs.task.join(source));
    let is_own = path.starts_with(&dirs.alloc);
    if !is_own {
        check_volumes(settings, "mount host path", source)?;
    }
    Ok(HostPath { path, is_own })
}

/// The path without `.` and `..`.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::read;
    use super::super::create::tests::start;
    use super::*;

    fn mounted(settings: &Settings, config: Value) -> Result<Mounts, String> {
        mounts(settings, &read(config).unwrap(), &start())
    }

    fn enabled() -> Settings {
        Settings { volumes_enabled: true, ..Settings::default() }
    }

    #[test]
    fn every_container_sees_its_directories() {
        let all = mounted(&Settings::default(), json!({ "image": "a" })).unwrap();
        let expected = [
            "/d/1/alloc:/alloc",
            "/d/1/alloc/logs:/alloc/logs:ro",
            "/d/1/web/local:/local",
            "/d/1/web/secrets:/secrets",
        ];
        assert_eq!(all.binds, expected);
        let labelled = Settings { volumes_selinux_label: "z".into(), ..Settings::default() };
        let all = mounted(&labelled, json!({ "image": "a" })).unwrap();
        assert_eq!(all.binds[1], "/d/1/alloc/logs:/alloc/logs:ro,z");
    }

    #[test]
    fn relative_sources_are_below_the_task_and_others_need_permission() {
        let config = json!({ "image": "a", "volumes": ["local/a:/a", "../alloc/data:/b:ro"] });
        let all = mounted(&Settings::default(), config).unwrap();
        assert_eq!(all.binds[4..], ["/d/1/web/local/a:/a", "/d/1/alloc/data:/b:ro"]);
        assert_eq!(all.own_sources, [PathBuf::from("/d/1/web/local/a"), PathBuf::from("/d/1/alloc/data")]);
        for source in ["/etc", "../../2/web", "../../../etc"] {
            for config in [
                json!({ "image": "a", "volumes": [format!("{source}:/x")] }),
                json!({ "image": "a", "mount": { "type": "bind", "source": source, "target": "/x" } }),
            ] {
                let error = mounted(&Settings::default(), config.clone()).unwrap_err();
                let expected = format!("volumes are not enabled; cannot mount host path: {}", quoted(source));
                assert_eq!(error, expected);
                mounted(&enabled(), config).unwrap();
            }
        }
        let config = json!({ "image": "a", "mount": { "source": "data", "target": "/x" } });
        let error = mounted(&Settings::default(), config.clone()).unwrap_err();
        assert_eq!(error, r#"volumes are not enabled; cannot mount volume: "data""#);
        assert_eq!(mounted(&enabled(), config).unwrap().mounts[0]["Type"], "volume");
        for volume in ["a", ":/a", "a:b"] {
            let error = mounted(&enabled(), json!({ "image": "a", "volumes": [volume] })).unwrap_err();
            assert!(error.starts_with("volumes: expected source:/target"), "{error}");
        }
    }

    #[test]
    fn mounts_are_described_in_full() {
        let config = json!({ "image": "a", "mounts": [
            { "type": "bind", "source": "local", "target": "/a", "readonly": true, "bind_options": { "propagation": "rslave" } },
            { "type": "tmpfs", "target": "/b", "tmpfs_options": { "size": 1000, "mode": 448 } },
            { "type": "volume", "source": "v", "target": "/c", "volume_options": { "no_copy": true,
              "driver_config": { "name": "local", "options": { "type": "nfs" } } } },
        ] });
        assert_eq!(
            mounted(&enabled(), config).unwrap().mounts,
            [
                json!({ "Target": "/a", "ReadOnly": true, "Type": "bind", "Source": "/d/1/web/local",
                        "BindOptions": { "Propagation": "rslave" } }),
                json!({ "Target": "/b", "ReadOnly": false, "Type": "tmpfs",
                        "TmpfsOptions": { "SizeBytes": 1000, "Mode": 448 } }),
                json!({ "Target": "/c", "ReadOnly": false, "Type": "volume", "Source": "v",
                        "VolumeOptions": { "NoCopy": true, "Labels": {},
                                           "DriverConfig": { "Name": "local", "Options": { "type": "nfs" } } } }),
            ]
        );
    }
}
