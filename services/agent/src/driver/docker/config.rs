//! The configuration of a task (A-22.7), as far as it does not depend on the node. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::values::Fields;

/// The configuration of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TaskConfig {
    /// The image, where it comes from, and when it is fetched.
    pub(super) image: ImageConfig,
    /// What runs in the container.
    pub(super) process: ProcessConfig,
    /// The container's networks and names.
    pub(super) network: NetworkConfig,
    /// What the container may use.
    pub(super) limits: LimitsConfig,
    /// What the container is allowed to do.
    pub(super) security: SecurityConfig,
    /// `source:target[:mode]`.
    pub(super) volumes: Vec<String>,
    pub(super) volume_driver: String,
    pub(super) mounts: Vec<MountConfig>,
    pub(super) devices: Vec<DeviceConfig>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) logging: Option<LoggingConfig>,
    pub(super) container_exists_attempts: Option<u32>,
}

/// The image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ImageConfig {
    pub(super) name: String,
    /// An archive in the task's directory.
    pub(super) load: String,
    pub(super) force_pull: bool,
    pub(super) pull_timeout: Option<Duration>,
    pub(super) auth: Option<AuthConfig>,
    pub(super) auth_soft_fail: bool,
}

/// Credentials for a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AuthConfig {
    pub(super) username: String,
    pub(super) password: String,
    pub(super) email: String,
    pub(super) server_address: String,
}

/// What runs in the container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProcessConfig {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) work_dir: String,
    pub(super) group_add: Vec<String>,
    pub(super) init: bool,
    pub(super) tty: bool,
    pub(super) interactive: bool,
    pub(super) healthchecks_disabled: bool,
    pub(super) runtime: String,
}

/// The container's networks and names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NetworkConfig {
    pub(super) mode: String,
    pub(super) aliases: Vec<String>,
    pub(super) ipv4: String,
    pub(super) ipv6: String,
    pub(super) advertise_ipv6: bool,
    pub(super) mac: String,
    pub(super) hostname: String,
    /// Labels of ports that are published.
    pub(super) ports: Vec<String>,
    /// Ports in the container by label.
    pub(super) port_map: BTreeMap<String, u16>,
    pub(super) extra_hosts: Vec<String>,
    pub(super) dns_servers: Vec<String>,
    pub(super) dns_search_domains: Vec<String>,
    pub(super) dns_options: Vec<String>,
}

/// What the container may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LimitsConfig {
    pub(super) cpu_hard_limit: bool,
    pub(super) cpu_cfs_period: Option<i64>,
    /// In MB.
    pub(super) memory_hard_limit: i64,
    pub(super) pids_limit: i64,
    /// In bytes.
    pub(super) shm_size: i64,
    pub(super) oom_score_adj: Option<i64>,
    /// `soft:hard` or a number, by name.
    pub(super) ulimits: BTreeMap<String, String>,
    pub(super) storage_opt: BTreeMap<String, String>,
}

/// What the container is allowed to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SecurityConfig {
    pub(super) privileged: bool,
    pub(super) cap_add: Vec<String>,
    pub(super) cap_drop: Vec<String>,
    pub(super) security_opt: Vec<String>,
    pub(super) readonly_rootfs: bool,
    pub(super) sysctl: BTreeMap<String, String>,
    pub(super) cgroupns: String,
    pub(super) ipc_mode: String,
    pub(super) pid_mode: String,
    pub(super) userns_mode: String,
    pub(super) uts_mode: String,
}

/// The log driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LoggingConfig {
    pub(super) driver: String,
    pub(super) config: BTreeMap<String, String>,
}

/// A device of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DeviceConfig {
    pub(super) host_path: String,
    pub(super) container_path: String,
    pub(super) permissions: String,
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MountConfig {
    pub(super) target: String,
    pub(super) source: String,
    pub(super) readonly: bool,
    pub(super) kind: MountKind,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MountKind {
    /// A file or directory of the node.
    Bind { propagation: String },
    /// A volume of the engine.
    Volume {
        no_copy: bool,
        labels: BTreeMap<String, String>,
        driver: Option<(String, BTreeMap<String, String>)>,
    },
    /// A file system in memory.
    Tmpfs { bytes: i64, mode: i64 },
}

impl TaskConfig {
    /// Reads a configuration.
    ///
    /// # Errors
    /// If a value has the wrong type, a key is unknown, or it can have no effect here.
    pub(super) fn read(values: impl IntoIterator<Item = (String, Value)>) -> Result<Self, String> {
        let mut fields = Fields::new(values);
        let image = ImageConfig::read(&mut fields)?;
        let config = Self {
            image,
            process: ProcessConfig::read(&mut fields)?,
            network: NetworkConfig::read(&mut fields)?,
            limits: LimitsConfig::read(&mut fields)?,
            security: SecurityConfig::read(&mut fields)?,
            volumes: fields.texts("volumes")?,
            volume_driver: fields.text("volume_driver")?,
            mounts: mounts(&mut fields)?,
            devices: devices(&mut fields)?,
            labels: fields.map("labels")?,
            logging: logging(&mut fields)?,
            container_exists_attempts: fields
                .number("container_exists_attempts")?
                .map(|count| {
                    u32::try_from(count).map_err(|_| "container_exists_attempts: negative".to_owned())
                })
                .transpose()?,
        };
        // The reference accepts it without effect: the node decides about cores.
        fields.text("cpuset_cpus")?;
        if fields.maybe_text("isolation")?.is_some_and(|isolation| !isolation.is_empty()) {
            return Err("isolation: only containers of Windows have it".to_owned());
        }
        fields.finish()?;
        Ok(config)
    }
}

impl ImageConfig {
    fn read(fields: &mut Fields) -> Result<Self, String> {
        let name = fields.text("image")?;
        if name.is_empty() {
            return Err("image name required for docker driver".to_owned());
        }
        let auth = match fields.block("auth")? {
            None => None,
            Some(mut auth) => {
                let read = AuthConfig {
                    username: auth.text("username")?,
                    password: auth.text("password")?,
                    email: auth.text("email")?,
                    server_address: auth.text("server_address")?,
                };
                auth.finish()?;
                Some(read)
            }
        };
        Ok(Self {
            name,
            load: fields.text("load")?,
            force_pull: fields.flag("force_pull")?,
            pull_timeout: fields.duration("image_pull_timeout")?,
            auth,
            auth_soft_fail: fields.flag("auth_soft_fail")?,
        })
    }
}

impl ProcessConfig {
    fn read(fields: &mut Fields) -> Result<Self, String> {
        let healthchecks_disabled = match fields.block("healthchecks")? {
            None => false,
            Some(mut healthchecks) => {
                let disabled = healthchecks.flag("disable")?;
                healthchecks.finish()?;
                disabled
            }
        };
        Ok(Self {
            command: fields.text("command")?,
            args: fields.texts("args")?,
            entrypoint: fields.maybe_texts("entrypoint")?,
            work_dir: fields.text("work_dir")?,
            group_add: fields.texts("group_add")?,
            init: fields.flag("init")?,
            tty: fields.flag("tty")?,
            interactive: fields.flag("interactive")?,
            healthchecks_disabled,
            runtime: fields.text("runtime")?,
        })
    }
}

impl NetworkConfig {
    fn read(fields: &mut Fields) -> Result<Self, String> {
        let port_map = fields.map("port_map")?.into_iter().map(|(label, port)| match port.parse::<u16>() {
            Ok(port) => Ok((label, port)),
            Err(_) => Err(format!("port_map.{label}: expected a port, not {port}")),
        });
        Ok(Self {
            mode: fields.text("network_mode")?,
            aliases: fields.texts("network_aliases")?,
            ipv4: fields.text("ipv4_address")?,
            ipv6: fields.text("ipv6_address")?,
            advertise_ipv6: fields.flag("advertise_ipv6_address")?,
            mac: fields.text("mac_address")?,
            hostname: fields.text("hostname")?,
            ports: fields.texts("ports")?,
            port_map: port_map.collect::<Result<_, String>>()?,
            extra_hosts: fields.texts("extra_hosts")?,
            dns_servers: fields.texts("dns_servers")?,
            dns_search_domains: fields.texts("dns_search_domains")?,
            dns_options: fields.texts("dns_options")?,
        })
    }
}

impl LimitsConfig {
    fn read(fields: &mut Fields) -> Result<Self, String> {
        Ok(Self {
            cpu_hard_limit: fields.flag("cpu_hard_limit")?,
            cpu_cfs_period: fields.number("cpu_cfs_period")?,
            memory_hard_limit: fields.number("memory_hard_limit")?.unwrap_or(0),
            pids_limit: fields.number("pids_limit")?.unwrap_or(0),
            shm_size: fields.number("shm_size")?.unwrap_or(0),
            oom_score_adj: fields.number("oom_score_adj")?,
            ulimits: fields.map("ulimit")?,
            storage_opt: fields.map("storage_opt")?,
        })
    }
}

impl SecurityConfig {
    fn read(fields: &mut Fields) -> Result<Self, String> {
        Ok(Self {
            privileged: fields.flag("privileged")?,
            cap_add: fields.texts("cap_add")?,
            cap_drop: fields.texts("cap_drop")?,
            security_opt: fields.texts("security_opt")?,
            readonly_rootfs: fields.flag("readonly_rootfs")?,
            sysctl: fields.map("sysctl")?,
            cgroupns: fields.text("cgroupns")?,
            ipc_mode: fields.text("ipc_mode")?,
            pid_mode: fields.text("pid_mode")?,
            userns_mode: fields.text("userns_mode")?,
            uts_mode: fields.text("uts_mode")?,
        })
    }
}

fn logging(fields: &mut Fields) -> Result<Option<LoggingConfig>, String> {
    let Some(mut logging) = fields.block("logging")? else { return Ok(None) };
    let (kind, driver) = (logging.text("type")?, logging.text("driver")?);
    let config = logging.map("config")?;
    logging.finish()?;
    let driver = match (kind.is_empty(), driver.is_empty()) {
        (false, false) if kind != driver => {
            return Err("logging: type and driver mean the same; give one of them".to_owned());
        }
        (true, _) => driver,
        (false, _) => kind,
    };
    Ok(Some(LoggingConfig { driver, config }))
}

fn devices(fields: &mut Fields) -> Result<Vec<DeviceConfig>, String> {
    let read = |mut device: Fields| {
        let read = DeviceConfig {
            host_path: device.text("host_path")?,
            container_path: device.text("container_path")?,
            permissions: device.text("cgroup_permissions")?,
        };
        device.finish()?;
        if read.host_path.is_empty() {
            return Err("devices.host_path: it must be set".to_owned());
        }
        if !read.permissions.chars().all(|permission| "rwm".contains(permission)) {
            return Err(format!("devices.cgroup_permissions: any of r, w and m, not {}", read.permissions));
        }
        Ok(read)
    };
    fields.blocks("devices")?.into_iter().map(read).collect()
}

/// The blocks `mount`, and the list `mounts`.
fn mounts(fields: &mut Fields) -> Result<Vec<MountConfig>, String> {
    let mut blocks = fields.blocks("mount")?;
    blocks.extend(fields.blocks("mounts")?);
    blocks.into_iter().map(mount).collect()
}

fn mount(mut mount: Fields) -> Result<MountConfig, String> {
    let kind = mount.text("type")?;
    let bind = mount.block("bind_options")?;
    let tmpfs = mount.block("tmpfs_options")?;
    let volume = mount.block("volume_options")?;
    let given = [("bind", bind.is_some()), ("tmpfs", tmpfs.is_some()), ("volume", volume.is_some())];
    let kind_name = if kind.is_empty() { "volume" } else { kind.as_str() };
    if let Some((other, _)) = given.iter().find(|(name, is_given)| *is_given && *name != kind_name) {
        return Err(format!("mount.{other}_options: the type of the mount is {kind_name}"));
    }
    let kind = match kind_name {
        "bind" => MountKind::Bind { propagation: propagation(bind)? },
        "tmpfs" => tmpfs_options(tmpfs)?,
        "volume" => volume_options(volume)?,
        other => return Err(format!("mount.type: expected bind, tmpfs or volume, not {other}")),
    };
    let read = MountConfig {
        target: mount.text("target")?,
        source: mount.text("source")?,
        readonly: mount.flag("readonly")?,
        kind,
    };
    mount.finish()?;
    if read.target.is_empty() {
        return Err("mount.target: it must be set".to_owned());
    }
    if matches!(read.kind, MountKind::Bind { .. }) && read.source.is_empty() {
        return Err("mount.source: a mount of the type bind needs it".to_owned());
    }
    if matches!(read.kind, MountKind::Tmpfs { .. }) && !read.source.is_empty() {
        return Err("mount.source: a mount of the type tmpfs has none".to_owned());
    }
    Ok(read)
}

fn propagation(options: Option<Fields>) -> Result<String, String> {
    let Some(mut options) = options else { return Ok(String::new()) };
    let propagation = options.text("propagation")?;
    options.finish()?;
    Ok(propagation)
}

fn tmpfs_options(options: Option<Fields>) -> Result<MountKind, String> {
    let mut options = options.unwrap_or_default();
    let kind = MountKind::Tmpfs {
        bytes: options.number("size")?.unwrap_or(0),
        mode: options.number("mode")?.unwrap_or(0),
    };
    options.finish()?;
    Ok(kind)
}

fn volume_options(options: Option<Fields>) -> Result<MountKind, String> {
    let mut options = options.unwrap_or_default();
    let driver = match options.block("driver_config")? {
        None => None,
        Some(mut driver) => {
            let read = (driver.text("name")?, driver.map("options")?);
            driver.finish()?;
            Some(read)
        }
    };
    let kind =
        MountKind::Volume { no_copy: options.flag("no_copy")?, labels: options.map("labels")?, driver };
    options.finish()?;
    Ok(kind)
}

#[cfg(test)]
pub(super) mod tests {
    use model::job::{keys_of_driver, mistakes_in_driver_config};
    use serde_json::json;

    use super::*;

    pub(in super::super) fn read(value: Value) -> Result<TaskConfig, String> {
        let Value::Object(values) = value else { unreachable!() };
        TaskConfig::read(values)
    }

    /// Every key of the driver's task configuration (A-22.7), with a value that it accepts.
    fn every_key() -> Vec<(&'static str, Value)> {
        vec![
            ("advertise_ipv6_address", json!(true)),
            ("args", json!(["-v"])),
            (
                "auth",
                json!([{ "username": "u", "password": "p", "email": "e", "server_address": "r.example" }]),
            ),
            ("auth_soft_fail", json!(true)),
            ("cap_add", json!(["net_admin"])),
            ("cap_drop", json!(["mknod"])),
            ("cgroupns", json!("private")),
            ("command", json!("serve")),
            ("container_exists_attempts", json!(3)),
            ("cpu_cfs_period", json!(50_000)),
            ("cpu_hard_limit", json!(true)),
            (
                "devices",
                json!([{ "host_path": "/dev/a", "container_path": "/dev/b", "cgroup_permissions": "rw" }]),
            ),
            ("dns_options", json!(["ndots:1"])),
            ("dns_search_domains", json!(["example"])),
            ("dns_servers", json!(["1.1.1.1"])),
            ("entrypoint", json!(["/entry"])),
            ("extra_hosts", json!(["a:1.2.3.4"])),
            ("force_pull", json!(true)),
            ("group_add", json!(["video"])),
            ("healthchecks", json!([{ "disable": true }])),
            ("hostname", json!("h")),
            ("image_pull_timeout", json!("1m")),
            ("init", json!(true)),
            ("interactive", json!(true)),
            ("ipc_mode", json!("private")),
            ("ipv4_address", json!("10.0.0.2")),
            ("ipv6_address", json!("fd00::2")),
            ("labels", json!([{ "a": "b" }])),
            ("load", json!("image.tar")),
            ("logging", json!([{ "type": "json-file", "config": [{ "max-size": "1m" }] }])),
            ("mac_address", json!("02:00:00:00:00:01")),
            ("memory_hard_limit", json!(512)),
            (
                "mount",
                json!([{ "type": "bind", "target": "/t", "source": "local/x", "readonly": true,
                         "bind_options": [{ "propagation": "rshared" }] }]),
            ),
            (
                "mounts",
                json!([
                    { "type": "tmpfs", "target": "/t", "tmpfs_options": [{ "size": 1000, "mode": 511 }] },
                    { "type": "volume", "target": "/v", "source": "v", "volume_options": [{
                        "no_copy": true, "labels": [{ "a": "b" }],
                        "driver_config": [{ "name": "local", "options": [{ "o": "bind" }] }]
                    }] },
                ]),
            ),
            ("network_aliases", json!(["db"])),
            ("network_mode", json!("bridge")),
            ("oom_score_adj", json!(100)),
            ("pid_mode", json!("host")),
            ("pids_limit", json!(100)),
            ("port_map", json!([{ "http": 80 }])),
            ("ports", json!(["http"])),
            ("privileged", json!(true)),
            ("readonly_rootfs", json!(true)),
            ("runtime", json!("runc")),
            ("security_opt", json!(["no-new-privileges"])),
            ("shm_size", json!(67_108_864)),
            ("storage_opt", json!([{ "size": "40G" }])),
            ("sysctl", json!([{ "net.core.somaxconn": "16384" }])),
            ("tty", json!(true)),
            ("ulimit", json!([{ "nofile": "2048:4096" }])),
            ("userns_mode", json!("host")),
            ("uts_mode", json!("host")),
            ("volume_driver", json!("local")),
            ("volumes", json!(["local/a:/a"])),
            ("work_dir", json!("/srv")),
        ]
    }

    #[test]
    fn every_documented_key_changes_the_configuration() {
        let plain = read(json!({ "image": "a" })).unwrap();
        for (key, value) in every_key() {
            let changed =
                read(json!({ "image": "a", key: value })).unwrap_or_else(|error| panic!("{key}: {error}"));
            assert_ne!(changed, plain, "{key}");
        }
        assert_eq!(read(json!({ "image": "a", "cpuset_cpus": "0-1" })).unwrap(), plain);
    }

    // A-22.7
    #[test]
    fn servers_know_the_same_keys() {
        let without_effect = ["cpuset_cpus", "image", "isolation"];
        let mut own: Vec<&str> = every_key().into_iter().map(|(key, _)| key).chain(without_effect).collect();
        own.sort_unstable();
        assert_eq!(keys_of_driver("docker").unwrap().collect::<Vec<_>>(), own);
        for (key, value) in every_key() {
            assert!(mistakes_in_driver_config("docker", [(key, &value)]).is_empty(), "{key}");
        }
    }

    #[test]
    fn every_key_refuses_a_value_of_another_kind() {
        for (key, _) in every_key() {
            let error = read(json!({ "image": "a", key: { "nonsense": { "a": {} } } })).unwrap_err();
            assert!(error.contains(key), "{key}: {error}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (config, mistake) in [
            (json!({}), "image name required for docker driver"),
            (json!({ "image": "a", "picture": "b" }), r#"unknown key "picture""#),
            (json!({ "image": "a", "isolation": "hyperv" }), "isolation: only containers of Windows have it"),
            (json!({ "image": "a", "logging": { "type": "a", "driver": "b" } }), "logging: type and driver"),
            (
                json!({ "image": "a", "mount": { "type": "npipe", "target": "/a" } }),
                "mount.type: expected bind",
            ),
            (
                json!({ "image": "a", "mount": { "type": "bind", "source": "a" } }),
                "mount.target: it must be set",
            ),
            (
                json!({ "image": "a", "mount": { "type": "bind", "target": "/a" } }),
                "mount.source: a mount of the",
            ),
            (
                json!({ "image": "a", "mount": { "type": "bind", "target": "/a", "source": "b", "tmpfs_options": {} } }),
                "mount.tmpfs_options: the type of the mount is bind",
            ),
            (json!({ "image": "a", "port_map": { "http": 70_000 } }), "port_map.http: expected a port"),
            (
                json!({ "image": "a", "devices": { "container_path": "/a" } }),
                "devices.host_path: it must be set",
            ),
        ] {
            let error = read(config).unwrap_err();
            assert!(error.starts_with(mistake), "{error}");
        }
    }
}
