//! Access of tasks to other systems: workload identities, secrets, Vault and Consul.

use api_types::{Consul, Secret, Vault, WorkloadIdentity};

use super::block::Block;

pub(super) fn identity(block: &mut Block<'_>) -> WorkloadIdentity {
    WorkloadIdentity {
        name: block.text_or_empty("name"),
        audience: block.texts("aud"),
        change_mode: block.text_or_empty("change_mode"),
        change_signal: block.text_or_empty("change_signal"),
        env: block.flag_or_false("env"),
        file: block.flag_or_false("file"),
        filepath: block.text_or_empty("filepath"),
        service_name: block.text_or_empty("service_name"),
        ttl: block.duration_or_zero("ttl"),
        extra_claims: block.texts("extra_claims"),
    }
}

pub(super) fn secret(block: &mut Block<'_>) -> Secret {
    Secret {
        name: block.label(),
        provider: block.text_or_empty("provider"),
        path: block.text_or_empty("path"),
        config: block.free_form("config"),
        env: block.text_map_block("env"),
    }
}

/// A vault block, with the defaults that are always filled in (§11).
pub(super) fn vault(block: &mut Block<'_>) -> Vault {
    Vault {
        policies: block.texts("policies"),
        role: block.text_or_empty("role"),
        namespace: block.text("namespace"),
        cluster: block.text_or_empty("cluster"),
        env: Some(block.flag("env").unwrap_or(true)),
        disable_file: Some(block.flag("disable_file").unwrap_or(false)),
        change_mode: Some(block.text("change_mode").unwrap_or_else(|| "restart".to_owned())),
        change_signal: block.text("change_signal"),
        allow_token_expiration: block.flag("allow_token_expiration"),
    }
}

pub(super) fn consul(block: &mut Block<'_>) -> Consul {
    Consul {
        namespace: block.text_or_empty("namespace"),
        cluster: block.text_or_empty("cluster"),
        partition: block.text_or_empty("partition"),
    }
}
