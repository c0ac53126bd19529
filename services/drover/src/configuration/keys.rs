//! Every key of the reference's agent configuration, and our own: what it wants, and what becomes of it
//! (`spec/http-api.md` C.2 to C.5). A key that is in no list is unknown.

use super::fit::{COUNT, Fit, SMALL, WHOLE};

/// A key, and what becomes of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) fit: Fit,
    pub(super) fate: Fate,
}

/// What becomes of a key that is given.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// It is a setting here. Of a block: what is in it says for itself.
    Used,
    /// It has no effect here, for this reason.
    NoEffect(&'static str),
    /// It has no effect here while it is false, for this reason. `true` is not built.
    Off(&'static str),
    /// It is not built yet.
    NotBuilt,
    /// The block around it is not used, which says it all.
    AsBlock,
}

const fn used(name: &'static str, fit: Fit) -> Key {
    Key { name, fit, fate: Fate::Used }
}

const fn idle(name: &'static str, fit: Fit, why: &'static str) -> Key {
    Key { name, fit, fate: Fate::NoEffect(why) }
}

const fn off(name: &'static str, why: &'static str) -> Key {
    Key { name, fit: Fit::Bool, fate: Fate::Off(why) }
}

const fn unbuilt(name: &'static str, fit: Fit) -> Key {
    Key { name, fit, fate: Fate::NotBuilt }
}

const NO_CONSENSUS: &str = "servers form no consensus of their own: PostgreSQL holds the state";
const NO_GOSSIP: &str = "servers and nodes find each other over NATS";
const ONE_PORT: &str = "the HTTP API is the only port of an agent";
const NO_CONSUL: &str = "there is no integration with Consul";
const NO_ACL: &str = "ACLs are not built, and off";
const NO_TLS: &str = "TLS of the HTTP API is not built, and off";
const NO_VAULT: &str = "there is no integration with Vault";
const NO_UI: &str = "there is no web interface";
const ALWAYS: &str = "metrics are always collected and served";
const NO_CALL_HOME: &str = "nothing calls home";
const TO_STDERR: &str = "logs go to standard error";
const NO_PLUGINS: &str = "drivers are built in";
const NO_BRIDGE: &str = "there are no bridge networks";
const EVENTS: &str = "the event stream is always on; its buffer is the log of changes";
const STAYS: &str = "an agent that ends leaves its tasks running";

/// The keys at the top of a file.
pub(super) const TOP: &[Key] = &[
    unbuilt_or_off("acl", ACL),
    used("addresses", Fit::Block(ADDRESSES)),
    used("advertise", Fit::Block(ADVERTISE)),
    unbuilt("audit", Fit::Any),
    idle("autopilot", Fit::Block(AUTOPILOT), NO_CONSENSUS),
    used("bind_addr", Fit::Address),
    used("client", Fit::Block(CLIENT)),
    idle("consul", Fit::Block(CONSUL), NO_CONSUL),
    used("data_dir", Fit::Text),
    used("datacenter", Fit::Text),
    idle("disable_anonymous_signature", Fit::Bool, NO_CALL_HOME),
    idle("disable_update_check", Fit::Bool, NO_CALL_HOME),
    idle("enable_debug", Fit::Bool, "there are no debug endpoints to switch on"),
    idle("enable_syslog", Fit::Bool, TO_STDERR),
    idle("eventlog", Fit::Block(EVENTLOG), TO_STDERR),
    unbuilt("http_api_response_headers", Fit::Map),
    unbuilt("keyring", Fit::Any),
    idle("leave_on_interrupt", Fit::Bool, STAYS),
    idle("leave_on_terminate", Fit::Bool, STAYS),
    unbuilt("limits", Fit::Block(LIMITS)),
    unbuilt("log_file", Fit::Text),
    unbuilt("log_include_location", Fit::Bool),
    used("log_json", Fit::Bool),
    used("log_level", Fit::Text),
    unbuilt("log_rotate_bytes", WHOLE),
    unbuilt("log_rotate_duration", Fit::Duration),
    unbuilt("log_rotate_max_files", WHOLE),
    used("name", Fit::Text),
    used("nats", Fit::Block(NATS)),
    used("plugin", Fit::Named { known: PLUGINS, others: PLUGIN }),
    idle("plugin_dir", Fit::Text, NO_PLUGINS),
    used("ports", Fit::Block(PORTS)),
    used("postgres", Fit::Block(POSTGRES)),
    used("region", Fit::Text),
    idle("reporting", Fit::Any, NO_CALL_HOME),
    unbuilt("sentinel", Fit::Any),
    used("server", Fit::Block(SERVER)),
    idle("syslog_facility", Fit::Text, TO_STDERR),
    used("telemetry", Fit::Block(TELEMETRY)),
    unbuilt_or_off("tls", TLS),
    idle("ui", Fit::Block(UI), NO_UI),
    unbuilt_or_off("vault", VAULT),
];

const fn within(name: &'static str, fit: Fit) -> Key {
    Key { name, fit, fate: Fate::AsBlock }
}

/// A block of which only `enabled`, or the like, asks for something.
const fn unbuilt_or_off(name: &'static str, keys: &'static [Key]) -> Key {
    used(name, Fit::Block(keys))
}

const ACL: &[Key] = &[
    off("enabled", NO_ACL),
    idle("policy_ttl", Fit::Duration, NO_ACL),
    idle("replication_token", Fit::Text, NO_ACL),
    idle("role_ttl", Fit::Duration, NO_ACL),
    idle("token_max_expiration_ttl", Fit::Duration, NO_ACL),
    idle("token_min_expiration_ttl", Fit::Duration, NO_ACL),
    idle("token_ttl", Fit::Duration, NO_ACL),
];

const ADDRESSES: &[Key] =
    &[used("http", Fit::Address), idle("rpc", Fit::Text, ONE_PORT), idle("serf", Fit::Text, ONE_PORT)];

const ADVERTISE: &[Key] =
    &[used("http", Fit::Text), idle("rpc", Fit::Text, ONE_PORT), idle("serf", Fit::Text, ONE_PORT)];

const AUTOPILOT: &[Key] = &[
    within("cleanup_dead_servers", Fit::Bool),
    within("disable_upgrade_migration", Fit::Bool),
    within("enable_custom_upgrades", Fit::Bool),
    within("enable_redundancy_zones", Fit::Bool),
    within("last_contact_threshold", Fit::Duration),
    within("max_trailing_logs", WHOLE),
    within("min_quorum", WHOLE),
    within("server_stabilization_time", Fit::Duration),
];

const CLIENT: &[Key] = &[
    unbuilt("alloc_dir", Fit::Text),
    unbuilt("alloc_mounts_dir", Fit::Text),
    unbuilt("artifact", Fit::Block(ARTIFACT)),
    idle("bridge_network_hairpin_mode", Fit::Bool, NO_BRIDGE),
    idle("bridge_network_name", Fit::Text, NO_BRIDGE),
    idle("bridge_network_subnet", Fit::Text, NO_BRIDGE),
    idle("bridge_network_subnet_ipv6", Fit::Text, NO_BRIDGE),
    idle("cgroup_parent", Fit::Text, "tasks have no cgroups of their own"),
    unbuilt("chroot_env", Fit::Map),
    idle("cni_config_dir", Fit::Text, NO_BRIDGE),
    idle("cni_path", Fit::Text, NO_BRIDGE),
    unbuilt("common_plugin_dir", Fit::Text),
    idle("cpu_disable_dmidecode", Fit::Bool, "dmidecode is never called"),
    used("cpu_total_compute", COUNT),
    unbuilt("disable_remote_exec", Fit::Bool),
    used("disk_free_mb", COUNT),
    unbuilt("disk_total_mb", COUNT),
    unbuilt("drain_on_shutdown", Fit::Block(DRAIN_ON_SHUTDOWN)),
    used("enabled", Fit::Bool),
    unbuilt("fingerprint", Fit::Named { known: &[], others: FINGERPRINT }),
    used("gc_disk_usage_threshold", Fit::Float),
    used("gc_inode_usage_threshold", Fit::Float),
    unbuilt("gc_interval", Fit::Duration),
    used("gc_max_allocs", COUNT),
    unbuilt("gc_parallel_destroys", WHOLE),
    unbuilt("gc_volumes_on_client_gc", Fit::Bool),
    unbuilt("host_network", Fit::Named { known: &[], others: HOST_NETWORK }),
    unbuilt("host_volume", Fit::Named { known: &[], others: HOST_VOLUME }),
    unbuilt("host_volume_plugin_dir", Fit::Text),
    unbuilt("host_volumes_dir", Fit::Text),
    used("max_dynamic_port", WHOLE),
    unbuilt("max_kill_timeout", Fit::Duration),
    unbuilt("memory_oversubscription", Fit::Any),
    used("memory_total_mb", COUNT),
    used("meta", Fit::Map),
    used("min_dynamic_port", WHOLE),
    used("network_interface", Fit::Text),
    idle("network_speed", WHOLE, "bandwidth is not accounted"),
    idle("no_host_uuid", Fit::Bool, "ids of nodes are random and kept in data_dir"),
    used("node_class", Fit::Text),
    unbuilt("node_max_allocs", WHOLE),
    used("node_pool", Fit::Text),
    unbuilt("nomad_service_discovery", Fit::Bool),
    used("options", Fit::Map),
    unbuilt("preferred_address_family", Fit::Text),
    unbuilt("reservable_cores", Fit::Text),
    used("reserved", Fit::Block(RESERVED)),
    idle("retry_interval", Fit::Duration, NO_GOSSIP),
    idle("retry_join", Fit::Texts, NO_GOSSIP),
    idle("retry_max", WHOLE, NO_GOSSIP),
    idle("server_join", Fit::Block(SERVER_JOIN), NO_GOSSIP),
    idle("servers", Fit::Texts, NO_GOSSIP),
    unbuilt("state_dir", Fit::Text),
    unbuilt("template", Fit::Any),
    unbuilt("users", Fit::Any),
];

const ARTIFACT: &[Key] = &[
    within("decompression_file_count_limit", WHOLE),
    within("decompression_size_limit", Fit::Text),
    within("disable_artifact_inspection", Fit::Bool),
    within("disable_filesystem_isolation", Fit::Bool),
    within("filesystem_isolation_extra_paths", Fit::Texts),
    within("gcs_timeout", Fit::Duration),
    within("git_timeout", Fit::Duration),
    within("hg_timeout", Fit::Duration),
    within("http_max_size", Fit::Text),
    within("http_read_timeout", Fit::Duration),
    within("s3_timeout", Fit::Duration),
    within("set_environment_variables", Fit::Text),
];

const DRAIN_ON_SHUTDOWN: &[Key] =
    &[within("deadline", Fit::Duration), within("force", Fit::Bool), within("ignore_system_jobs", Fit::Bool)];

const FINGERPRINT: &[Key] = &[
    within("exit_on_failure", Fit::Bool),
    within("retry_attempts", WHOLE),
    within("retry_interval", Fit::Duration),
];

const HOST_NETWORK: &[Key] =
    &[within("cidr", Fit::Text), within("interface", Fit::Text), within("reserved_ports", Fit::Text)];

const HOST_VOLUME: &[Key] = &[within("path", Fit::Text), within("read_only", Fit::Bool)];

const RESERVED: &[Key] = &[
    unbuilt("cores", Fit::Text),
    used("cpu", COUNT),
    used("disk", COUNT),
    used("memory", COUNT),
    used("reserved_ports", Fit::Text),
];

const SERVER_JOIN: &[Key] = &[
    within("retry_interval", Fit::Duration),
    within("retry_join", Fit::Texts),
    within("retry_max", WHOLE),
    within("start_join", Fit::Texts),
];

const CONSUL: &[Key] = &[
    within("address", Fit::Text),
    within("allow_unauthenticated", Fit::Bool),
    within("auth", Fit::Text),
    within("auto_advertise", Fit::Bool),
    within("ca_file", Fit::Text),
    within("cert_file", Fit::Text),
    within("checks_use_advertise", Fit::Bool),
    within("client_auto_join", Fit::Bool),
    within("client_failures_before_critical", WHOLE),
    within("client_failures_before_warning", WHOLE),
    within("client_http_check_name", Fit::Text),
    within("client_service_name", Fit::Text),
    within("grpc_address", Fit::Text),
    within("grpc_ca_file", Fit::Text),
    within("key_file", Fit::Text),
    within("name", Fit::Text),
    within("namespace", Fit::Text),
    within("server_auto_join", Fit::Bool),
    within("server_failures_before_critical", WHOLE),
    within("server_failures_before_warning", WHOLE),
    within("server_http_check_name", Fit::Text),
    within("server_rpc_check_name", Fit::Text),
    within("server_serf_check_name", Fit::Text),
    within("server_service_name", Fit::Text),
    within("service_auth_method", Fit::Text),
    within("service_identity", Fit::Any),
    within("share_ssl", Fit::Bool),
    within("ssl", Fit::Bool),
    within("tags", Fit::Texts),
    within("task_auth_method", Fit::Text),
    within("task_identity", Fit::Any),
    within("timeout", Fit::Duration),
    within("token", Fit::Text),
    within("verify_ssl", Fit::Bool),
];

const EVENTLOG: &[Key] =
    &[within("enabled", Fit::Bool), within("level", Fit::Text), within("name", Fit::Text)];

const LIMITS: &[Key] = &[
    within("http_max_conns_per_client", WHOLE),
    within("https_handshake_timeout", Fit::Duration),
    within("rpc_handshake_timeout", Fit::Duration),
    within("rpc_max_conns_per_client", WHOLE),
];

const NATS: &[Key] = &[
    used("ca", Fit::Text),
    used("credentials", Fit::Text),
    used("node_key", Fit::Text),
    used("url", Fit::Text),
];

const PORTS: &[Key] = &[used("http", SMALL), idle("rpc", SMALL, ONE_PORT), idle("serf", SMALL, ONE_PORT)];

const POSTGRES: &[Key] = &[used("password_file", Fit::Text), used("url", Fit::Text)];

/// Plugins that are drivers here.
const PLUGINS: &[Key] = &[used("raw_exec", Fit::Block(RAW_EXEC))];

/// What stands in the block of any plugin.
const PLUGIN: &[Key] = &[within("args", Fit::Texts), within("config", Fit::Any)];

const RAW_EXEC: &[Key] = &[unbuilt("args", Fit::Texts), used("config", Fit::Block(RAW_EXEC_CONFIG))];

const RAW_EXEC_CONFIG: &[Key] = &[
    used("denied_envvars", Fit::Texts),
    used("denied_host_gids", Fit::Text),
    used("denied_host_uids", Fit::Text),
    used("enabled", Fit::Bool),
    idle("no_cgroups", Fit::Bool, "tasks have no cgroups of their own"),
];

const SERVER: &[Key] = &[
    unbuilt("acl_token_gc_threshold", Fit::Duration),
    idle("authoritative_region", Fit::Text, "there is one region"),
    used("batch_eval_gc_threshold", Fit::Duration),
    idle("bootstrap_expect", WHOLE, NO_CONSENSUS),
    unbuilt("client_introduction", Fit::Any),
    unbuilt("csi_plugin_gc_threshold", Fit::Duration),
    unbuilt("csi_volume_claim_gc_interval", Fit::Duration),
    unbuilt("csi_volume_claim_gc_threshold", Fit::Duration),
    idle("data_dir", Fit::Text, NO_CONSENSUS),
    unbuilt("default_scheduler_config", Fit::Block(SCHEDULER_CONFIG)),
    used("deployment_gc_threshold", Fit::Duration),
    unbuilt("deployment_query_rate_limit", Fit::Float),
    idle("enable_event_broker", Fit::Bool, EVENTS),
    used("enabled", Fit::Bool),
    used("enabled_schedulers", Fit::Texts),
    idle("encrypt", Fit::Text, NO_GOSSIP),
    used("eval_gc_threshold", Fit::Duration),
    idle("event_buffer_size", WHOLE, EVENTS),
    used("failover_heartbeat_ttl", Fit::Duration),
    used("heartbeat_grace", Fit::Duration),
    used("job_default_priority", SMALL),
    used("job_gc_interval", Fit::Duration),
    used("job_gc_threshold", Fit::Duration),
    used("job_max_count", COUNT),
    used("job_max_priority", SMALL),
    used("job_max_source_size", Fit::Size),
    unbuilt("job_tracked_versions", WHOLE),
    unbuilt("license_path", Fit::Text),
    used("max_heartbeats_per_second", COUNT_OF_HEARTBEATS),
    used("min_heartbeat_ttl", Fit::Duration),
    used("node_gc_threshold", Fit::Duration),
    idle("non_voting_server", Fit::Bool, NO_CONSENSUS),
    used("num_schedulers", SMALL),
    used("oidc_issuer", Fit::Text),
    idle(
        "plan_rejection_tracker",
        Fit::Block(PLAN_REJECTION_TRACKER),
        "plans are not computed from stale state for long",
    ),
    idle("protocol_version", WHOLE, NO_CONSENSUS),
    idle("raft_boltdb", Fit::Any, NO_CONSENSUS),
    idle("raft_logstore", Fit::Any, NO_CONSENSUS),
    idle("raft_multiplier", WHOLE, NO_CONSENSUS),
    idle("raft_protocol", WHOLE, NO_CONSENSUS),
    idle("raft_snapshot_interval", Fit::Duration, NO_CONSENSUS),
    idle("raft_snapshot_threshold", WHOLE, NO_CONSENSUS),
    idle("raft_trailing_logs", WHOLE, NO_CONSENSUS),
    idle("redundancy_zone", Fit::Text, NO_CONSENSUS),
    idle("rejoin_after_leave", Fit::Bool, NO_GOSSIP),
    idle("retry_interval", Fit::Duration, NO_GOSSIP),
    idle("retry_join", Fit::Texts, NO_GOSSIP),
    idle("retry_max", WHOLE, NO_GOSSIP),
    unbuilt("root_key_gc_interval", Fit::Duration),
    unbuilt("root_key_gc_threshold", Fit::Duration),
    unbuilt("root_key_rotation_threshold", Fit::Duration),
    unbuilt("search", Fit::Block(SEARCH)),
    idle("server_join", Fit::Block(SERVER_JOIN), NO_GOSSIP),
    idle("start_join", Fit::Texts, NO_GOSSIP),
    idle("start_timeout", Fit::Duration, NO_GOSSIP),
    idle("update_service", Fit::Any, NO_CONSUL),
    idle("upgrade_version", Fit::Text, NO_CONSENSUS),
];

/// The reference takes a number with a fraction.
const COUNT_OF_HEARTBEATS: Fit = Fit::Float;

const SCHEDULER_CONFIG: &[Key] = &[
    within("memory_oversubscription_enabled", Fit::Bool),
    within("node_limit_for_feasibility_checks", WHOLE),
    within("pause_eval_broker", Fit::Bool),
    within("preemption_config", Fit::Block(PREEMPTION_CONFIG)),
    within("reject_job_registration", Fit::Bool),
    within("scheduler_algorithm", Fit::Text),
];

const PREEMPTION_CONFIG: &[Key] = &[
    within("batch_scheduler_enabled", Fit::Bool),
    within("service_scheduler_enabled", Fit::Bool),
    within("sysbatch_scheduler_enabled", Fit::Bool),
    within("system_scheduler_enabled", Fit::Bool),
];

const PLAN_REJECTION_TRACKER: &[Key] =
    &[within("enabled", Fit::Bool), within("node_threshold", WHOLE), within("node_window", Fit::Duration)];

const SEARCH: &[Key] = &[
    within("fuzzy_enabled", Fit::Bool),
    within("limit_query", WHOLE),
    within("limit_results", WHOLE),
    within("min_term_length", WHOLE),
];

const TELEMETRY: &[Key] = &[
    unbuilt("allowed_metadata_keys_in_metrics", Fit::Texts),
    idle("backwards_compatible_metrics", Fit::Bool, ALWAYS),
    unbuilt("circonus_api_app", Fit::Text),
    unbuilt("circonus_api_token", Fit::Text),
    unbuilt("circonus_api_url", Fit::Text),
    unbuilt("circonus_broker_id", Fit::Text),
    unbuilt("circonus_broker_select_tag", Fit::Text),
    unbuilt("circonus_check_display_name", Fit::Text),
    unbuilt("circonus_check_force_metric_activation", Fit::Text),
    unbuilt("circonus_check_id", Fit::Text),
    unbuilt("circonus_check_instance_id", Fit::Text),
    unbuilt("circonus_check_search_tag", Fit::Text),
    unbuilt("circonus_check_tags", Fit::Text),
    unbuilt("circonus_submission_interval", Fit::Text),
    unbuilt("circonus_submission_url", Fit::Text),
    idle("collection_interval", Fit::Duration, ALWAYS),
    unbuilt("datadog_address", Fit::Text),
    unbuilt("datadog_tags", Fit::Texts),
    idle("disable_allocation_hook_metrics", Fit::Bool, ALWAYS),
    idle("disable_dispatched_job_summary_metrics", Fit::Bool, ALWAYS),
    idle("disable_hostname", Fit::Bool, "names of metrics have no host names"),
    idle("disable_quota_utilization_metrics", Fit::Bool, ALWAYS),
    idle("disable_rpc_rate_metrics_labels", Fit::Bool, ALWAYS),
    idle("disable_tagged_metrics", Fit::Bool, ALWAYS),
    unbuilt("filter_default", Fit::Bool),
    idle("in_memory_collection_interval", Fit::Duration, ALWAYS),
    idle("in_memory_retention_period", Fit::Duration, ALWAYS),
    unbuilt("include_alloc_metadata_in_metrics", Fit::Bool),
    unbuilt("prefix_filter", Fit::Texts),
    idle("prometheus_metrics", Fit::Bool, ALWAYS),
    idle("publish_allocation_metrics", Fit::Bool, ALWAYS),
    idle("publish_node_metrics", Fit::Bool, ALWAYS),
    unbuilt("statsd_address", Fit::Text),
    unbuilt("statsite_address", Fit::Text),
    idle("use_node_name", Fit::Bool, "names of metrics have no host names"),
];

const TLS: &[Key] = &[
    idle("ca_file", Fit::Text, NO_TLS),
    idle("cert_file", Fit::Text, NO_TLS),
    off("http", NO_TLS),
    idle("key_file", Fit::Text, NO_TLS),
    off("rpc", NO_TLS),
    idle("rpc_upgrade_mode", Fit::Bool, NO_TLS),
    idle("tls_cipher_suites", Fit::Text, NO_TLS),
    idle("tls_min_version", Fit::Text, NO_TLS),
    idle("tls_prefer_server_cipher_suites", Fit::Bool, NO_TLS),
    idle("verify_https_client", Fit::Bool, NO_TLS),
    idle("verify_server_hostname", Fit::Bool, NO_TLS),
];

const UI: &[Key] = &[
    within("consul", Fit::Block(UI_LINK)),
    within("content_security_policy", Fit::Any),
    within("enabled", Fit::Bool),
    within("label", Fit::Block(UI_LABEL)),
    within("show_cli_hints", Fit::Bool),
    within("vault", Fit::Block(UI_LINK)),
];

const UI_LINK: &[Key] = &[within("ui_url", Fit::Text)];

const UI_LABEL: &[Key] =
    &[within("background_color", Fit::Text), within("text", Fit::Text), within("text_color", Fit::Text)];

const VAULT: &[Key] = &[
    idle("address", Fit::Text, NO_VAULT),
    idle("allow_unauthenticated", Fit::Bool, NO_VAULT),
    idle("ca_file", Fit::Text, NO_VAULT),
    idle("ca_path", Fit::Text, NO_VAULT),
    idle("cert_file", Fit::Text, NO_VAULT),
    idle("create_from_role", Fit::Text, NO_VAULT),
    idle("default_identity", Fit::Any, NO_VAULT),
    off("enabled", NO_VAULT),
    idle("jwt_auth_backend_path", Fit::Text, NO_VAULT),
    idle("key_file", Fit::Text, NO_VAULT),
    idle("name", Fit::Text, NO_VAULT),
    idle("namespace", Fit::Text, NO_VAULT),
    idle("task_token_ttl", Fit::Text, NO_VAULT),
    idle("tls_server_name", Fit::Text, NO_VAULT),
    idle("tls_skip_verify", Fit::Bool, NO_VAULT),
    idle("token", Fit::Text, NO_VAULT),
];

/// Keys of `client.options` that are settings here.
pub(super) const OPTIONS_USED: &[&str] = &["driver.raw_exec.enable", "env.denylist"];

/// Keys of `client.options` that ask for something that is not built. Any other has no effect.
pub(super) const OPTIONS_NOT_BUILT: &[&str] = &[
    "driver.allowlist",
    "driver.denylist",
    "fingerprint.allowlist",
    "fingerprint.denylist",
    "fingerprint.network.disallow_link_local",
    "user.checked_drivers",
    "user.denylist",
];
