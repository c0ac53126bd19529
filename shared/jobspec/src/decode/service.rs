//! Services and their health checks.

use api_types::{CheckRestart, Service, ServiceCheck, ServiceWeights};

use super::{
    access,
    block::{Block, texts},
    connect,
};

pub(super) fn service(block: &mut Block<'_>) -> Service {
    Service {
        name: block.text_or_empty("name"),
        tags: block.texts("tags"),
        canary_tags: block.texts("canary_tags"),
        enable_tag_override: block.flag_or_false("enable_tag_override"),
        port_label: block.text_or_empty("port"),
        address_mode: block.text_or_empty("address_mode"),
        address: block.text_or_empty("address"),
        task_name: block.text_or_empty("task"),
        on_update: block.text_or_empty("on_update"),
        provider: block.text_or_empty("provider"),
        cluster: block.text_or_empty("cluster"),
        kind: block.text_or_empty("kind"),
        checks: block.many("check", check),
        check_restart: block.one("check_restart", check_restart),
        connect: block.one("connect", connect::connect).map(Box::new),
        meta: block.text_map_block("meta"),
        canary_meta: block.text_map_block("canary_meta"),
        tagged_addresses: block.text_map_block("tagged_addresses"),
        identity: block.one("identity", access::identity).map(Box::new),
        weights: block.one("weights", |block| ServiceWeights {
            passing: block.int_or_zero("passing"),
            warning: block.int_or_zero("warning"),
        }),
        ..Service::default()
    }
}

fn check(block: &mut Block<'_>) -> ServiceCheck {
    ServiceCheck {
        name: block.text_or_empty("name"),
        r#type: block.text_or_empty("type"),
        command: block.text_or_empty("command"),
        args: block.texts("args"),
        path: block.text_or_empty("path"),
        protocol: block.text_or_empty("protocol"),
        port_label: block.text_or_empty("port"),
        expose: block.flag_or_false("expose"),
        address_mode: block.text_or_empty("address_mode"),
        advertise: block.text_or_empty("advertise"),
        interval: block.duration_or_zero("interval"),
        timeout: block.duration_or_zero("timeout"),
        initial_status: block.text_or_empty("initial_status"),
        notes: block.text_or_empty("notes"),
        tls_server_name: block.text_or_empty("tls_server_name"),
        tls_skip_verify: block.flag_or_false("tls_skip_verify"),
        method: block.text_or_empty("method"),
        header: block.one("header", |block| block.members(texts)),
        check_restart: block.one("check_restart", check_restart),
        grpc_service: block.text_or_empty("grpc_service"),
        grpc_use_tls: block.flag_or_false("grpc_use_tls"),
        task_name: block.text_or_empty("task"),
        success_before_passing: block.int_or_zero("success_before_passing"),
        failures_before_critical: block.int_or_zero("failures_before_critical"),
        failures_before_warning: block.int_or_zero("failures_before_warning"),
        body: block.text_or_empty("body"),
        on_update: block.text_or_empty("on_update"),
    }
}

fn check_restart(block: &mut Block<'_>) -> CheckRestart {
    CheckRestart {
        limit: block.int_or_zero("limit"),
        grace: block.duration("grace"),
        ignore_warnings: block.flag_or_false("ignore_warnings"),
    }
}
