//! Sets absent members to zero, in objects of the API that the domain stores unconverted.
//!
//! Responses contain text, numbers and booleans even if they are unset, and a specification with an explicit zero must
//! equal one without it. (Converted objects make no such difference, because `to_api` writes their zeros.) Empty maps
//! become absent. Defaults other than zero are filled in before this runs, or afterwards into members listed under `kept`.

use std::collections::BTreeMap;

use api_types::*;

/// An object whose absent members can be set to zero.
pub(super) trait Zeros {
    /// Sets absent members to zero, also in nested objects.
    fn fill_zeros(&mut self);
}

impl<T: Zeros> Zeros for Option<T> {
    fn fill_zeros(&mut self) {
        self.iter_mut().for_each(T::fill_zeros);
    }
}

impl<T: Zeros> Zeros for Box<T> {
    fn fill_zeros(&mut self) {
        T::fill_zeros(self);
    }
}

impl<T: Zeros> Zeros for Vec<T> {
    fn fill_zeros(&mut self) {
        self.iter_mut().for_each(T::fill_zeros);
    }
}

impl<T: Zeros> Zeros for BTreeMap<String, T> {
    fn fill_zeros(&mut self) {
        self.values_mut().for_each(T::fill_zeros);
    }
}

/// Implements [`Zeros`] from a list of every member of an object: members that are set to `zero`, `maps` that become
/// absent if empty, nested objects (`within`), and members that are `kept` unchanged.
macro_rules! zeros {
    ($(
        $object:ident {
            $( zero: $($zero:ident)+; )?
            $( maps: $($map:ident)+; )?
            $( within: $($within:ident)+; )?
            $( kept: $($kept:ident)+; )?
        }
    )+) => { $(
        impl Zeros for $object {
            fn fill_zeros(&mut self) {
                let Self { $( $($zero,)+ )? $( $($map,)+ )? $( $($within,)+ )? $( $($kept: _,)+ )? } = self;
                $( $( $zero.get_or_insert_default(); )+ )?
                $( $( $map.take_if(|map| map.is_empty()); )+ )?
                $( $( $within.fill_zeros(); )+ )?
            }
        }
    )+ };
}

zeros! {
    Job {
        zero: stop parent_id all_at_once node_pool consul_namespace vault_namespace nomad_token_id status
            status_description stable version create_index modify_index job_modify_index;
        maps: meta;
        within: task_groups multiregion ui;
        kept: id name region namespace r#type priority datacenters constraints affinities spreads update periodic
            parameterized_job dispatched dispatch_idempotency_token payload submit_time version_tag reschedule migrate;
    }
    TaskGroup {
        maps: meta;
        within: tasks scaling consul services volumes networks;
        kept: name count update migrate constraints restart_policy disconnect ephemeral_disk reschedule_policy
            affinities spreads shutdown_delay max_run_duration stop_after_client_disconnect max_client_disconnect
            prevent_reschedule_on_lost;
    }
    Task {
        maps: config env meta;
        within: services vault secrets consul templates artifacts scaling_policies csi_plugin_config identity identities
            actions schedule;
        kept: name driver user constraints affinities resources restart_policy dispatch_payload lifecycle kill_timeout
            log_config leader shutdown_delay volume_mounts kill_signal kind;
    }
    NetworkResource {
        within: cni;
        kept: mode device cidr ip hostname mbits dns reserved_ports dynamic_ports;
    }
    CniConfig { maps: args; }
    VolumeRequest {
        within: mount_options;
        kept: name r#type source read_only sticky access_mode attachment_mode per_alloc;
    }
    CsiMountOptions { zero: fs_type; kept: mount_flags; }
    Multiregion { within: strategy regions; }
    MultiregionStrategy { zero: max_parallel on_failure; }
    MultiregionRegion { zero: name node_pool; maps: meta; kept: count datacenters; }
    JobUiConfig { zero: description; within: links; }
    JobUiLink { zero: label url; }
    ScalingPolicy {
        zero: id create_index modify_index;
        maps: target policy;
        kept: r#type min max enabled namespace;
    }

    Vault {
        zero: role namespace disable_file allow_token_expiration;
        kept: cluster env change_mode change_signal policies;
    }
    Consul { zero: namespace partition; kept: cluster; }
    Secret { zero: name provider path; maps: config env; }
    Template {
        zero: source_path dest_path embedded_tmpl once envvars vault_grace err_missing_key;
        within: change_script;
        kept: change_mode change_signal splay perms uid gid left_delim right_delim wait;
    }
    ChangeScript { zero: command fail_on_error run_on_first_render; kept: args timeout; }
    TaskArtifact {
        zero: getter_source getter_insecure chown;
        maps: getter_options getter_headers;
        kept: getter_mode relative_dest;
    }
    TaskCsiPluginConfig { zero: id r#type; kept: mount_dir stage_publish_base_dir health_timeout; }
    WorkloadIdentity {
        zero: name change_mode change_signal env file filepath service_name ttl;
        kept: audience extra_claims;
    }
    Action { zero: name command; kept: args; }
    TaskSchedule { within: cron; }
    TaskScheduleCron { zero: start end timezone; }

    Service {
        zero: task_name port_label address enable_tag_override kind;
        maps: meta canary_meta tagged_addresses;
        within: checks connect identity check_restart;
        kept: name address_mode tags canary_tags weights namespace on_update provider cluster;
    }
    ServiceCheck {
        zero: name r#type command path protocol port_label expose address_mode interval timeout initial_status notes
            tls_server_name tls_skip_verify method grpc_service grpc_use_tls task_name success_before_passing
            failures_before_critical failures_before_warning body;
        maps: header;
        within: check_restart;
        kept: args on_update advertise;
    }
    CheckRestart { zero: limit ignore_warnings; kept: grace; }

    ConsulConnect { zero: native; within: sidecar_service sidecar_task gateway; }
    ConsulSidecarService { zero: port disable_default_tcp_check; maps: meta; within: proxy; kept: tags; }
    SidecarTask {
        zero: name driver user kill_signal;
        maps: config env meta;
        within: identities;
        kept: resources kill_timeout log_config shutdown_delay volume_mounts;
    }
    ConsulProxy {
        zero: local_service_address local_service_port;
        maps: config;
        within: upstreams expose transparent_proxy;
    }
    ConsulUpstream {
        zero: destination_name destination_namespace destination_partition destination_peer destination_type
            local_bind_port datacenter local_bind_address local_bind_socket_path local_bind_socket_mode;
        maps: config;
        within: mesh_gateway;
    }
    ConsulMeshGateway { zero: mode; }
    ConsulExposeConfig { within: paths; }
    ConsulExposePath { zero: path protocol local_path_port listener_port; }
    ConsulTransparentProxy {
        zero: uid outbound_port no_dns;
        kept: exclude_inbound_ports exclude_outbound_ports exclude_outbound_cidrs exclude_uids;
    }
    ConsulGateway { within: proxy ingress terminating; kept: mesh; }
    ConsulGatewayProxy {
        zero: envoy_gateway_bind_tagged_addresses envoy_gateway_no_default_bind envoy_dns_discovery_type;
        maps: config;
        within: envoy_gateway_bind_addresses;
        kept: connect_timeout;
    }
    ConsulGatewayBindAddress { zero: address port; }
    ConsulIngressConfigEntry { within: tls listeners; }
    ConsulIngressListener { zero: port protocol; within: services; }
    ConsulIngressService {
        zero: name;
        within: tls request_headers response_headers;
        kept: hosts max_connections max_pending_requests max_concurrent_requests;
    }
    ConsulGatewayTlsConfig { zero: enabled tls_min_version tls_max_version; within: sds; kept: cipher_suites; }
    ConsulGatewayTlsSdsConfig { zero: cluster_name cert_resource; }
    ConsulHttpHeaderModifiers { maps: add set; kept: remove; }
    ConsulTerminatingConfigEntry { within: services; }
    ConsulLinkedService { zero: name ca_file cert_file key_file sni; }
}
