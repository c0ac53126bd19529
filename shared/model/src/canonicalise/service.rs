//! Defaults of services, their checks and their Consul Connect blocks.

use api_types::{CheckRestart, ConsulConnect, Service, ServiceCheck};

use super::defaults::{self, Block};
use super::merge::merge_block;
use super::resources::{resources, volume_mount};
use super::{each, fill, fill_empty, fill_zero, text};

/// Fills in the defaults of a service. `default_name` computes its default name.
pub(super) fn canonicalise(service: &mut Service, default_name: impl FnOnce() -> String) {
    if text(&service.name).is_empty() {
        service.name = Some(default_name());
    }
    fill_empty(&mut service.address_mode, defaults::ADDRESS_MODE);
    fill_empty(&mut service.on_update, defaults::ON_UPDATE);
    fill_empty(&mut service.provider, defaults::SERVICE_PROVIDER);
    fill_empty(&mut service.cluster, defaults::CLUSTER);
    if let Some(weights) = &mut service.weights {
        fill_zero(&mut weights.passing, defaults::SERVICE_WEIGHT);
        fill_zero(&mut weights.warning, defaults::SERVICE_WEIGHT);
    }
    for check in each(&mut service.checks) {
        fill_empty(&mut check.on_update, text(&service.on_update));
        check_restart(check, service.check_restart.as_ref());
    }
    if let Some(connect) = &mut service.connect {
        canonicalise_connect(connect);
    }
}

/// Merges the `check_restart` block of a check with that of its service. The block of the check takes precedence; its
/// zeros count as unset.
fn check_restart(check: &mut ServiceCheck, outer: Option<&CheckRestart>) {
    if let Some(outer) = outer {
        let own = check.check_restart.get_or_insert_default();
        fill_zero(&mut own.limit, outer.limit.unwrap_or(0));
        own.grace = own.grace.or(outer.grace);
        own.ignore_warnings = Some([own.ignore_warnings, outer.ignore_warnings].contains(&Some(true)));
    }
    if let Some(own) = &mut check.check_restart {
        fill(&mut own.grace, defaults::CHECK_GRACE.0);
    }
}

fn canonicalise_connect(connect: &mut ConsulConnect) {
    if let Some(sidecar) = &mut connect.sidecar_task {
        fill(&mut sidecar.kill_timeout, defaults::KILL_TIMEOUT.0);
        fill(&mut sidecar.shutdown_delay, 0);
        merge_block(&mut sidecar.log_config, None, &Block::always(defaults::LOG_CONFIG));
        resources(sidecar.resources.get_or_insert_default());
        each(&mut sidecar.volume_mounts).for_each(volume_mount);
    }
    if let Some(proxy) = connect.gateway.as_mut().and_then(|gateway| gateway.proxy.as_mut()) {
        fill(&mut proxy.connect_timeout, defaults::CONNECT_TIMEOUT.0);
    }
}
