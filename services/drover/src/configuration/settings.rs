//! The settings that configuration files can contain (`docs/rules/http-api.md` C.2 to C.5).

use std::collections::BTreeMap;
use std::net::IpAddr;

use agent::Token;

use super::block::{Block, FromScalar};
use super::docker::Docker;
use super::values::Scalar;

/// The settings of all files. A setting that no file contains is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) name: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) datacenter: Option<String>,
    pub(crate) data_dir: Option<String>,
    pub(crate) bind_addr: Option<IpAddr>,
    pub(crate) http_addr: Option<IpAddr>,
    pub(crate) http_port: Option<u16>,
    pub(crate) rpc_port: Option<u16>,
    pub(crate) serf_port: Option<u16>,
    pub(crate) http_advertised: Option<String>,
    pub(crate) leave_on_interrupt: Option<bool>,
    pub(crate) leave_on_terminate: Option<bool>,
    pub(crate) log_level: Option<String>,
    pub(crate) log_json: Option<bool>,
    pub(crate) prometheus_metrics: Option<bool>,
    pub(crate) publish_node_metrics: Option<bool>,
    pub(crate) publish_allocation_metrics: Option<bool>,
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) consul: Consul,
    pub(crate) exec: Isolating,
    pub(crate) java: Isolating,
    pub(crate) nvidia: Nvidia,
    pub(crate) raw_exec: RawExec,
    pub(crate) docker: Docker,
    pub(crate) nats: Nats,
    pub(crate) postgres: Postgres,
}

/// The block `nats`. Files are paths.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Nats {
    pub(crate) url: Option<String>,
    pub(crate) ca: Option<String>,
    pub(crate) credentials: Option<String>,
    pub(crate) node_key: Option<String>,
}

/// The block `postgres`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Postgres {
    pub(crate) url: Option<String>,
    /// A path.
    pub(crate) password_file: Option<String>,
}

/// The block `server`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Server {
    pub(crate) enabled: Option<bool>,
    pub(crate) num_schedulers: Option<u16>,
    pub(crate) enabled_schedulers: Option<Vec<String>>,
    pub(crate) min_heartbeat_ttl: Option<Millis>,
    pub(crate) heartbeat_grace: Option<Millis>,
    pub(crate) failover_heartbeat_ttl: Option<Millis>,
    pub(crate) max_heartbeats_per_second: Option<f64>,
    pub(crate) default_service_provider: Option<String>,
    pub(crate) job_default_priority: Option<u16>,
    pub(crate) job_max_priority: Option<u16>,
    pub(crate) job_max_count: Option<u32>,
    pub(crate) job_max_source_size: Option<Bytes>,
    pub(crate) job_tracked_versions: Option<u32>,
    pub(crate) oidc_issuer: Option<String>,
    pub(crate) job_gc_interval: Option<Millis>,
    pub(crate) job_gc_threshold: Option<Millis>,
    pub(crate) eval_gc_threshold: Option<Millis>,
    pub(crate) batch_eval_gc_threshold: Option<Millis>,
    pub(crate) deployment_gc_threshold: Option<Millis>,
    pub(crate) node_gc_threshold: Option<Millis>,
    pub(crate) rejections_enabled: Option<bool>,
    pub(crate) rejections_node_threshold: Option<u32>,
    pub(crate) rejections_node_window: Option<Millis>,
    pub(crate) search_fuzzy_enabled: Option<bool>,
    pub(crate) search_limit_query: Option<u32>,
    pub(crate) search_limit_results: Option<u32>,
    pub(crate) search_min_term_length: Option<u32>,
}

/// The block `client`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Client {
    pub(crate) enabled: Option<bool>,
    pub(crate) node_class: Option<String>,
    pub(crate) node_pool: Option<String>,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) options: BTreeMap<String, String>,
    /// Paths of the node that tasks with a root of their own see, with their paths in the task.
    pub(crate) chroot_env: BTreeMap<String, String>,
    pub(crate) network_interface: Option<String>,
    pub(crate) disable_remote_exec: Option<bool>,
    pub(crate) preferred_address_family: Option<String>,
    pub(crate) host_networks: BTreeMap<String, HostNetwork>,
    pub(crate) host_volumes: BTreeMap<String, HostVolume>,
    pub(crate) host_volumes_dir: Option<String>,
    pub(crate) host_volume_plugin_dir: Option<String>,
    pub(crate) gc_volumes_on_client_gc: Option<bool>,
    pub(crate) bridge_network_name: Option<String>,
    pub(crate) bridge_network_subnet: Option<String>,
    pub(crate) bridge_network_subnet_ipv6: Option<String>,
    pub(crate) bridge_network_hairpin_mode: Option<bool>,
    pub(crate) cni_path: Option<String>,
    pub(crate) cni_config_dir: Option<String>,
    pub(crate) cpu_total_compute: Option<u32>,
    pub(crate) memory_total_mb: Option<u32>,
    pub(crate) disk_free_mb: Option<u32>,
    pub(crate) min_dynamic_port: Option<i64>,
    pub(crate) max_dynamic_port: Option<i64>,
    pub(crate) gc_max_allocs: Option<u32>,
    pub(crate) gc_disk_usage_threshold: Option<f64>,
    pub(crate) gc_inode_usage_threshold: Option<f64>,
    pub(crate) cgroup_parent: Option<String>,
    pub(crate) reservable_cores: Option<String>,
    pub(crate) reserved_cores: Option<String>,
    pub(crate) gc_interval: Option<Millis>,
    pub(crate) gc_parallel_destroys: Option<u32>,
    pub(crate) max_kill_timeout: Option<Millis>,
    /// The limits of artifacts.
    pub(crate) artifact: Artifact,
    /// The settings of templates.
    pub(crate) template: Template,
    /// The settings of the DNS server.
    pub(crate) dns: Dns,
    pub(crate) max_concurrent_starts: Option<u32>,
    pub(crate) nomad_service_discovery: Option<bool>,
    pub(crate) reserved_cpu: Option<u32>,
    pub(crate) reserved_memory: Option<u32>,
    pub(crate) reserved_disk: Option<u32>,
    pub(crate) reserved_ports: Option<String>,
    /// Set if the block is there.
    pub(crate) drain_on_shutdown: Option<DrainOnShutdown>,
}

/// The block `drain_on_shutdown` of `client`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DrainOnShutdown {
    pub(crate) deadline: Option<Millis>,
    pub(crate) force: Option<bool>,
    pub(crate) ignore_system_jobs: Option<bool>,
}

/// The block `dns` of `client`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Dns {
    pub(crate) enabled: Option<bool>,
    pub(crate) address: Option<String>,
    pub(crate) bridge: Option<bool>,
    pub(crate) domain: Option<String>,
    pub(crate) ttl: Option<Millis>,
    pub(crate) forward: Option<Vec<String>>,
    pub(crate) allow: Option<Vec<String>>,
}

/// The block `artifact` of `client`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Artifact {
    pub(crate) decompression_file_count_limit: Option<u32>,
    pub(crate) decompression_size_limit: Option<Bytes>,
    pub(crate) git_timeout: Option<Millis>,
    pub(crate) http_max_size: Option<Bytes>,
    pub(crate) http_read_timeout: Option<Millis>,
}

/// The block `template` of `client`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Template {
    pub(crate) disable_file_sandbox: Option<bool>,
    pub(crate) function_denylist: Option<Vec<String>>,
    pub(crate) wait_min: Option<Millis>,
    pub(crate) wait_max: Option<Millis>,
    pub(crate) bound_min: Option<Millis>,
    pub(crate) bound_max: Option<Millis>,
}

/// The block `consul`. Files are paths.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Consul {
    pub(crate) address: Option<String>,
    pub(crate) auth: Option<Token>,
    pub(crate) ca_file: Option<String>,
    pub(crate) cert_file: Option<String>,
    pub(crate) key_file: Option<String>,
    pub(crate) ssl: Option<bool>,
    pub(crate) timeout: Option<Millis>,
    pub(crate) token: Option<Token>,
    pub(crate) verify_ssl: Option<bool>,
}

/// A block `host_network` of `client`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HostNetwork {
    pub(crate) cidr: Option<String>,
    pub(crate) interface: Option<String>,
    pub(crate) reserved_ports: Option<String>,
}

/// A block `host_volume` of `client`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HostVolume {
    pub(crate) path: Option<String>,
    pub(crate) read_only: Option<bool>,
}

/// The block `config` of `plugin "nvidia"`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Nvidia {
    pub(crate) enabled: Option<bool>,
    pub(crate) ignored_gpu_ids: Option<Vec<String>>,
}

/// The block `config` of `plugin "raw_exec"`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RawExec {
    pub(crate) enabled: Option<bool>,
    pub(crate) denied_host_uids: Option<String>,
    pub(crate) denied_host_gids: Option<String>,
    pub(crate) denied_envvars: Option<Vec<String>>,
    pub(crate) no_cgroups: Option<bool>,
}

/// The block `config` of `plugin "exec"` and `plugin "java"`. The latter has fewer keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Isolating {
    pub(crate) no_pivot_root: Option<bool>,
    pub(crate) default_pid_mode: Option<String>,
    pub(crate) default_ipc_mode: Option<String>,
    pub(crate) allow_caps: Option<Vec<String>>,
    pub(crate) denied_host_uids: Option<String>,
    pub(crate) denied_host_gids: Option<String>,
}

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) u32);

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) usize);

impl FromScalar for Millis {
    fn from_scalar(scalar: &Scalar) -> Option<Self> {
        let Scalar::Duration(nanos) = scalar else { return None };
        Some(Self(u32::try_from(nanos / 1_000_000).unwrap_or(u32::MAX)))
    }
}

impl FromScalar for Token {
    fn from_scalar(scalar: &Scalar) -> Option<Self> {
        if let Scalar::Text(text) = scalar { Some(Self(text.clone())) } else { None }
    }
}

impl FromScalar for Bytes {
    fn from_scalar(scalar: &Scalar) -> Option<Self> {
        if let Scalar::Size(bytes) = scalar { Some(Self(*bytes)) } else { None }
    }
}

impl Settings {
    /// Whether the process runs the servers. With `-dev` it does, whatever the files say: booleans are merged by *or*.
    pub(crate) fn is_server(&self, is_dev: bool) -> bool {
        is_dev || self.server.enabled == Some(true)
    }

    /// Whether the process runs an agent. With `-dev` it does, too.
    pub(crate) fn is_client(&self, is_dev: bool) -> bool {
        is_dev || self.client.enabled == Some(true)
    }

    /// Extracts the settings from the merged files.
    pub(super) fn of(top: &Block) -> Self {
        let telemetry = top.block("telemetry");
        let plugin = |name| top.block("plugin").block(name).block("config");
        Self {
            name: top.get("name"),
            region: top.get("region"),
            datacenter: top.get("datacenter"),
            data_dir: top.get("data_dir"),
            bind_addr: top.get("bind_addr"),
            http_addr: top.block("addresses").get("http"),
            http_port: top.block("ports").get("http"),
            rpc_port: top.block("ports").get("rpc"),
            serf_port: top.block("ports").get("serf"),
            http_advertised: top.block("advertise").get("http"),
            leave_on_interrupt: top.get("leave_on_interrupt"),
            leave_on_terminate: top.get("leave_on_terminate"),
            log_level: top.get("log_level"),
            log_json: top.get("log_json"),
            prometheus_metrics: telemetry.get("prometheus_metrics"),
            publish_node_metrics: telemetry.get("publish_node_metrics"),
            publish_allocation_metrics: telemetry.get("publish_allocation_metrics"),
            server: Server::of(top.block("server")),
            client: Client::of(top.block("client")),
            consul: Consul::of(top.block("consul")),
            docker: Docker::of(plugin("docker")),
            exec: Isolating::of(plugin("exec")),
            java: Isolating::of(plugin("java")),
            nvidia: Nvidia::of(plugin("nvidia")),
            raw_exec: RawExec::of(plugin("raw_exec")),
            nats: Nats::of(top.block("nats")),
            postgres: Postgres::of(top.block("postgres")),
        }
    }
}

impl Nats {
    fn of(nats: &Block) -> Self {
        Self {
            url: nats.get("url"),
            ca: nats.get("ca"),
            credentials: nats.get("credentials"),
            node_key: nats.get("node_key"),
        }
    }
}

impl Postgres {
    fn of(postgres: &Block) -> Self {
        Self { url: postgres.get("url"), password_file: postgres.get("password_file") }
    }
}

impl Server {
    fn of(server: &Block) -> Self {
        let (search, rejections) = (server.block("search"), server.block("plan_rejection_tracker"));
        Self {
            enabled: server.get("enabled"),
            num_schedulers: server.get("num_schedulers"),
            enabled_schedulers: server.get("enabled_schedulers"),
            min_heartbeat_ttl: server.get("min_heartbeat_ttl"),
            heartbeat_grace: server.get("heartbeat_grace"),
            failover_heartbeat_ttl: server.get("failover_heartbeat_ttl"),
            max_heartbeats_per_second: server.get("max_heartbeats_per_second"),
            default_service_provider: server.get("default_service_provider"),
            job_default_priority: server.get("job_default_priority"),
            job_max_priority: server.get("job_max_priority"),
            job_max_count: server.get("job_max_count"),
            job_max_source_size: server.get("job_max_source_size"),
            job_tracked_versions: server.get("job_tracked_versions"),
            oidc_issuer: server.get("oidc_issuer"),
            job_gc_interval: server.get("job_gc_interval"),
            job_gc_threshold: server.get("job_gc_threshold"),
            eval_gc_threshold: server.get("eval_gc_threshold"),
            batch_eval_gc_threshold: server.get("batch_eval_gc_threshold"),
            deployment_gc_threshold: server.get("deployment_gc_threshold"),
            node_gc_threshold: server.get("node_gc_threshold"),
            rejections_enabled: rejections.get("enabled"),
            rejections_node_threshold: rejections.get("node_threshold"),
            rejections_node_window: rejections.get("node_window"),
            search_fuzzy_enabled: search.get("fuzzy_enabled"),
            search_limit_query: search.get("limit_query"),
            search_limit_results: search.get("limit_results"),
            search_min_term_length: search.get("min_term_length"),
        }
    }
}

impl Client {
    fn of(client: &Block) -> Self {
        let reserved = client.block("reserved");
        Self {
            enabled: client.get("enabled"),
            node_class: client.get("node_class"),
            node_pool: client.get("node_pool"),
            meta: client.map("meta"),
            options: client.map("options"),
            chroot_env: client.map("chroot_env"),
            network_interface: client.get("network_interface"),
            disable_remote_exec: client.get("disable_remote_exec"),
            preferred_address_family: client.get("preferred_address_family"),
            host_networks: client
                .labelled("host_network")
                .map(|(label, network)| (label.clone(), HostNetwork::of(network)))
                .collect(),
            host_volumes: client
                .labelled("host_volume")
                .map(|(label, volume)| (label.clone(), HostVolume::of(volume)))
                .collect(),
            host_volumes_dir: client.get("host_volumes_dir"),
            host_volume_plugin_dir: client.get("host_volume_plugin_dir"),
            gc_volumes_on_client_gc: client.get("gc_volumes_on_client_gc"),
            bridge_network_name: client.get("bridge_network_name"),
            bridge_network_subnet: client.get("bridge_network_subnet"),
            bridge_network_subnet_ipv6: client.get("bridge_network_subnet_ipv6"),
            bridge_network_hairpin_mode: client.get("bridge_network_hairpin_mode"),
            cni_path: client.get("cni_path"),
            cni_config_dir: client.get("cni_config_dir"),
            cpu_total_compute: client.get("cpu_total_compute"),
            memory_total_mb: client.get("memory_total_mb"),
            disk_free_mb: client.get("disk_free_mb"),
            min_dynamic_port: client.get("min_dynamic_port"),
            max_dynamic_port: client.get("max_dynamic_port"),
            gc_max_allocs: client.get("gc_max_allocs"),
            gc_disk_usage_threshold: client.get("gc_disk_usage_threshold"),
            gc_inode_usage_threshold: client.get("gc_inode_usage_threshold"),
            cgroup_parent: client.get("cgroup_parent"),
            reservable_cores: client.get("reservable_cores"),
            reserved_cores: reserved.get("cores"),
            gc_interval: client.get("gc_interval"),
            gc_parallel_destroys: client.get("gc_parallel_destroys"),
            max_kill_timeout: client.get("max_kill_timeout"),
            artifact: Artifact::of(client.block("artifact")),
            template: Template::of(client.block("template")),
            dns: Dns::of(client.block("dns")),
            max_concurrent_starts: client.get("max_concurrent_starts"),
            nomad_service_discovery: client.get("nomad_service_discovery"),
            reserved_cpu: reserved.get("cpu"),
            reserved_memory: reserved.get("memory"),
            reserved_disk: reserved.get("disk"),
            reserved_ports: reserved.get("reserved_ports"),
            drain_on_shutdown: client.given("drain_on_shutdown").map(DrainOnShutdown::of),
        }
    }
}

impl DrainOnShutdown {
    fn of(drain: &Block) -> Self {
        Self {
            deadline: drain.get("deadline"),
            force: drain.get("force"),
            ignore_system_jobs: drain.get("ignore_system_jobs"),
        }
    }
}

impl Dns {
    fn of(dns: &Block) -> Self {
        Self {
            enabled: dns.get("enabled"),
            address: dns.get("address"),
            bridge: dns.get("bridge"),
            domain: dns.get("domain"),
            ttl: dns.get("ttl"),
            forward: dns.get("forward"),
            allow: dns.get("allow"),
        }
    }
}

impl Artifact {
    fn of(artifact: &Block) -> Self {
        Self {
            decompression_file_count_limit: artifact.get("decompression_file_count_limit"),
            decompression_size_limit: artifact.get("decompression_size_limit"),
            git_timeout: artifact.get("git_timeout"),
            http_max_size: artifact.get("http_max_size"),
            http_read_timeout: artifact.get("http_read_timeout"),
        }
    }
}

impl Template {
    fn of(template: &Block) -> Self {
        let (wait, bounds) = (template.block("wait"), template.block("wait_bounds"));
        // The older name of the list.
        let denied = template.get("function_denylist");
        Self {
            disable_file_sandbox: template.get("disable_file_sandbox"),
            function_denylist: denied.or_else(|| template.get("function_blacklist")),
            wait_min: wait.get("min"),
            wait_max: wait.get("max"),
            bound_min: bounds.get("min"),
            bound_max: bounds.get("max"),
        }
    }
}

impl Consul {
    fn of(consul: &Block) -> Self {
        Self {
            address: consul.get("address"),
            auth: consul.get("auth"),
            ca_file: consul.get("ca_file"),
            cert_file: consul.get("cert_file"),
            key_file: consul.get("key_file"),
            ssl: consul.get("ssl"),
            timeout: consul.get("timeout"),
            token: consul.get("token"),
            verify_ssl: consul.get("verify_ssl"),
        }
    }
}

impl HostVolume {
    fn of(volume: &Block) -> Self {
        Self { path: volume.get("path"), read_only: volume.get("read_only") }
    }
}

impl HostNetwork {
    fn of(network: &Block) -> Self {
        Self {
            cidr: network.get("cidr"),
            interface: network.get("interface"),
            reserved_ports: network.get("reserved_ports"),
        }
    }
}

impl Nvidia {
    fn of(config: &Block) -> Self {
        Self { enabled: config.get("enabled"), ignored_gpu_ids: config.get("ignored_gpu_ids") }
    }
}

impl RawExec {
    fn of(config: &Block) -> Self {
        Self {
            enabled: config.get("enabled"),
            denied_host_uids: config.get("denied_host_uids"),
            denied_host_gids: config.get("denied_host_gids"),
            denied_envvars: config.get("denied_envvars"),
            no_cgroups: config.get("no_cgroups"),
        }
    }
}

impl Isolating {
    fn of(config: &Block) -> Self {
        Self {
            no_pivot_root: config.get("no_pivot_root"),
            default_pid_mode: config.get("default_pid_mode"),
            default_ipc_mode: config.get("default_ipc_mode"),
            allow_caps: config.get("allow_caps"),
            denied_host_uids: config.get("denied_host_uids"),
            denied_host_gids: config.get("denied_host_gids"),
        }
    }
}
