//! The keys of the drivers' configurations, sorted by name. Pure.

use super::key::Key;
use super::key::Kind::{Block, Blocks, Duration, Flag, Map, Number, Text, TextOrTexts, Texts};

/// Makes a list of keys.
macro_rules! keys {
    ($($name:literal: $kind:expr),+ $(,)?) => {
        &[$(Key { name: $name, kind: $kind }),+]
    };
}

/// The drivers that are built in, with the keys of their configuration.
pub(super) const DRIVERS: [(&str, &[Key]); 5] =
    [("docker", DOCKER), ("exec", EXEC), ("java", JAVA), ("mock_driver", MOCK), ("raw_exec", RAW_EXEC)];

const RAW_EXEC: &[Key] = keys! {
    "args": Texts,
    "cgroup_v1_override": Map,
    "cgroup_v2_override": Text,
    "command": Text,
    "denied_envvars": Texts,
    "oom_score_adj": Number,
    "work_dir": Text,
};

const EXEC: &[Key] = keys! {
    "args": Texts,
    "cap_add": Texts,
    "cap_drop": Texts,
    "command": Text,
    "ipc_mode": Text,
    "pid_mode": Text,
    "work_dir": Text,
};

const JAVA: &[Key] = keys! {
    "args": Texts,
    "cap_add": Texts,
    "cap_drop": Texts,
    "class": Text,
    "class_path": Text,
    "ipc_mode": Text,
    "jar_path": Text,
    "jvm_options": Texts,
    "pid_mode": Text,
    "work_dir": Text,
};

const MOCK: &[Key] = keys! {
    "driver_advertise": Flag,
    "driver_ip": Text,
    "driver_port_map": Text,
    "exec_command": Block(MOCK_COMMAND),
    "exit_code": Number,
    "exit_err_msg": Text,
    "exit_signal": Number,
    "kill_after": Duration,
    "plugin_exit_after": Duration,
    "run_for": Duration,
    "signal_error": Text,
    "start_block_for": Duration,
    "start_error": Text,
    "start_error_recoverable": Flag,
    "stderr_repeat": Number,
    "stderr_repeat_duration": Duration,
    "stderr_string": Text,
    "stdout_repeat": Number,
    "stdout_repeat_duration": Duration,
    "stdout_string": Text,
};

const MOCK_COMMAND: &[Key] = keys! {
    "exit_code": Number,
    "exit_err_msg": Text,
    "exit_signal": Number,
    "run_for": Duration,
    "signal_error": Text,
    "stderr_repeat": Number,
    "stderr_repeat_duration": Duration,
    "stderr_string": Text,
    "stdout_repeat": Number,
    "stdout_repeat_duration": Duration,
    "stdout_string": Text,
};

const DOCKER: &[Key] = keys! {
    "advertise_ipv6_address": Flag,
    "args": Texts,
    "auth": Block(DOCKER_AUTH),
    "auth_soft_fail": Flag,
    "cap_add": Texts,
    "cap_drop": Texts,
    "cgroupns": Text,
    "command": Text,
    "container_exists_attempts": Number,
    "cpu_cfs_period": Number,
    "cpu_hard_limit": Flag,
    "cpuset_cpus": Text,
    "devices": Blocks(DOCKER_DEVICE),
    "dns_options": Texts,
    "dns_search_domains": Texts,
    "dns_servers": Texts,
    "entrypoint": TextOrTexts,
    "extra_hosts": Texts,
    "force_pull": Flag,
    "group_add": Texts,
    "healthchecks": Block(DOCKER_HEALTHCHECKS),
    "hostname": Text,
    "image": Text,
    "image_pull_timeout": Duration,
    "init": Flag,
    "interactive": Flag,
    "ipc_mode": Text,
    "ipv4_address": Text,
    "ipv6_address": Text,
    "isolation": Text,
    "labels": Map,
    "load": Text,
    "logging": Block(DOCKER_LOGGING),
    "mac_address": Text,
    "memory_hard_limit": Number,
    "mount": Blocks(DOCKER_MOUNT),
    "mounts": Blocks(DOCKER_MOUNT),
    "network_aliases": Texts,
    "network_mode": Text,
    "oom_score_adj": Number,
    "pid_mode": Text,
    "pids_limit": Number,
    "port_map": Map,
    "ports": Texts,
    "privileged": Flag,
    "readonly_rootfs": Flag,
    "runtime": Text,
    "security_opt": Texts,
    "shm_size": Number,
    "storage_opt": Map,
    "sysctl": Map,
    "tty": Flag,
    "ulimit": Map,
    "userns_mode": Text,
    "uts_mode": Text,
    "volume_driver": Text,
    "volumes": Texts,
    "work_dir": Text,
};

const DOCKER_AUTH: &[Key] = keys! {
    "email": Text,
    "password": Text,
    "server_address": Text,
    "username": Text,
};

const DOCKER_DEVICE: &[Key] = keys! {
    "cgroup_permissions": Text,
    "container_path": Text,
    "host_path": Text,
};

const DOCKER_HEALTHCHECKS: &[Key] = keys! {
    "disable": Flag,
};

const DOCKER_LOGGING: &[Key] = keys! {
    "config": Map,
    "driver": Text,
    "type": Text,
};

const DOCKER_MOUNT: &[Key] = keys! {
    "bind_options": Block(DOCKER_BIND),
    "readonly": Flag,
    "source": Text,
    "target": Text,
    "tmpfs_options": Block(DOCKER_TMPFS),
    "type": Text,
    "volume_options": Block(DOCKER_VOLUME),
};

const DOCKER_BIND: &[Key] = keys! {
    "propagation": Text,
};

const DOCKER_TMPFS: &[Key] = keys! {
    "mode": Number,
    "size": Number,
};

const DOCKER_VOLUME: &[Key] = keys! {
    "driver_config": Block(DOCKER_VOLUME_DRIVER),
    "labels": Map,
    "no_copy": Flag,
};

const DOCKER_VOLUME_DRIVER: &[Key] = keys! {
    "name": Text,
    "options": Map,
};
