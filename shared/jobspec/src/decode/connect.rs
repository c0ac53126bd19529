//! The blocks of the service mesh: sidecars, their proxies, and gateways.

use api_types::{
    ConsulConnect, ConsulExposeConfig, ConsulExposePath, ConsulGateway, ConsulGatewayBindAddress,
    ConsulGatewayProxy, ConsulGatewayTlsConfig, ConsulGatewayTlsSdsConfig, ConsulHttpHeaderModifiers,
    ConsulIngressConfigEntry, ConsulIngressListener, ConsulIngressService, ConsulLinkedService,
    ConsulMeshConfigEntry, ConsulMeshGateway, ConsulProxy, ConsulSidecarService,
    ConsulTerminatingConfigEntry, ConsulTransparentProxy, ConsulUpstream, SidecarTask,
};

use super::{access, block::Block, resources};

/// The highest port number.
const PORT_MAX: u64 = 65_535;
/// The highest limit of an ingress gateway's service.
const LIMIT_MAX: u64 = 4_294_967_295;

pub(super) fn connect(block: &mut Block<'_>) -> ConsulConnect {
    ConsulConnect {
        native: block.flag_or_false("native"),
        sidecar_service: block.one("sidecar_service", sidecar_service).map(Box::new),
        sidecar_task: block.one("sidecar_task", sidecar_task).map(Box::new),
        gateway: block.one("gateway", gateway).map(Box::new),
    }
}

fn sidecar_service(block: &mut Block<'_>) -> ConsulSidecarService {
    ConsulSidecarService {
        tags: block.texts("tags"),
        port: block.text_or_empty("port"),
        proxy: block.one("proxy", proxy).map(Box::new),
        disable_default_tcp_check: block.flag_or_false("disable_default_tcp_check"),
        meta: block.text_map_block("meta"),
    }
}

fn sidecar_task(block: &mut Block<'_>) -> SidecarTask {
    SidecarTask {
        name: block.text_or_empty("name"),
        driver: block.text_or_empty("driver"),
        user: block.text_or_empty("user"),
        config: block.free_form("config"),
        env: block.text_map_block("env"),
        resources: block.one("resources", resources::resources).map(Box::new),
        meta: block.text_map_block("meta"),
        kill_timeout: block.duration("kill_timeout"),
        log_config: block.one("logs", resources::logs),
        shutdown_delay: block.duration("shutdown_delay"),
        kill_signal: block.text_or_empty("kill_signal"),
        volume_mounts: block.many("volume_mount", resources::volume_mount),
        identities: block.many("identity", access::identity),
    }
}

fn proxy(block: &mut Block<'_>) -> ConsulProxy {
    ConsulProxy {
        local_service_address: block.text_or_empty("local_service_address"),
        local_service_port: block.int_or_zero("local_service_port"),
        upstreams: block.many("upstreams", upstream),
        expose: block.one("expose", expose),
        transparent_proxy: block.one("transparent_proxy", transparent_proxy),
        config: block.free_form("config"),
    }
}

fn upstream(block: &mut Block<'_>) -> ConsulUpstream {
    ConsulUpstream {
        destination_name: block.text_or_empty("destination_name"),
        destination_namespace: block.text_or_empty("destination_namespace"),
        destination_partition: block.text_or_empty("destination_partition"),
        destination_peer: block.text_or_empty("destination_peer"),
        destination_type: block.text_or_empty("destination_type"),
        local_bind_port: block.int_or_zero("local_bind_port"),
        datacenter: block.text_or_empty("datacenter"),
        local_bind_address: block.text_or_empty("local_bind_address"),
        local_bind_socket_path: block.text_or_empty("local_bind_socket_path"),
        local_bind_socket_mode: block.text_or_empty("local_bind_socket_mode"),
        mesh_gateway: block
            .one("mesh_gateway", |block| ConsulMeshGateway { mode: block.text_or_empty("mode") }),
        config: block.free_form("config"),
    }
}

fn expose(block: &mut Block<'_>) -> ConsulExposeConfig {
    ConsulExposeConfig {
        paths: block.many("path", |block| ConsulExposePath {
            path: block.text_or_empty("path"),
            protocol: block.text_or_empty("protocol"),
            local_path_port: block.int_or_zero("local_path_port"),
            listener_port: block.text_or_empty("listener_port"),
        }),
    }
}

fn transparent_proxy(block: &mut Block<'_>) -> ConsulTransparentProxy {
    ConsulTransparentProxy {
        uid: block.text_or_empty("uid"),
        outbound_port: Some(block.uint_within("outbound_port", PORT_MAX).unwrap_or_default()),
        exclude_inbound_ports: block.texts("exclude_inbound_ports"),
        exclude_outbound_ports: block.uints_within("exclude_outbound_ports", PORT_MAX),
        exclude_outbound_cidrs: block.texts("exclude_outbound_cidrs"),
        exclude_uids: block.texts("exclude_uids"),
        no_dns: block.flag_or_false("no_dns"),
    }
}

fn gateway(block: &mut Block<'_>) -> ConsulGateway {
    ConsulGateway {
        proxy: block.one("proxy", gateway_proxy).map(Box::new),
        ingress: block.one("ingress", ingress).map(Box::new),
        terminating: block.one("terminating", terminating),
        mesh: block.one("mesh", |_| ConsulMeshConfigEntry {}),
    }
}

fn gateway_proxy(block: &mut Block<'_>) -> ConsulGatewayProxy {
    let addresses = block.labelled("envoy_gateway_bind_addresses", |block| {
        let address = ConsulGatewayBindAddress {
            address: block.text_or_empty("address"),
            port: block.int_or_zero("port"),
        };
        (block.label().unwrap_or_default(), address)
    });
    ConsulGatewayProxy {
        connect_timeout: block.duration("connect_timeout"),
        envoy_gateway_bind_tagged_addresses: block.flag_or_false("envoy_gateway_bind_tagged_addresses"),
        envoy_gateway_bind_addresses: addresses.map(|addresses| addresses.into_iter().collect()),
        envoy_gateway_no_default_bind: block.flag_or_false("envoy_gateway_no_default_bind"),
        envoy_dns_discovery_type: block.text_or_empty("envoy_dns_discovery_type"),
        config: block.free_form("config"),
    }
}

fn ingress(block: &mut Block<'_>) -> ConsulIngressConfigEntry {
    ConsulIngressConfigEntry {
        tls: block.one("tls", tls),
        listeners: block.many("listener", |block| ConsulIngressListener {
            port: block.int_or_zero("port"),
            protocol: block.text_or_empty("protocol"),
            services: block.many("service", ingress_service),
        }),
    }
}

fn ingress_service(block: &mut Block<'_>) -> ConsulIngressService {
    ConsulIngressService {
        name: block.text_or_empty("name"),
        hosts: block.texts("hosts"),
        tls: block.one("tls", tls).map(Box::new),
        request_headers: block.one("request_headers", header_modifiers).map(Box::new),
        response_headers: block.one("response_headers", header_modifiers).map(Box::new),
        max_connections: block.uint_within("max_connections", LIMIT_MAX),
        max_pending_requests: block.uint_within("max_pending_requests", LIMIT_MAX),
        max_concurrent_requests: block.uint_within("max_concurrent_requests", LIMIT_MAX),
    }
}

fn tls(block: &mut Block<'_>) -> ConsulGatewayTlsConfig {
    ConsulGatewayTlsConfig {
        enabled: block.flag_or_false("enabled"),
        tls_min_version: block.text_or_empty("tls_min_version"),
        tls_max_version: block.text_or_empty("tls_max_version"),
        cipher_suites: block.texts("cipher_suites"),
        sds: block.one("sds", |block| ConsulGatewayTlsSdsConfig {
            cluster_name: block.text_or_empty("cluster_name"),
            cert_resource: block.text_or_empty("cert_resource"),
        }),
    }
}

fn header_modifiers(block: &mut Block<'_>) -> ConsulHttpHeaderModifiers {
    ConsulHttpHeaderModifiers {
        add: block.text_map_block("add"),
        set: block.text_map_block("set"),
        remove: block.texts("remove"),
    }
}

fn terminating(block: &mut Block<'_>) -> ConsulTerminatingConfigEntry {
    ConsulTerminatingConfigEntry {
        services: block.many("service", |block| ConsulLinkedService {
            name: block.text_or_empty("name"),
            ca_file: block.text_or_empty("ca_file"),
            cert_file: block.text_or_empty("cert_file"),
            key_file: block.text_or_empty("key_file"),
            sni: block.text_or_empty("sni"),
        }),
    }
}
