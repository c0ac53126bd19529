//! All keys of the reference's agent configuration, and Drover's own: the type of their values, and their support here
//! (`docs/rules/http-api.md` C.2 to C.5). A key that is in no list is unknown.

use model::features::Feature;

use super::docker;
use super::schema::{COUNT, Key, SMALL, Support, Type, WHOLE};

const fn used(name: &'static str, value_type: Type) -> Key {
    Key { name, value_type, support: Support::Used }
}

const fn idle(name: &'static str, value_type: Type, why: &'static str) -> Key {
    Key { name, value_type, support: Support::NoEffect(why) }
}

const fn without(feature: Feature, name: &'static str, value_type: Type) -> Key {
    Key { name, value_type, support: Support::Without(feature) }
}

const fn off(feature: Feature, name: &'static str) -> Key {
    Key { name, value_type: Type::Bool, support: Support::Off(feature) }
}

const fn unbuilt(feature: Feature, name: &'static str, value_type: Type) -> Key {
    Key { name, value_type, support: Support::NotBuilt(feature) }
}

const NO_CONSENSUS: &str = "servers form no consensus of their own: PostgreSQL holds the state";
const NO_GOSSIP: &str = "servers and nodes find each other over NATS";
const ONE_PORT: &str = "the HTTP API is the only port of an agent";
const FIXED_INTERVAL: &str = "metrics are collected every 10 seconds, and the last interval is kept";
const NO_CALL_HOME: &str = "nothing calls home";
const TO_STDERR: &str = "logs go to standard error";
const FOLLOWED: &str = "templates follow their data, and do not poll";
const NO_PLUGINS: &str = "drivers are built in";
const EVENTS: &str = "the event stream is always on, and keeps a fixed number of changes";
const NOT_IN_CONSUL: &str = "agents and servers do not register themselves in Consul";
const NO_CONSUL_TOKENS: &str = "tasks get no access to Consul";

/// The keys at the top of a file.
pub(super) const TOP: &[Key] = &[
    unbuilt_or_off("acl", ACL),
    used("addresses", Type::Block(ADDRESSES)),
    used("advertise", Type::Block(ADVERTISE)),
    unbuilt(Feature::Enterprise, "audit", Type::Any),
    idle("autopilot", Type::Block(AUTOPILOT), NO_CONSENSUS),
    used("bind_addr", Type::Address),
    used("client", Type::Block(CLIENT)),
    used("consul", Type::Block(CONSUL)),
    used("data_dir", Type::Text),
    used("datacenter", Type::Text),
    idle("disable_anonymous_signature", Type::Bool, NO_CALL_HOME),
    idle("disable_update_check", Type::Bool, NO_CALL_HOME),
    without(Feature::Debugging, "enable_debug", Type::Bool),
    idle("enable_syslog", Type::Bool, TO_STDERR),
    idle("eventlog", Type::Block(EVENTLOG), TO_STDERR),
    unbuilt(Feature::SomeSettings, "http_api_response_headers", Type::Map),
    unbuilt(Feature::ExternalKeyrings, "keyring", Type::Any),
    used("leave_on_interrupt", Type::Bool),
    used("leave_on_terminate", Type::Bool),
    unbuilt(Feature::ConnectionLimits, "limits", Type::Block(LIMITS)),
    unbuilt(Feature::LogFiles, "log_file", Type::Text),
    unbuilt(Feature::SomeSettings, "log_include_location", Type::Bool),
    used("log_json", Type::Bool),
    used("log_level", Type::Text),
    unbuilt(Feature::LogFiles, "log_rotate_bytes", WHOLE),
    unbuilt(Feature::LogFiles, "log_rotate_duration", Type::Duration),
    unbuilt(Feature::LogFiles, "log_rotate_max_files", WHOLE),
    used("name", Type::Text),
    used("nats", Type::Block(NATS)),
    used("plugin", Type::Named { known: PLUGINS, others: PLUGIN }),
    idle("plugin_dir", Type::Text, NO_PLUGINS),
    used("ports", Type::Block(PORTS)),
    used("postgres", Type::Block(POSTGRES)),
    used("region", Type::Text),
    idle("reporting", Type::Any, NO_CALL_HOME),
    unbuilt(Feature::Enterprise, "sentinel", Type::Any),
    used("server", Type::Block(SERVER)),
    idle("syslog_facility", Type::Text, TO_STDERR),
    used("telemetry", Type::Block(TELEMETRY)),
    unbuilt_or_off("tls", TLS),
    without(Feature::WebInterface, "ui", Type::Block(UI)),
    unbuilt_or_off("vault", VAULT),
];

const fn within(name: &'static str, value_type: Type) -> Key {
    Key { name, value_type, support: Support::AsBlock }
}

/// A block in which only `enabled` or a similar key requires something that is not built.
const fn unbuilt_or_off(name: &'static str, keys: &'static [Key]) -> Key {
    used(name, Type::Block(keys))
}

const ACL: &[Key] = &[
    off(Feature::Acls, "enabled"),
    without(Feature::Acls, "policy_ttl", Type::Duration),
    without(Feature::Acls, "replication_token", Type::Text),
    without(Feature::Acls, "role_ttl", Type::Duration),
    without(Feature::Acls, "token_max_expiration_ttl", Type::Duration),
    without(Feature::Acls, "token_min_expiration_ttl", Type::Duration),
    without(Feature::Acls, "token_ttl", Type::Duration),
];

const ADDRESSES: &[Key] =
    &[used("http", Type::Address), idle("rpc", Type::Text, ONE_PORT), idle("serf", Type::Text, ONE_PORT)];

const ADVERTISE: &[Key] =
    &[used("http", Type::Text), idle("rpc", Type::Text, ONE_PORT), idle("serf", Type::Text, ONE_PORT)];

const AUTOPILOT: &[Key] = &[
    within("cleanup_dead_servers", Type::Bool),
    within("disable_upgrade_migration", Type::Bool),
    within("enable_custom_upgrades", Type::Bool),
    within("enable_redundancy_zones", Type::Bool),
    within("last_contact_threshold", Type::Duration),
    within("max_trailing_logs", WHOLE),
    within("min_quorum", WHOLE),
    within("server_stabilization_time", Type::Duration),
];

const CLIENT: &[Key] = &[
    unbuilt(Feature::SomeSettings, "alloc_dir", Type::Text),
    unbuilt(Feature::SomeSettings, "alloc_mounts_dir", Type::Text),
    used("artifact", Type::Block(ARTIFACT)),
    used("bridge_network_hairpin_mode", Type::Bool),
    used("bridge_network_name", Type::Text),
    used("bridge_network_subnet", Type::Text),
    used("bridge_network_subnet_ipv6", Type::Text),
    used("cgroup_parent", Type::Text),
    used("chroot_env", Type::Map),
    used("cni_config_dir", Type::Text),
    used("cni_path", Type::Text),
    unbuilt(Feature::SomeSettings, "common_plugin_dir", Type::Text),
    idle("cpu_disable_dmidecode", Type::Bool, "dmidecode is never called"),
    used("cpu_total_compute", COUNT),
    used("disable_remote_exec", Type::Bool),
    used("disk_free_mb", COUNT),
    unbuilt(Feature::SomeSettings, "disk_total_mb", COUNT),
    used("dns", Type::Block(DNS)),
    used("drain_on_shutdown", Type::Block(DRAIN_ON_SHUTDOWN)),
    used("enabled", Type::Bool),
    unbuilt(Feature::SomeSettings, "fingerprint", Type::Named { known: &[], others: FINGERPRINT }),
    used("gc_disk_usage_threshold", Type::Float),
    used("gc_inode_usage_threshold", Type::Float),
    used("gc_interval", Type::Duration),
    used("gc_max_allocs", COUNT),
    used("gc_parallel_destroys", COUNT),
    used("gc_volumes_on_client_gc", Type::Bool),
    used("host_network", Type::Named { known: &[], others: HOST_NETWORK }),
    used("host_volume", Type::Named { known: &[], others: HOST_VOLUME }),
    used("host_volume_plugin_dir", Type::Text),
    used("host_volumes_dir", Type::Text),
    used("max_concurrent_starts", COUNT),
    used("max_dynamic_port", WHOLE),
    used("max_kill_timeout", Type::Duration),
    unbuilt(Feature::SomeSettings, "memory_oversubscription", Type::Any),
    used("memory_total_mb", COUNT),
    used("meta", Type::Map),
    used("min_dynamic_port", WHOLE),
    used("network_interface", Type::Text),
    idle("network_speed", WHOLE, "bandwidth is not accounted"),
    idle("no_host_uuid", Type::Bool, "ids of nodes are random and kept in data_dir"),
    used("node_class", Type::Text),
    unbuilt(Feature::SomeSettings, "node_max_allocs", WHOLE),
    used("node_pool", Type::Text),
    used("nomad_service_discovery", Type::Bool),
    used("options", Type::Map),
    used("preferred_address_family", Type::Text),
    used("reservable_cores", Type::Text),
    used("reserved", Type::Block(RESERVED)),
    idle("retry_interval", Type::Duration, NO_GOSSIP),
    idle("retry_join", Type::Texts, NO_GOSSIP),
    idle("retry_max", WHOLE, NO_GOSSIP),
    idle("server_join", Type::Block(SERVER_JOIN), NO_GOSSIP),
    idle("servers", Type::Texts, NO_GOSSIP),
    unbuilt(Feature::SomeSettings, "state_dir", Type::Text),
    used("template", Type::Block(TEMPLATE)),
    unbuilt(Feature::SomeSettings, "users", Type::Any),
];

const ARTIFACT: &[Key] = &[
    used("decompression_file_count_limit", COUNT),
    used("decompression_size_limit", Type::Size),
    off(Feature::SomeSettings, "disable_artifact_inspection"),
    off(Feature::SomeSettings, "disable_filesystem_isolation"),
    unbuilt(Feature::SomeSettings, "filesystem_isolation_extra_paths", Type::Texts),
    without(Feature::OtherArtifacts, "gcs_timeout", Type::Duration),
    used("git_timeout", Type::Duration),
    without(Feature::OtherArtifacts, "hg_timeout", Type::Duration),
    used("http_max_size", Type::Size),
    used("http_read_timeout", Type::Duration),
    without(Feature::OtherArtifacts, "s3_timeout", Type::Duration),
    unbuilt(Feature::SomeSettings, "set_environment_variables", Type::Text),
];

const DNS: &[Key] = &[
    used("address", Type::Text),
    used("allow", Type::Texts),
    used("bridge", Type::Bool),
    used("domain", Type::Text),
    used("enabled", Type::Bool),
    used("forward", Type::Texts),
    used("ttl", Type::Duration),
];

const DRAIN_ON_SHUTDOWN: &[Key] =
    &[used("deadline", Type::Duration), used("force", Type::Bool), used("ignore_system_jobs", Type::Bool)];

const TEMPLATE: &[Key] = &[
    idle("block_query_wait", Type::Duration, FOLLOWED),
    without(Feature::Consul, "consul_retry", Type::Block(RETRY)),
    used("disable_file_sandbox", Type::Bool),
    used("function_blacklist", Type::Texts),
    used("function_denylist", Type::Texts),
    idle("max_stale", Type::Duration, FOLLOWED),
    idle("nomad_retry", Type::Block(RETRY), FOLLOWED),
    without(Feature::Vault, "vault_retry", Type::Block(RETRY)),
    used("wait", Type::Block(WAIT)),
    used("wait_bounds", Type::Block(WAIT)),
];

const RETRY: &[Key] =
    &[within("attempts", WHOLE), within("backoff", Type::Duration), within("max_backoff", Type::Duration)];

const WAIT: &[Key] = &[used("max", Type::Duration), used("min", Type::Duration)];

const FINGERPRINT: &[Key] = &[
    within("exit_on_failure", Type::Bool),
    within("retry_attempts", WHOLE),
    within("retry_interval", Type::Duration),
];

const HOST_NETWORK: &[Key] =
    &[used("cidr", Type::Text), used("interface", Type::Text), used("reserved_ports", Type::Text)];

const HOST_VOLUME: &[Key] = &[used("path", Type::Text), used("read_only", Type::Bool)];

const RESERVED: &[Key] = &[
    used("cores", Type::Text),
    used("cpu", COUNT),
    used("disk", COUNT),
    used("memory", COUNT),
    used("reserved_ports", Type::Text),
];

const SERVER_JOIN: &[Key] = &[
    within("retry_interval", Type::Duration),
    within("retry_join", Type::Texts),
    within("retry_max", WHOLE),
    within("start_join", Type::Texts),
];

const CONSUL: &[Key] = &[
    used("address", Type::Text),
    idle("allow_unauthenticated", Type::Bool, NO_CONSUL_TOKENS),
    used("auth", Type::Text),
    idle("auto_advertise", Type::Bool, NOT_IN_CONSUL),
    used("ca_file", Type::Text),
    used("cert_file", Type::Text),
    idle("checks_use_advertise", Type::Bool, NOT_IN_CONSUL),
    idle("client_auto_join", Type::Bool, NO_GOSSIP),
    idle("client_failures_before_critical", WHOLE, NOT_IN_CONSUL),
    idle("client_failures_before_warning", WHOLE, NOT_IN_CONSUL),
    idle("client_http_check_name", Type::Text, NOT_IN_CONSUL),
    idle("client_service_name", Type::Text, NOT_IN_CONSUL),
    without(Feature::Connect, "grpc_address", Type::Text),
    without(Feature::Connect, "grpc_ca_file", Type::Text),
    used("key_file", Type::Text),
    idle("name", Type::Text, "there is one Consul cluster"),
    unbuilt(Feature::SomeSettings, "namespace", Type::Text),
    idle("server_auto_join", Type::Bool, NO_GOSSIP),
    idle("server_failures_before_critical", WHOLE, NOT_IN_CONSUL),
    idle("server_failures_before_warning", WHOLE, NOT_IN_CONSUL),
    idle("server_http_check_name", Type::Text, NOT_IN_CONSUL),
    idle("server_rpc_check_name", Type::Text, NOT_IN_CONSUL),
    idle("server_serf_check_name", Type::Text, NOT_IN_CONSUL),
    idle("server_service_name", Type::Text, NOT_IN_CONSUL),
    without(Feature::WorkloadIdentities, "service_auth_method", Type::Text),
    without(Feature::WorkloadIdentities, "service_identity", Type::Any),
    idle("share_ssl", Type::Bool, NO_CONSUL_TOKENS),
    used("ssl", Type::Bool),
    idle("tags", Type::Texts, NOT_IN_CONSUL),
    without(Feature::WorkloadIdentities, "task_auth_method", Type::Text),
    without(Feature::WorkloadIdentities, "task_identity", Type::Any),
    used("timeout", Type::Duration),
    used("token", Type::Text),
    used("verify_ssl", Type::Bool),
];

const EVENTLOG: &[Key] =
    &[within("enabled", Type::Bool), within("level", Type::Text), within("name", Type::Text)];

const LIMITS: &[Key] = &[
    within("http_max_conns_per_client", WHOLE),
    within("https_handshake_timeout", Type::Duration),
    within("rpc_handshake_timeout", Type::Duration),
    within("rpc_max_conns_per_client", WHOLE),
];

const NATS: &[Key] = &[
    used("ca", Type::Text),
    used("credentials", Type::Text),
    used("node_key", Type::Text),
    used("url", Type::Text),
];

const PORTS: &[Key] = &[used("http", SMALL), used("rpc", SMALL), used("serf", SMALL)];

const POSTGRES: &[Key] = &[used("password_file", Type::Text), used("url", Type::Text)];

/// Plugins that are built in here.
const PLUGINS: &[Key] = &[
    used("docker", Type::Block(docker::PLUGIN)),
    used("exec", Type::Block(EXEC)),
    used("java", Type::Block(JAVA)),
    used("nvidia", Type::Block(NVIDIA)),
    used("raw_exec", Type::Block(RAW_EXEC)),
];

const NVIDIA: &[Key] =
    &[unbuilt(Feature::SomeSettings, "args", Type::Texts), used("config", Type::Block(NVIDIA_CONFIG))];

const NVIDIA_CONFIG: &[Key] = &[
    used("enabled", Type::Bool),
    idle("fingerprint_period", Type::Duration, "devices are looked for every minute"),
    used("ignored_gpu_ids", Type::Texts),
];

/// The keys in the block of any plugin.
const PLUGIN: &[Key] = &[within("args", Type::Texts), within("config", Type::Any)];

const EXEC: &[Key] =
    &[unbuilt(Feature::SomeSettings, "args", Type::Texts), used("config", Type::Block(EXEC_CONFIG))];

const EXEC_CONFIG: &[Key] = &[
    used("allow_caps", Type::Texts),
    used("default_ipc_mode", Type::Text),
    used("default_pid_mode", Type::Text),
    used("denied_host_gids", Type::Text),
    used("denied_host_uids", Type::Text),
    used("no_pivot_root", Type::Bool),
];

const JAVA: &[Key] =
    &[unbuilt(Feature::SomeSettings, "args", Type::Texts), used("config", Type::Block(JAVA_CONFIG))];

const JAVA_CONFIG: &[Key] = &[
    used("allow_caps", Type::Texts),
    used("default_ipc_mode", Type::Text),
    used("default_pid_mode", Type::Text),
];

const RAW_EXEC: &[Key] =
    &[unbuilt(Feature::SomeSettings, "args", Type::Texts), used("config", Type::Block(RAW_EXEC_CONFIG))];

const RAW_EXEC_CONFIG: &[Key] = &[
    used("denied_envvars", Type::Texts),
    used("denied_host_gids", Type::Text),
    used("denied_host_uids", Type::Text),
    used("enabled", Type::Bool),
    used("no_cgroups", Type::Bool),
];

const SERVER: &[Key] = &[
    unbuilt(Feature::Acls, "acl_token_gc_threshold", Type::Duration),
    idle("authoritative_region", Type::Text, "there is one region"),
    used("batch_eval_gc_threshold", Type::Duration),
    idle("bootstrap_expect", WHOLE, NO_CONSENSUS),
    unbuilt(Feature::NodeIdentities, "client_introduction", Type::Any),
    unbuilt(Feature::CsiPlugins, "csi_plugin_gc_threshold", Type::Duration),
    unbuilt(Feature::CsiPlugins, "csi_volume_claim_gc_interval", Type::Duration),
    unbuilt(Feature::CsiPlugins, "csi_volume_claim_gc_threshold", Type::Duration),
    idle("data_dir", Type::Text, NO_CONSENSUS),
    unbuilt(Feature::SomeSettings, "default_scheduler_config", Type::Block(SCHEDULER_CONFIG)),
    used("default_service_provider", Type::Text),
    used("deployment_gc_threshold", Type::Duration),
    unbuilt(Feature::SomeSettings, "deployment_query_rate_limit", Type::Float),
    idle("enable_event_broker", Type::Bool, EVENTS),
    used("enabled", Type::Bool),
    used("enabled_schedulers", Type::Texts),
    idle("encrypt", Type::Text, NO_GOSSIP),
    used("eval_gc_threshold", Type::Duration),
    idle("event_buffer_size", WHOLE, EVENTS),
    used("failover_heartbeat_ttl", Type::Duration),
    used("heartbeat_grace", Type::Duration),
    used("job_default_priority", SMALL),
    used("job_gc_interval", Type::Duration),
    used("job_gc_threshold", Type::Duration),
    used("job_max_count", COUNT),
    used("job_max_priority", SMALL),
    used("job_max_source_size", Type::Size),
    used("job_tracked_versions", COUNT),
    unbuilt(Feature::Enterprise, "license_path", Type::Text),
    used("max_heartbeats_per_second", COUNT_OF_HEARTBEATS),
    used("min_heartbeat_ttl", Type::Duration),
    used("node_gc_threshold", Type::Duration),
    idle("non_voting_server", Type::Bool, NO_CONSENSUS),
    used("num_schedulers", SMALL),
    used("oidc_issuer", Type::Text),
    used("plan_rejection_tracker", Type::Block(PLAN_REJECTION_TRACKER)),
    idle("protocol_version", WHOLE, NO_CONSENSUS),
    idle("raft_boltdb", Type::Any, NO_CONSENSUS),
    idle("raft_logstore", Type::Any, NO_CONSENSUS),
    idle("raft_multiplier", WHOLE, NO_CONSENSUS),
    idle("raft_protocol", WHOLE, NO_CONSENSUS),
    idle("raft_snapshot_interval", Type::Duration, NO_CONSENSUS),
    idle("raft_snapshot_threshold", WHOLE, NO_CONSENSUS),
    idle("raft_trailing_logs", WHOLE, NO_CONSENSUS),
    idle("redundancy_zone", Type::Text, NO_CONSENSUS),
    idle("rejoin_after_leave", Type::Bool, NO_GOSSIP),
    idle("retry_interval", Type::Duration, NO_GOSSIP),
    idle("retry_join", Type::Texts, NO_GOSSIP),
    idle("retry_max", WHOLE, NO_GOSSIP),
    unbuilt(Feature::KeyRotation, "root_key_gc_interval", Type::Duration),
    unbuilt(Feature::KeyRotation, "root_key_gc_threshold", Type::Duration),
    unbuilt(Feature::KeyRotation, "root_key_rotation_threshold", Type::Duration),
    used("search", Type::Block(SEARCH)),
    idle("server_join", Type::Block(SERVER_JOIN), NO_GOSSIP),
    idle("start_join", Type::Texts, NO_GOSSIP),
    idle("start_timeout", Type::Duration, NO_GOSSIP),
    without(Feature::Consul, "update_service", Type::Any),
    idle("upgrade_version", Type::Text, NO_CONSENSUS),
];

/// The reference accepts a fraction.
const COUNT_OF_HEARTBEATS: Type = Type::Float;

const SCHEDULER_CONFIG: &[Key] = &[
    within("memory_oversubscription_enabled", Type::Bool),
    within("node_limit_for_feasibility_checks", WHOLE),
    within("pause_eval_broker", Type::Bool),
    within("preemption_config", Type::Block(PREEMPTION_CONFIG)),
    within("reject_job_registration", Type::Bool),
    within("scheduler_algorithm", Type::Text),
];

const PREEMPTION_CONFIG: &[Key] = &[
    within("batch_scheduler_enabled", Type::Bool),
    within("service_scheduler_enabled", Type::Bool),
    within("sysbatch_scheduler_enabled", Type::Bool),
    within("system_scheduler_enabled", Type::Bool),
];

const PLAN_REJECTION_TRACKER: &[Key] =
    &[used("enabled", Type::Bool), used("node_threshold", COUNT), used("node_window", Type::Duration)];

const SEARCH: &[Key] = &[
    used("fuzzy_enabled", Type::Bool),
    used("limit_query", COUNT),
    used("limit_results", COUNT),
    used("min_term_length", COUNT),
];

const TELEMETRY: &[Key] = &[
    unbuilt(Feature::MetricFilters, "allowed_metadata_keys_in_metrics", Type::Texts),
    idle("backwards_compatible_metrics", Type::Bool, "metrics have their present names only"),
    unbuilt(Feature::MetricSinks, "circonus_api_app", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_api_token", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_api_url", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_broker_id", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_broker_select_tag", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_check_display_name", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_check_force_metric_activation", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_check_id", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_check_instance_id", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_check_search_tag", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_check_tags", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_submission_interval", Type::Text),
    unbuilt(Feature::MetricSinks, "circonus_submission_url", Type::Text),
    idle("collection_interval", Type::Duration, FIXED_INTERVAL),
    unbuilt(Feature::MetricSinks, "datadog_address", Type::Text),
    unbuilt(Feature::MetricSinks, "datadog_tags", Type::Texts),
    idle("disable_allocation_hook_metrics", Type::Bool, "there are no metrics of allocation hooks"),
    idle("disable_dispatched_job_summary_metrics", Type::Bool, "dispatched jobs have metrics like others"),
    idle("disable_hostname", Type::Bool, "names of metrics have no host names"),
    idle("disable_quota_utilization_metrics", Type::Bool, "there are no quotas"),
    idle("disable_rpc_rate_metrics_labels", Type::Bool, "metrics of RPC have no labels"),
    idle("disable_tagged_metrics", Type::Bool, "metrics keep their labels"),
    unbuilt(Feature::MetricFilters, "filter_default", Type::Bool),
    idle("in_memory_collection_interval", Type::Duration, FIXED_INTERVAL),
    idle("in_memory_retention_period", Type::Duration, FIXED_INTERVAL),
    unbuilt(Feature::MetricFilters, "include_alloc_metadata_in_metrics", Type::Bool),
    unbuilt(Feature::MetricFilters, "prefix_filter", Type::Texts),
    used("prometheus_metrics", Type::Bool),
    used("publish_allocation_metrics", Type::Bool),
    used("publish_node_metrics", Type::Bool),
    unbuilt(Feature::MetricSinks, "statsd_address", Type::Text),
    unbuilt(Feature::MetricSinks, "statsite_address", Type::Text),
    idle("use_node_name", Type::Bool, "names of metrics have no host names"),
];

const TLS: &[Key] = &[
    without(Feature::ApiTls, "ca_file", Type::Text),
    without(Feature::ApiTls, "cert_file", Type::Text),
    off(Feature::ApiTls, "http"),
    without(Feature::ApiTls, "key_file", Type::Text),
    off(Feature::ApiTls, "rpc"),
    without(Feature::ApiTls, "rpc_upgrade_mode", Type::Bool),
    without(Feature::ApiTls, "tls_cipher_suites", Type::Text),
    without(Feature::ApiTls, "tls_min_version", Type::Text),
    without(Feature::ApiTls, "tls_prefer_server_cipher_suites", Type::Bool),
    without(Feature::ApiTls, "verify_https_client", Type::Bool),
    without(Feature::ApiTls, "verify_server_hostname", Type::Bool),
];

const UI: &[Key] = &[
    within("consul", Type::Block(UI_LINK)),
    within("content_security_policy", Type::Any),
    within("enabled", Type::Bool),
    within("label", Type::Block(UI_LABEL)),
    within("show_cli_hints", Type::Bool),
    within("vault", Type::Block(UI_LINK)),
];

const UI_LINK: &[Key] = &[within("ui_url", Type::Text)];

const UI_LABEL: &[Key] =
    &[within("background_color", Type::Text), within("text", Type::Text), within("text_color", Type::Text)];

const VAULT: &[Key] = &[
    without(Feature::Vault, "address", Type::Text),
    without(Feature::Vault, "allow_unauthenticated", Type::Bool),
    without(Feature::Vault, "ca_file", Type::Text),
    without(Feature::Vault, "ca_path", Type::Text),
    without(Feature::Vault, "cert_file", Type::Text),
    without(Feature::Vault, "create_from_role", Type::Text),
    without(Feature::Vault, "default_identity", Type::Any),
    off(Feature::Vault, "enabled"),
    without(Feature::Vault, "jwt_auth_backend_path", Type::Text),
    without(Feature::Vault, "key_file", Type::Text),
    without(Feature::Vault, "name", Type::Text),
    without(Feature::Vault, "namespace", Type::Text),
    without(Feature::Vault, "task_token_ttl", Type::Text),
    without(Feature::Vault, "tls_server_name", Type::Text),
    without(Feature::Vault, "tls_skip_verify", Type::Bool),
    without(Feature::Vault, "token", Type::Text),
];

/// Keys of `client.options` that are settings.
pub(super) const OPTIONS_USED: &[&str] =
    &["driver.raw_exec.enable", "env.allowlist", "env.denylist", "user.checked_drivers", "user.denylist"];

/// The feature that plugins need which are not built in.
pub(super) const OTHER_PLUGINS: Feature = Feature::ExternalDrivers;

/// Keys of `client.options` that need [`Feature::SomeSettings`]. All other keys have no effect.
pub(super) const OPTIONS_NOT_BUILT: &[&str] = &[
    "driver.allowlist",
    "driver.denylist",
    "fingerprint.allowlist",
    "fingerprint.denylist",
    "fingerprint.network.disallow_link_local",
];
