//! `drover agent`, the process on every machine. With flags alone it is the agent. With configuration files it runs what
//! they configure, which may include the servers. With `-dev` it is a whole cluster that deletes its files at the end,
//! unless the configuration files say otherwise.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use agent::{
    ArtifactArgs, ConsulArgs, DnsArgs, HostVolumeArgs, IsolationArgs, LeaveArgs, Pair, TemplateArgs,
    VolumeArgs,
};
use anyhow::{Context as _, anyhow, bail, ensure};
use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::cluster::{self, Parsed, Servers, Setup};
use crate::configuration::{
    self, Bytes, Client, Consul, HostVolume, Loaded, Millis, Nats, Postgres, Settings,
};
use crate::health::{self, Parts};
use crate::process::Leave;
use crate::{dev, process, services};

/// Runs tasks on this machine.
///
/// With -config, the process is what the configuration says: it may also run the servers. Most other flags then cannot be
/// given.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Run a whole cluster in one process, as `drover dev -ephemeral` does. Configuration files override its settings.
    #[arg(long)]
    dev: bool,
    /// Read settings from this file, or from all .hcl and .json files in this directory. May be given several times.
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) telemetry: telemetry::Args,
    #[command(flatten)]
    health: health::Args,
    #[command(flatten)]
    pub(crate) bus: bus::Args,
    #[command(flatten)]
    pub(crate) own: agent::Args,
}

/// Flags that may be combined with `-dev` and `-config`. All other settings come from the configuration.
const ALLOWED_WITH_CONFIG: [&str; 5] = ["dev", "config", "level", "format", "health_addr"];

/// Refuses flags that a configuration would override. `command` is the sub-command.
pub(crate) fn check(command: &clap::Command, matches: &ArgMatches) -> Result<(), String> {
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let Some(source) = ["dev", "config"].into_iter().find(|id| given(id)) else { return Ok(()) };
    let refused = |id: &str| !ALLOWED_WITH_CONFIG.contains(&id) && given(id);
    match command.get_arguments().find(|argument| refused(argument.get_id().as_str())) {
        Some(flag) => {
            Err(format!("-{} cannot be combined with -{source}", flag.get_long().unwrap_or_default()))
        }
        None => Ok(()),
    }
}

/// Runs the agent until the process is stopped.
pub(crate) fn main(mut args: Args) -> ExitCode {
    if args.config.is_empty() && !args.dev {
        let (telemetry, health) = (args.telemetry, args.health);
        let (stops_children, leave) = (args.own.stop_tasks_on_exit, Leave::from(&args.own.leave));
        let settings = process::Settings {
            name: "agent",
            parts: Parts::AGENT,
            stops_children,
            leave,
            telemetry,
            health,
        };
        return process::run_on_all_cores(settings, |process| services::agent(process, args.bus, args.own));
    }
    let Loaded { mut settings, report } = configuration::load(&args.config);
    if !report.faults.is_empty() || !report.not_built.is_empty() {
        let faults = report.faults.iter().map(ToString::to_string);
        let not_built =
            report.not_built.iter().map(|finding| format!("Error loading configuration from {finding}"));
        // If stderr cannot be written, the error cannot be reported anywhere.
        for text in faults.chain(not_built) {
            let _ = writeln!(std::io::stderr(), "==> {text}");
        }
        return ExitCode::FAILURE;
    }
    if !args.dev {
        settings.nats.url = settings.nats.url.take().or(variable("DROVER_NATS_URL"));
        settings.postgres.url = settings.postgres.url.take().or(variable("DROVER_DATABASE_URL"));
    }
    if let Some(level) = &settings.log_level {
        args.telemetry.level = level.to_lowercase();
    }
    if let Some(json) = settings.log_json {
        args.telemetry.format = if json { telemetry::Format::Json } else { telemetry::Format::Human };
    }
    let kept = settings.data_dir.as_ref().filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let temporary = if args.dev && kept.is_none() { tempfile::tempdir().map(Some) } else { Ok(None) };
    let setup = temporary.context("cannot create a temporary directory").and_then(|temporary| {
        let dir = kept.or_else(|| temporary.as_ref().map(|dir| dir.path().to_owned()));
        let setup = setup(&settings, dir, args.dev)?;
        Ok((Setup { is_ephemeral: temporary.is_some(), ..setup }, temporary))
    });
    let without_server = configuration::without_server(&settings, args.dev);
    match setup.context("Error loading configuration") {
        Ok((setup, temporary)) => {
            let (telemetry, health) = (args.telemetry, args.health);
            let (parts, stops_children) = (setup.parts(), setup.stops_children());
            let leave = setup.agent.as_ref().map(|agent| Leave::from(&agent.leave)).unwrap_or_default();
            let settings =
                process::Settings { name: "agent", parts, stops_children, leave, telemetry, health };
            process::run_on_all_cores(settings, async move |process| {
                for finding in report.no_effect {
                    let (file, line) = (finding.file.display(), finding.at.line);
                    tracing::info!(setting = finding.key, %file, line, "a setting in a configuration file has no effect");
                }
                for setting in without_server {
                    tracing::info!(setting, "a setting of servers has no effect: this agent runs none");
                }
                let ended = Box::pin(cluster::run(process, setup)).await;
                drop(temporary);
                ended
            })
        }
        Err(error) => process::fail(&error),
    }
}

/// The value of an environment variable. An empty value counts as unset.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The setup of a process with these settings: its parts and the directory of its files. The environment provides values
/// that the settings leave out. With `-dev` it runs all parts of a cluster (http-api C.3).
fn setup(settings: &Settings, dir: Option<PathBuf>, is_dev: bool) -> anyhow::Result<Setup> {
    if let Some(text) = configuration::missing(settings, is_dev) {
        bail!(text);
    }
    if let Some(text) = configuration::addresses_missing(settings, is_dev) {
        bail!(text);
    }
    if let Some(text) = configuration::conflicts(settings).into_iter().next() {
        bail!(text);
    }
    let (is_server, is_client) = (settings.is_server(is_dev), settings.is_client(is_dev));
    let dir = dir.ok_or_else(|| anyhow!("Must specify data directory: data_dir = \"...\""))?;
    let Nats { url, ca, credentials, node_key } = &settings.nats;
    let nats_flags = url.is_some().then(|| {
        flags(&[
            ("--nats-url", url),
            ("--nats-ca", ca),
            ("--nats-credentials", credentials),
            ("--nats-node-key", node_key),
        ])
    });
    let nats = nats_flags
        .map(|flags| Parsed::<bus::Args>::try_of(&flags).context("cannot use the settings of nats"));
    let nats = nats.transpose()?;
    let Postgres { url, password_file } = &settings.postgres;
    let database_flags =
        url.is_some().then(|| flags(&[("--database-url", url), ("--database-password-file", password_file)]));
    let database = database_flags.map(|flags| Parsed::of(&flags));
    let servers = is_server.then(|| servers(settings, is_dev)).transpose()?;
    let agent = is_client.then(|| match (is_dev, &servers) {
        (true, Some(servers)) => dev::agent_args(&dir, &servers.api),
        _ => agent::Args { data_dir: dir.join("agent"), ..agent::Args::default() },
    });
    let agent = agent.map(|args| agent_args(settings, args)).transpose()?;
    let is_advertised = settings.http_advertised.is_some();
    let is_ephemeral = false;
    Ok(Setup { dir, nats, database, servers, agent, is_advertised, is_dev, is_ephemeral })
}

/// The command line that sets those that have a value.
fn flags<'a>(values: &[(&'a str, &'a Option<String>)]) -> Vec<&'a str> {
    values.iter().filter_map(|(flag, value)| Some([*flag, value.as_deref()?])).flatten().collect()
}

fn servers(settings: &Settings, is_dev: bool) -> anyhow::Result<Servers> {
    let server = &settings.server;
    let mut servers = Servers {
        api: Parsed::of(&[]),
        plan_applier: Parsed::of(&[]),
        eval_broker: Parsed::of(&[]),
        node_tracker: Parsed::of(&[]),
        deployment_watcher: Parsed::of(&[]),
        scheduler: Parsed::of(&[]),
    };
    let Servers { api, plan_applier, eval_broker: _, node_tracker, deployment_watcher: _, scheduler } =
        &mut servers;
    let ip = settings.http_addr.or(settings.bind_addr).unwrap_or(api.http_addr.ip());
    api.http_addr = SocketAddr::new(ip, settings.http_port.unwrap_or(api.http_addr.port()));
    replace(&mut api.rpc_port, &settings.rpc_port);
    replace(&mut api.serf_port, &settings.serf_port);
    replace(&mut api.server_name, &settings.name);
    replace(&mut api.region, &settings.region);
    replace(&mut api.server_datacenter, &settings.datacenter);
    replace(&mut api.job_default_priority, &server.job_default_priority);
    replace(&mut api.job_max_priority, &server.job_max_priority);
    replace(&mut api.job_max_count, &server.job_max_count);
    replace(&mut api.job_max_source_bytes, &server.job_max_source_size.map(|size| size.0));
    replace(&mut api.search_fuzzy_enabled, &server.search_fuzzy_enabled);
    replace(&mut api.search_limit_query, &server.search_limit_query);
    replace(&mut api.search_limit_results, &server.search_limit_results);
    replace(&mut api.search_min_term_length, &server.search_min_term_length);
    replace(&mut api.prometheus_metrics, &settings.prometheus_metrics);
    // With `-dev` it is always on (http-api §30).
    api.prometheus_metrics |= is_dev;
    replace(&mut api.publish_node_metrics, &settings.publish_node_metrics);
    replace(&mut api.publish_allocation_metrics, &settings.publish_allocation_metrics);
    api.http_advertise = settings.http_advertised.clone().or(api.http_advertise.take());
    api.oidc_issuer = server.oidc_issuer.clone().or(api.oidc_issuer.take());
    let millis = |span: &Option<Millis>| span.map(|span| span.0);
    replace(&mut node_tracker.min_heartbeat_ttl_ms, &millis(&server.min_heartbeat_ttl));
    replace(&mut node_tracker.heartbeat_grace_ms, &millis(&server.heartbeat_grace));
    replace(&mut node_tracker.failover_heartbeat_ttl_ms, &millis(&server.failover_heartbeat_ttl));
    // A number beyond the range becomes the nearest end of the range.
    let per_second = server.max_heartbeats_per_second.map(|number| number.ceil() as u32);
    replace(&mut node_tracker.max_heartbeats_per_second, &per_second);
    ensure!(node_tracker.min_heartbeat_ttl_ms > 0, "min_heartbeat_ttl must not be 0");
    ensure!(node_tracker.max_heartbeats_per_second > 0, "max_heartbeats_per_second must not be 0");
    let seconds = |span: &Option<Millis>| span.map(|span| span.0.div_ceil(1_000));
    replace(&mut plan_applier.gc_interval_secs, &seconds(&server.job_gc_interval));
    replace(&mut plan_applier.job_gc_threshold_secs, &seconds(&server.job_gc_threshold));
    replace(&mut plan_applier.eval_gc_threshold_secs, &seconds(&server.eval_gc_threshold));
    replace(&mut plan_applier.batch_eval_gc_threshold_secs, &seconds(&server.batch_eval_gc_threshold));
    replace(&mut plan_applier.deployment_gc_threshold_secs, &seconds(&server.deployment_gc_threshold));
    replace(&mut plan_applier.node_gc_threshold_secs, &seconds(&server.node_gc_threshold));
    replace(&mut plan_applier.job_tracked_versions, &server.job_tracked_versions);
    replace(&mut plan_applier.plan_rejection_tracker_enabled, &server.rejections_enabled);
    replace(&mut plan_applier.plan_rejection_tracker_node_threshold, &server.rejections_node_threshold);
    let window = seconds(&server.rejections_node_window);
    replace(&mut plan_applier.plan_rejection_tracker_node_window_secs, &window);
    ensure!(plan_applier.plan_rejection_tracker_node_threshold > 0, "node_threshold must not be 0");
    ensure!(plan_applier.plan_rejection_tracker_node_window_secs > 0, "node_window must not be 0");
    ensure!(plan_applier.gc_interval_secs > 0, "job_gc_interval must not be 0");
    ensure!(plan_applier.job_tracked_versions > 0, "job_tracked_versions must not be 0");
    scheduler.workers = server.num_schedulers.map(usize::from).or(scheduler.workers);
    if let Some(provider) = &server.default_service_provider {
        api.default_service_provider = provider.parse().map_err(|_| {
            anyhow!("server.default_service_provider: {provider:?} is neither \"nomad\" nor \"consul\"")
        })?;
    }
    if let Some(types) = &server.enabled_schedulers {
        let read = |text: &String| {
            text.parse().map_err(|_| anyhow!("enabled_schedulers: unknown job type {text:?}"))
        };
        scheduler.schedulers = types.iter().map(read).collect::<Result<_, _>>()?;
    }
    Ok(servers)
}

/// The settings of host volumes, overridden by what the files set.
fn volume_args(client: &Client, args: &mut VolumeArgs) -> anyhow::Result<()> {
    let volume = |(name, volume): (&String, &HostVolume)| {
        let (path, read_only) =
            (volume.path.as_deref().unwrap_or_default(), volume.read_only.unwrap_or(false));
        HostVolumeArgs::new(name, path, read_only).map_err(|text| anyhow!("client.host_volume: {text}"))
    };
    let volumes = client.host_volumes.iter().map(volume).collect::<Result<Vec<_>, _>>()?;
    if !volumes.is_empty() {
        args.host_volumes = volumes;
    }
    let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
    args.host_volumes_dir = path(&client.host_volumes_dir).or(args.host_volumes_dir.take());
    args.host_volume_plugin_dir = path(&client.host_volume_plugin_dir).or(args.host_volume_plugin_dir.take());
    replace(&mut args.gc_volumes_on_client_gc, &client.gc_volumes_on_client_gc);
    Ok(())
}

/// The arguments of the agent: `args`, overridden by what the files set.
fn agent_args(settings: &Settings, mut args: agent::Args) -> anyhow::Result<agent::Args> {
    let client = &settings.client;
    args.node_name = settings.name.clone().or(args.node_name);
    replace(&mut args.datacenter, &settings.datacenter);
    replace(&mut args.region, &settings.region);
    replace(&mut args.http_addr, &settings.http_advertised);
    replace(&mut args.node_class, &client.node_class);
    replace(&mut args.node_pool, &client.node_pool);
    let pair = |(key, value): (&String, &String)| Pair { key: key.clone(), value: value.clone() };
    args.meta.extend(client.meta.iter().map(pair));
    args.network_interface = client.network_interface.clone().or(args.network_interface);
    let networks = configuration::networks(client).map_err(|text| anyhow!(text))?;
    args.preferred_address_family = networks.preferred_address_family.or(args.preferred_address_family);
    if !networks.host_networks.is_empty() {
        args.host_networks = networks.host_networks;
    }
    volume_args(client, &mut args.volumes)?;
    replace(&mut args.bridge_network_name, &client.bridge_network_name);
    replace(&mut args.bridge_network_subnet, &networks.bridge_subnet);
    args.bridge_network_subnet_ipv6 = networks.bridge_subnet_ipv6.or(args.bridge_network_subnet_ipv6);
    replace(&mut args.bridge_network_hairpin_mode, &client.bridge_network_hairpin_mode);
    replace(&mut args.cni_path, &client.cni_path);
    replace(&mut args.cni_config_dir, &client.cni_config_dir.as_ref().map(PathBuf::from));
    replace(&mut args.cpu_total_mhz, &client.cpu_total_compute);
    replace(&mut args.memory_total_mb, &client.memory_total_mb);
    replace(&mut args.disk_free_mb, &client.disk_free_mb);
    replace(&mut args.reserved_cpu_mhz, &client.reserved_cpu);
    replace(&mut args.reserved_cores, &client.reserved_cores);
    replace(&mut args.reservable_cores, &client.reservable_cores);
    replace(&mut args.cgroup_parent, &client.cgroup_parent);
    replace(&mut args.reserved_memory_mb, &client.reserved_memory);
    replace(&mut args.reserved_disk_mb, &client.reserved_disk);
    replace(&mut args.reserved_ports, &client.reserved_ports);
    args.dynamic_ports =
        configuration::dynamic_ports(client, args.dynamic_ports).map_err(|text| anyhow!(text))?;
    replace(&mut args.disable_remote_exec, &client.disable_remote_exec);
    replace(&mut args.gc_max_allocs, &client.gc_max_allocs.map(|count| count as usize));
    replace(&mut args.gc_disk_percent_max, &client.gc_disk_usage_threshold);
    replace(&mut args.gc_inodes_percent_max, &client.gc_inode_usage_threshold);
    let limits = &mut args.limits;
    let millis = |span: &Option<Millis>| span.map(|span| span.0);
    replace(&mut limits.alloc_gc_interval_ms, &millis(&client.gc_interval));
    replace(&mut limits.alloc_gc_parallel_max, &client.gc_parallel_destroys);
    replace(&mut limits.kill_timeout_max_ms, &millis(&client.max_kill_timeout));
    replace(&mut limits.concurrent_starts_max, &client.max_concurrent_starts);
    artifacts(&mut args.artifacts, &client.artifact);
    templates(&mut args.templates, &client.template);
    replace(&mut limits.nvidia_ignored, &settings.nvidia.ignored_gpu_ids);
    replace(&mut limits.no_nvidia, &settings.nvidia.enabled.map(|enabled| !enabled));
    replace(&mut args.env_allowlist, &configuration::option_names(client, "env.allowlist"));
    replace(&mut args.env_denylist, &configuration::option_names(client, "env.denylist"));
    let option = configuration::raw_exec_option(client).map_err(|text| anyhow!(text))?;
    replace(&mut args.raw_exec, &settings.raw_exec.enabled.or(option));
    replace(&mut args.denied_uids, &settings.raw_exec.denied_host_uids);
    replace(&mut args.denied_gids, &settings.raw_exec.denied_host_gids);
    replace(&mut args.denied_env, &settings.raw_exec.denied_envvars);
    replace(&mut args.raw_exec_no_cgroups, &settings.raw_exec.no_cgroups);
    isolate(&mut args.isolation, settings);
    replace(&mut args.no_service_discovery, &client.nomad_service_discovery.map(|enabled| !enabled));
    answer_dns(&mut args.dns, &client.dns)?;
    connect_consul(&mut args.consul, &settings.consul);
    leave(&mut args.leave, settings)?;
    settings.docker.apply(&mut args);
    Ok(args)
}

/// What the files set of artifacts.
fn artifacts(args: &mut ArtifactArgs, artifact: &configuration::Artifact) {
    let millis = |span: &Option<Millis>| span.map(|span| span.0);
    let bytes = |size: &Option<Bytes>| size.map(|size| u64::try_from(size.0).unwrap_or(u64::MAX));
    replace(&mut args.artifact_download_bytes_max, &bytes(&artifact.http_max_size));
    replace(&mut args.artifact_http_timeout_ms, &millis(&artifact.http_read_timeout));
    replace(&mut args.artifact_git_timeout_ms, &millis(&artifact.git_timeout));
    replace(&mut args.artifact_unpacked_bytes_max, &bytes(&artifact.decompression_size_limit));
    replace(&mut args.artifact_unpacked_files_max, &artifact.decompression_file_count_limit.map(u64::from));
}

/// What the files set of templates.
fn templates(args: &mut TemplateArgs, template: &configuration::Template) {
    let millis = |span: &Option<Millis>| span.map(|span| span.0);
    replace(&mut args.template_disable_file_sandbox, &template.disable_file_sandbox);
    replace(&mut args.template_function_denylist, &template.function_denylist);
    replace(&mut args.template_wait_min_ms, &millis(&template.wait_min));
    replace(&mut args.template_wait_max_ms, &millis(&template.wait_max));
    replace(&mut args.template_wait_bound_min_ms, &millis(&template.bound_min));
    replace(&mut args.template_wait_bound_max_ms, &millis(&template.bound_max));
}

/// What the files set of the DNS server.
fn answer_dns(args: &mut DnsArgs, dns: &configuration::Dns) -> anyhow::Result<()> {
    replace(&mut args.dns_enabled, &dns.enabled);
    if let Some(address) = &dns.address {
        args.dns_address =
            address.parse().map_err(|_| anyhow!("dns: address {address:?} is not an address and a port"))?;
    }
    replace(&mut args.dns_no_bridge, &dns.bridge.map(|bridge| !bridge));
    replace(&mut args.dns_domain, &dns.domain);
    if let Some(ttl) = dns.ttl {
        args.dns_ttl_secs = ttl.0 / 1_000;
    }
    replace(&mut args.dns_forward, &dns.forward);
    if let Some(ranges) = &dns.allow {
        let read = |range: &String| range.parse().map_err(|error| anyhow!("dns: allow: {error}"));
        args.dns_allow = ranges.iter().map(read).collect::<anyhow::Result<_>>()?;
    }
    Ok(())
}

/// What the files set of drivers that isolate tasks, and of the users that tasks may run as.
fn isolate(args: &mut IsolationArgs, settings: &Settings) {
    let Settings { client, exec, java, .. } = settings;
    if !client.chroot_env.is_empty() {
        let pair = |(key, value): (&String, &String)| Pair { key: key.clone(), value: value.clone() };
        args.chroot_env = client.chroot_env.iter().map(pair).collect();
    }
    replace(&mut args.exec_no_pivot_root, &exec.no_pivot_root);
    replace(&mut args.exec_default_pid_mode, &exec.default_pid_mode);
    replace(&mut args.exec_default_ipc_mode, &exec.default_ipc_mode);
    replace(&mut args.exec_allow_caps, &exec.allow_caps);
    replace(&mut args.exec_denied_uids, &exec.denied_host_uids);
    replace(&mut args.exec_denied_gids, &exec.denied_host_gids);
    replace(&mut args.java_default_pid_mode, &java.default_pid_mode);
    replace(&mut args.java_default_ipc_mode, &java.default_ipc_mode);
    replace(&mut args.java_allow_caps, &java.allow_caps);
    replace(&mut args.user_denylist, &configuration::option_names(client, "user.denylist"));
    replace(&mut args.user_checked_drivers, &configuration::option_names(client, "user.checked_drivers"));
}

/// What the files set of Consul.
fn connect_consul(args: &mut ConsulArgs, consul: &Consul) {
    let path = |file: &Option<String>| file.as_ref().filter(|file| !file.is_empty()).map(PathBuf::from);
    replace(&mut args.consul_address, &consul.address);
    replace(&mut args.consul_auth, &consul.auth);
    replace(&mut args.consul_token, &consul.token);
    replace(&mut args.consul_ssl, &consul.ssl);
    replace(&mut args.consul_skip_verify, &consul.verify_ssl.map(|verify| !verify));
    replace(&mut args.consul_timeout_ms, &consul.timeout.map(|timeout| timeout.0));
    args.consul_ca_file = path(&consul.ca_file).or(args.consul_ca_file.take());
    args.consul_cert_file = path(&consul.cert_file).or(args.consul_cert_file.take());
    args.consul_key_file = path(&consul.key_file).or(args.consul_key_file.take());
}

/// What the files set of the end of the agent.
fn leave(args: &mut LeaveArgs, settings: &Settings) -> anyhow::Result<()> {
    replace(&mut args.leave_on_interrupt, &settings.leave_on_interrupt);
    replace(&mut args.leave_on_terminate, &settings.leave_on_terminate);
    if let Some(drain) = &settings.client.drain_on_shutdown {
        args.drain_on_shutdown = true;
        replace(&mut args.drain_deadline_ms, &drain.deadline.map(|deadline| deadline.0));
        replace(&mut args.drain_force, &drain.force);
        replace(&mut args.drain_ignore_system_jobs, &drain.ignore_system_jobs);
    }
    ensure!(args.drain_deadline_ms > 0, "client.drain_on_shutdown.deadline must not be 0");
    Ok(())
}

fn replace<T: Clone>(value: &mut T, by: &Option<T>) {
    if let Some(by) = by {
        value.clone_from(by);
    }
}

#[cfg(test)]
mod tests {
    use agent::PortRange;

    use super::*;
    use crate::configuration::tests::files_with_one_setting;

    fn loaded(text: &str) -> Settings {
        let Loaded { settings, report } = configuration::of_text(text);
        assert!(report.faults.is_empty() && report.not_built.is_empty(), "{report:?}");
        settings
    }

    fn read(text: &str) -> anyhow::Result<Setup> {
        let settings = loaded(text);
        setup(&settings, settings.data_dir.as_ref().map(PathBuf::from), false)
    }

    #[test]
    fn the_configuration_that_comes_with_the_package_is_an_agent_alone() {
        let setup = read(include_str!("../../../../deploy/systemd/config/agent.hcl")).unwrap();
        assert!(setup.servers.is_none() && setup.nats.is_some() && !setup.stops_children());
        let agent = setup.agent.unwrap();
        assert_eq!(agent.data_dir, PathBuf::from("/var/lib/drover/agent"));
        assert!(!agent.raw_exec);
    }

    #[test]
    fn files_change_what_they_speak_of_in_a_cluster_for_one_person() {
        let setup = |text: &str| super::setup(&loaded(text), Some("/tmp/d".into()), true).unwrap();
        let alone = setup("");
        assert!(alone.is_dev && alone.servers.is_some());
        let agent = alone.agent.unwrap();
        assert!(agent.raw_exec && agent.stop_tasks_on_exit && agent.mock_driver);
        assert_eq!(agent.network_interface.as_deref(), Some(agent::LOOPBACK));
        let changed = setup("ports { http = 7 }\nclient { node_class = \"c\" }\n");
        assert_eq!(changed.servers.unwrap().api.http_addr.port(), 7);
        assert_eq!(changed.agent.unwrap().node_class, "c");
        let off = setup("client { enabled = false }\nserver { enabled = false }\n");
        assert!(off.servers.is_some() && off.agent.is_some(), "what is on by -dev stays on");
    }

    #[test]
    fn a_server_and_client_alone_has_private_servers() {
        let setup = read(
            "data_dir = \"/d\"\nname = \"n\"\nports { http = 0 }\nserver { enabled = true }\n\
             client {\n  enabled = true\n  node_class = \"c\"\n  min_dynamic_port = 25000\n\
             options = { \"driver.raw_exec.enable\" = \"1\" }\n}\n",
        )
        .unwrap();
        assert!(setup.nats.is_none() && setup.database.is_none());
        assert_eq!(setup.servers.unwrap().api.http_addr.to_string(), "127.0.0.1:0");
        let agent = setup.agent.unwrap();
        assert_eq!(agent.data_dir, PathBuf::from("/d/agent"));
        assert_eq!((agent.node_name.as_deref(), agent.node_class.as_str()), (Some("n"), "c"));
        assert_eq!(agent.dynamic_ports, PortRange { first: 25_000, last: 32_000 });
        assert!(agent.raw_exec);
    }

    #[test]
    fn options_say_what_tasks_see_of_the_environment() {
        let client = |options: &str| {
            read(&format!(
                "data_dir = \"/d\"\nnats {{ url = \"nats://one\" }}\n\
                 client {{\n enabled = true\n options {{ {options} }}\n}}\n"
            ))
        };
        let agent = client("\"env.allowlist\" = \"HTTPS_PROXY, JAVA_*\" \"env.denylist\" = \"TZ\"").unwrap();
        let agent = agent.agent.unwrap();
        assert_eq!(
            (agent.env_allowlist, agent.env_denylist),
            (vec!["HTTPS_PROXY".to_owned(), "JAVA_*".to_owned()], vec!["TZ".to_owned()],)
        );
        let error = |options: &str| client(options).map(|_| ()).unwrap_err().to_string();
        let refused = error("\"env.allowlist\" = \"PATH,AWS_SESSION_TOKEN\"");
        assert!(refused.starts_with("client.options.env.allowlist: \"AWS_SESSION_TOKEN\" cannot be allowed"));
        assert_eq!(
            error("\"driver.raw_exec.enable\" = \"yes\""),
            "client.options.driver.raw_exec.enable: must be true or false, not \"yes\""
        );
    }

    #[test]
    fn files_say_whether_an_agent_drains_its_node_at_its_end() {
        // The block alone asks for a drain, with a deadline of an hour; the signals are named apart (N-10.13).
        let leave = |text: &str| {
            let base = "data_dir = \"/d\"\nnats { url = \"nats://one\" }\n";
            read(&format!("{base}{text}")).map(|setup| setup.agent.unwrap().leave)
        };
        let none = leave("leave_on_terminate = true\nclient { enabled = true }\n").unwrap();
        assert!(none.leave_on_terminate && !none.leave_on_interrupt && !none.drain_on_shutdown);
        let whole = leave("client {\n enabled = true\n drain_on_shutdown {}\n}\n").unwrap();
        assert_eq!((whole.drain_on_shutdown, whole.drain_deadline_ms), (true, 3_600_000));
        let block = "deadline = \"10m\"\n force = true\n ignore_system_jobs = true";
        let set = format!("client {{\n enabled = true\n drain_on_shutdown {{\n {block}\n }}\n}}\n");
        let set = leave(&set).unwrap();
        assert_eq!(
            (set.drain_deadline_ms, set.drain_force, set.drain_ignore_system_jobs),
            (600_000, true, true)
        );
        let zero = "client {\n enabled = true\n drain_on_shutdown { deadline = \"0s\" }\n}\n";
        let refused = leave(zero).map(|_| ()).unwrap_err().to_string();
        assert_eq!(refused, "client.drain_on_shutdown.deadline must not be 0");
    }

    #[test]
    fn a_server_is_told_how_long_garbage_stays() {
        let setup = read(
            "data_dir = \"/d\"\nserver {\n enabled = true\n job_gc_interval = \"30s\"\n\
             eval_gc_threshold = \"1500ms\"\n node_gc_threshold = \"48h\"\n job_tracked_versions = 9\n}\n",
        )
        .unwrap();
        let garbage = setup.servers.unwrap().plan_applier;
        let seconds =
            (garbage.gc_interval_secs, garbage.eval_gc_threshold_secs, garbage.node_gc_threshold_secs);
        assert_eq!(seconds, (30, 2, 172_800));
        assert_eq!(garbage.job_gc_threshold_secs, 14_400, "where the file says nothing");
        assert_eq!(garbage.job_tracked_versions, 9);
    }

    /// What a server with a client runs with these settings, or why it does not start.
    fn run_by(text: &str) -> String {
        let base = "data_dir = \"/d\"\nserver { enabled = true }\nclient { enabled = true }\n\
                    nats { url = \"nats://one\" }\npostgres { url = \"postgres://two\" }\n";
        match read(&format!("{base}{text}")) {
            Err(error) => format!("{error:#}"),
            Ok(Setup { nats, database, servers, agent, is_advertised, .. }) => {
                let Servers { api, plan_applier, eval_broker, node_tracker, deployment_watcher, scheduler } =
                    servers.unwrap();
                let services =
                    (api, plan_applier, eval_broker, node_tracker, deployment_watcher, scheduler, agent);
                format!("{:?}", (nats, database, services, is_advertised))
            }
        }
    }

    /// Settings that are read before the setup is made, that the base has already, or that are on by default.
    const ELSEWHERE: [&str; 15] = [
        "data_dir",
        "log_level",
        "log_json",
        "server { enabled ",
        "client { enabled ",
        "client { dns { bridge ",
        "client { nomad_service_discovery ",
        "client { options ",
        "consul { verify_ssl ",
        "server { search { fuzzy_enabled ",
        "plugin docker { config { gc { container ",
        "plugin docker { config { gc { dangling_containers { enabled ",
        "plugin docker { config { gc { image ",
        "plugin nvidia { config { enabled ",
        "telemetry { prometheus_metrics",
    ];

    #[test]
    fn every_setting_changes_what_is_run() {
        let before = run_by("");
        let (mut changed, files) = (0, files_with_one_setting());
        for text in &files {
            if !ELSEWHERE.iter().any(|start| text.starts_with(start)) {
                assert_ne!(run_by(text), before, "{text}");
                changed += 1;
            }
        }
        assert_eq!(changed, files.len() - ELSEWHERE.len());
    }

    #[test]
    fn prometheus_metrics_are_served_unless_a_file_says_otherwise() {
        let served = |telemetry: &str, is_dev: bool| {
            let settings = loaded(&format!("data_dir = \"/d\"\nserver {{ enabled = true }}\n{telemetry}"));
            super::setup(&settings, Some("/d".into()), is_dev)
                .unwrap()
                .servers
                .unwrap()
                .api
                .prometheus_metrics
        };
        assert!(served("", false) && served("telemetry { prometheus_metrics = true }", false));
        assert!(!served("telemetry { prometheus_metrics = false }", false));
        assert!(served("telemetry { prometheus_metrics = false }", true), "-dev wins");
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let error = |text: &str| read(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error(""), "Must specify either server, client or dev mode for the agent.");
        assert_eq!(error("server { enabled = true }"), "Must specify data directory: data_dir = \"...\"");
        let client = "data_dir = \"/d\"\nclient { enabled = true }\n";
        assert!(error(client).starts_with("a client without a server needs the address of NATS"));
        let half = "data_dir = \"/d\"\nserver { enabled = true }\nnats { url = \"nats://one\" }\n";
        assert!(error(half).starts_with("a server needs the addresses of NATS and of PostgreSQL"));
        assert!(read(&format!("{client}nats {{ url = \"nats://one\" }}\n")).unwrap().servers.is_none());
        let types = "data_dir = \"/d\"\nserver {\n enabled = true\n enabled_schedulers = [\"x\"]\n}\n";
        assert_eq!(error(types), "server.enabled_schedulers: unknown job type \"x\"");
        let provider = "data_dir = \"/d\"\nserver {\n enabled = true\n default_service_provider = \"x\"\n}\n";
        let expected = "server.default_service_provider: \"x\" is neither \"nomad\" nor \"consul\"";
        assert_eq!(error(provider), expected);
    }
}
