//! The agent's settings: flags, environment variables, and values that are computed from them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser as _;
use model::Text;

use super::artifacts::{ArtifactArgs, limits_of};
use super::consul::{ConsulArgs, ConsulSettings};
use super::dns::{DnsArgs, DnsSettings};
use super::host_env::check_env_allowlist;
use super::host_networks::{AddressFamily, HostNetworkArgs};
use super::isolation_args::IsolationArgs;
use super::leave_args::{Leave, LeaveArgs};
use super::limits::{LimitArgs, Limits};
use super::pair::Pair;
use super::templates::{TemplateArgs, TemplateSettings};
use super::users::DeniedUsers;
use super::volume_args::VolumeArgs;
use crate::artifacts;
use crate::cgroups;
use crate::cpu_list;
use crate::disk::gc;
use crate::driver::DriverSettings;
use crate::driver::docker;
use crate::driver::process::ExecutorCommand;
use crate::driver::raw_exec::{self, IdRanges};
use crate::networks::settings::{self, Bridge};
use crate::networks::subnet::Subnet;
use crate::volumes::settings::VolumeSettings;

/// The default range of dynamic ports (A-16.3).
const DYNAMIC_PORTS: (u16, u16) = (20_000, 32_000);

/// Settings of the agent.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Agent")]
pub struct Args {
    /// Directory for the agent's data: its identity, its state and the files of allocations.
    #[arg(long = "agent-data-dir", env = "DROVER_AGENT_DATA_DIR", default_value = "/var/lib/drover")]
    pub data_dir: PathBuf,
    /// Name of the node; the host name by default.
    #[arg(long = "node-name", env = "DROVER_NODE_NAME")]
    pub node_name: Option<String>,
    /// Datacenter of the node.
    #[arg(long = "node-datacenter", env = "DROVER_NODE_DATACENTER", default_value = "dc1")]
    pub datacenter: String,
    /// Region of the node.
    #[arg(long = "node-region", env = "DROVER_NODE_REGION", default_value = "global")]
    pub region: String,
    /// Class of the node, for constraints.
    #[arg(long = "node-class", env = "DROVER_NODE_CLASS", default_value = "")]
    pub node_class: String,
    /// Node pool of the node.
    #[arg(long = "node-pool", env = "DROVER_NODE_POOL", default_value = "default")]
    pub node_pool: String,
    /// Metadata of the node that jobs can refer to, as `key=value`; may be repeated.
    #[arg(long = "node-meta", env = "DROVER_NODE_META", value_name = "KEY=VALUE", value_delimiter = ',')]
    pub meta: Vec<Pair>,
    /// Address of an API server that can reach the node, as the node shows it.
    #[arg(long = "node-http-address", env = "DROVER_NODE_HTTP_ADDRESS", default_value = "127.0.0.1:4646")]
    pub http_addr: String,
    /// Network interface whose address tasks get; the one of the default route by default (with `drover dev` on a loopback
    /// address, the loopback interface).
    #[arg(long = "network-interface", env = "DROVER_NETWORK_INTERFACE")]
    pub network_interface: Option<String>,
    /// The family of the address that tasks get if the interface has addresses of both; IPv4 by default.
    #[arg(long = "preferred-address-family", env = "DROVER_PREFERRED_ADDRESS_FAMILY", value_name = "FAMILY")]
    pub preferred_address_family: Option<AddressFamily>,
    /// A network of the machine that ports can name, as `name:cidr=10.0.0.0/8;interface=eth1;reserved_ports=22,80`, with
    /// any of the three; may be repeated. In the environment, networks are separated by spaces.
    #[arg(
        long = "host-network",
        env = "DROVER_HOST_NETWORKS",
        value_name = "NAME:SETTINGS",
        value_delimiter = ' '
    )]
    pub host_networks: Vec<HostNetworkArgs>,
    /// Name of the bridge of networks of mode `bridge`.
    #[arg(long = "bridge-network-name", env = "DROVER_BRIDGE_NETWORK_NAME", default_value = settings::BRIDGE)]
    pub bridge_network_name: String,
    /// Range of IPv4 addresses on the bridge.
    #[arg(
        long = "bridge-network-subnet",
        env = "DROVER_BRIDGE_NETWORK_SUBNET",
        value_name = "RANGE",
        default_value = settings::BRIDGE_SUBNET
    )]
    pub bridge_network_subnet: Subnet,
    /// Range of IPv6 addresses on the bridge, which has none by default.
    #[arg(
        long = "bridge-network-subnet-ipv6",
        env = "DROVER_BRIDGE_NETWORK_SUBNET_IPV6",
        value_name = "RANGE"
    )]
    pub bridge_network_subnet_ipv6: Option<Subnet>,
    /// Let allocations on the bridge reach themselves by the ports of their node.
    #[arg(long = "bridge-network-hairpin-mode", env = "DROVER_BRIDGE_NETWORK_HAIRPIN_MODE")]
    pub bridge_network_hairpin_mode: bool,
    /// Directories with CNI plugins, separated by colons.
    #[arg(long = "cni-path", env = "DROVER_CNI_PATH", default_value = settings::PLUGIN_PATH)]
    pub cni_path: String,
    /// Directory with configurations of networks of mode `cni/NAME`.
    #[arg(long = "cni-config-dir", env = "DROVER_CNI_CONFIG_DIR", default_value = settings::CONFIG_DIR)]
    pub cni_config_dir: PathBuf,
    /// Compute of the node in MHz, instead of the detected value.
    #[arg(long = "cpu-total-compute", env = "DROVER_CPU_TOTAL_COMPUTE", default_value_t = 0)]
    pub cpu_total_mhz: u32,
    /// Memory of the node in MB, instead of the detected value.
    #[arg(long = "memory-total-mb", env = "DROVER_MEMORY_TOTAL_MB", default_value_t = 0)]
    pub memory_total_mb: u32,
    /// Free disk space of the node in MB, instead of the detected value.
    #[arg(long = "disk-free-mb", env = "DROVER_DISK_FREE_MB", default_value_t = 0)]
    pub disk_free_mb: u32,
    /// Compute that is not available to tasks, in MHz.
    #[arg(long = "reserved-cpu", env = "DROVER_RESERVED_CPU", default_value_t = 0)]
    pub reserved_cpu_mhz: u32,
    /// Memory that is not available to tasks, in MB.
    #[arg(long = "reserved-memory-mb", env = "DROVER_RESERVED_MEMORY_MB", default_value_t = 0)]
    pub reserved_memory_mb: u32,
    /// Disk space that is not available to tasks, in MB.
    #[arg(long = "reserved-disk-mb", env = "DROVER_RESERVED_DISK_MB", default_value_t = 0)]
    pub reserved_disk_mb: u32,
    /// Processor cores that are not available to tasks, such as `0,2-3`.
    #[arg(long = "reserved-cores", env = "DROVER_RESERVED_CORES", default_value = "")]
    pub reserved_cores: String,
    /// Processor cores that tasks may reserve for themselves, such as `4-15`; all by default.
    #[arg(long = "reservable-cores", env = "DROVER_RESERVABLE_CORES", default_value = "")]
    pub reservable_cores: String,
    /// The cgroup for all tasks, as a path below the root of the cgroups, or below the agent's own cgroup if the agent may
    /// make cgroups only there.
    #[arg(long = "cgroup-parent", env = "DROVER_CGROUP_PARENT", default_value = "nomad.slice")]
    pub cgroup_parent: String,
    /// Ports that are not available to tasks, such as `22,8000-8010`.
    #[arg(long = "reserved-ports", env = "DROVER_RESERVED_PORTS", default_value = "")]
    pub reserved_ports: String,
    /// Range of dynamic ports, as `first-last`.
    #[arg(
        long = "dynamic-ports",
        env = "DROVER_DYNAMIC_PORTS",
        value_name = "FIRST-LAST",
        default_value = "20000-32000"
    )]
    pub dynamic_ports: PortRange,
    /// Allow tasks to run as plain processes, without isolation (driver `raw_exec`).
    #[arg(long = "raw-exec", env = "DROVER_RAW_EXEC")]
    pub raw_exec: bool,
    /// Settings of the drivers `exec` and `java`, and the users that tasks may run as.
    #[command(flatten)]
    pub isolation: IsolationArgs,
    /// Enable tasks that only simulate running (driver `mock_driver`), for tests.
    #[arg(long = "mock-driver", env = "DROVER_MOCK_DRIVER", hide = true)]
    pub mock_driver: bool,
    /// Users that `raw_exec` tasks may not run as, such as `0,1000-1005`.
    #[arg(long = "raw-exec-denied-uids", env = "DROVER_RAW_EXEC_DENIED_UIDS", default_value = "")]
    pub denied_uids: String,
    /// Groups that `raw_exec` tasks may not run in.
    #[arg(long = "raw-exec-denied-gids", env = "DROVER_RAW_EXEC_DENIED_GIDS", default_value = "")]
    pub denied_gids: String,
    /// Environment variables that `raw_exec` tasks do not get; a trailing `*` matches any suffix.
    #[arg(long = "raw-exec-denied-env", env = "DROVER_RAW_EXEC_DENIED_ENV", value_delimiter = ',')]
    pub denied_env: Vec<String>,
    /// Run `raw_exec` tasks without cgroups: their limits are not enforced.
    #[arg(long = "raw-exec-no-cgroups", env = "DROVER_RAW_EXEC_NO_CGROUPS")]
    pub raw_exec_no_cgroups: bool,
    /// Socket of the engine that runs `docker` tasks, as `unix://` and a path; an empty text is none.
    #[arg(long = "docker-endpoint", env = "DROVER_DOCKER_ENDPOINT", default_value = docker::settings::DEFAULT_ENDPOINT)]
    pub docker_endpoint: String,
    /// Allow `docker` tasks to mount paths of the node, and volumes of the engine.
    #[arg(long = "docker-volumes", env = "DROVER_DOCKER_VOLUMES")]
    pub docker_volumes: bool,
    /// Allow privileged `docker` tasks.
    #[arg(long = "docker-allow-privileged", env = "DROVER_DOCKER_ALLOW_PRIVILEGED")]
    pub docker_allow_privileged: bool,
    /// File with credentials for registries, as Docker's command line writes it.
    #[arg(long = "docker-auth-config", env = "DROVER_DOCKER_AUTH_CONFIG", default_value = "")]
    pub docker_auth_config: String,
    /// Number of images that the node pulls at once; 0 is no limit.
    #[arg(long = "docker-pulls-max", env = "DROVER_DOCKER_PULLS_MAX", default_value_t = docker::settings::PULLS_MAX)]
    pub docker_pulls_max: usize,
    /// Further settings of the driver `docker`. Those that have an argument of their own are taken from it.
    #[arg(skip)]
    pub docker: docker::settings::Settings,
    /// Settings of Consul.
    #[command(flatten)]
    pub consul: ConsulArgs,
    /// Do not let tasks register services in the cluster's own service discovery.
    #[arg(long = "no-service-discovery", env = "DROVER_NO_SERVICE_DISCOVERY")]
    pub no_service_discovery: bool,
    /// The DNS server.
    #[command(flatten)]
    pub dns: DnsArgs,
    /// Environment variables of the agent that tasks get besides LANG and TZ; a trailing `*` matches any suffix. Tasks
    /// never get credentials and settings of the agent.
    #[arg(long = "env-allowlist", env = "DROVER_ENV_ALLOWLIST", value_delimiter = ',')]
    pub env_allowlist: Vec<String>,
    /// Environment variables that tasks do not get from the agent, such as HOME.
    #[arg(long = "env-denylist", env = "DROVER_ENV_DENYLIST", value_delimiter = ',')]
    pub env_denylist: Vec<String>,
    /// Number of allocations on the node above which ended ones are removed.
    #[arg(long = "gc-max-allocs", env = "DROVER_GC_MAX_ALLOCS", default_value_t = gc::ALLOCS_MAX)]
    pub gc_max_allocs: usize,
    /// Disk usage in percent, of the disk with the allocations, above which ended ones are removed.
    #[arg(long = "gc-disk-percent-max", env = "DROVER_GC_DISK_PERCENT_MAX", default_value_t = gc::DISK_PERCENT_MAX)]
    pub gc_disk_percent_max: f64,
    /// Inode usage in percent, of the disk with the allocations, above which ended ones are removed.
    #[arg(long = "gc-inodes-percent-max", env = "DROVER_GC_INODES_PERCENT_MAX", default_value_t = gc::INODES_PERCENT_MAX)]
    pub gc_inodes_percent_max: f64,
    /// What is around tasks.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Templates.
    #[command(flatten)]
    pub templates: TemplateArgs,
    /// Artifacts.
    #[command(flatten)]
    pub artifacts: ArtifactArgs,
    /// Host volumes.
    #[command(flatten)]
    pub volumes: VolumeArgs,
    /// What becomes of the node before the agent ends.
    #[command(flatten)]
    pub leave: LeaveArgs,
    /// Maximum delay of the first heartbeat in milliseconds, so that many agents do not send it at once.
    #[arg(
        long = "first-heartbeat-within-ms",
        env = "DROVER_FIRST_HEARTBEAT_WITHIN_MS",
        default_value_t = 10_000
    )]
    pub first_heartbeat_within_ms: u64,
    /// Stop all tasks when the agent stops, instead of leaving them running for the next agent.
    #[arg(long = "stop-tasks-on-exit", env = "DROVER_STOP_TASKS_ON_EXIT")]
    pub stop_tasks_on_exit: bool,
    /// Refuse to run commands of users in tasks.
    #[arg(long = "disable-remote-exec", env = "DROVER_DISABLE_REMOTE_EXEC")]
    pub disable_remote_exec: bool,
    /// Log the whole commands that users run in tasks, which may contain secrets, and not only their first word.
    #[arg(long = "exec-log-commands", env = "DROVER_EXEC_LOG_COMMANDS")]
    pub exec_log_commands: bool,
    /// The program and arguments of an executor process; by default this program with its hidden sub-command `executor`.
    #[arg(skip)]
    pub executor: Option<(PathBuf, Vec<String>)>,
}

impl Default for Args {
    /// The settings without any flags. Environment variables apply.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct NoFlags {
            #[command(flatten)]
            args: Args,
        }
        NoFlags::parse_from(["agent"]).args
    }
}

/// A range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl std::str::FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ports = text.split_once('-').and_then(|(first, last)| first.parse().ok().zip(last.parse().ok()));
        match ports {
            Some((first, last)) if first > 0 && first <= last => Ok(Self { first, last }),
            Some(_) | None => {
                Err(format!("expected first-last, such as {}-{}", DYNAMIC_PORTS.0, DYNAMIC_PORTS.1))
            }
        }
    }
}

/// The parsed and validated settings.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) data_dir: PathBuf,
    pub(crate) node_name: Option<Text>,
    pub(crate) datacenter: Text,
    pub(crate) region: Text,
    pub(crate) node_class: Text,
    pub(crate) node_pool: Text,
    pub(crate) meta: BTreeMap<Text, Text>,
    pub(crate) http_addr: Text,
    pub(crate) network_interface: Option<String>,
    pub(crate) preferred_address_family: AddressFamily,
    pub(crate) host_networks: Vec<HostNetworkArgs>,
    /// The settings of networks of allocations.
    pub(crate) networks: settings::Settings,
    pub(crate) cpu_total_mhz: u32,
    pub(crate) memory_total_mb: u32,
    pub(crate) disk_free_mb: u32,
    pub(crate) reserved: Reserved,
    /// The cores that tasks may reserve; `None` are all.
    pub(crate) reservable_cores: Option<BTreeSet<u16>>,
    pub(crate) cgroup_parent: PathBuf,
    pub(crate) dynamic_ports: (u16, u16),
    pub(crate) drivers: DriverSettings,
    /// The users that tasks may not run as.
    pub(crate) users: DeniedUsers,
    /// The settings of Consul; `None` is without.
    pub(crate) consul: Option<ConsulSettings>,
    /// Whether the node takes services of the cluster's own service discovery.
    pub(crate) service_discovery: bool,
    /// The settings of the DNS server; `None` is without.
    pub(crate) dns: Option<DnsSettings>,
    pub(crate) env_allowlist: Vec<String>,
    pub(crate) env_denylist: Vec<String>,
    pub(crate) gc: gc::Limits,
    pub(crate) limits: Limits,
    pub(crate) templates: TemplateSettings,
    /// The limits of artifacts.
    pub(crate) artifacts: artifacts::Limits,
    pub(crate) volumes: VolumeSettings,
    pub(crate) first_heartbeat_within: Duration,
    pub(crate) stop_tasks_on_exit: bool,
    /// The drain of the node when the agent leaves, if there is one.
    pub(crate) leave: Option<Leave>,
    /// Whether users may not run commands in tasks.
    pub(crate) disable_remote_exec: bool,
    /// Whether the log has whole commands.
    pub(crate) exec_log_commands: bool,
}

/// Resources that are not available to tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// In addition to the compute of the cores.
    pub(crate) cpu_mhz: u32,
    pub(crate) cores: BTreeSet<u16>,
    pub(crate) memory_mb: u32,
    pub(crate) disk_mb: u32,
    pub(crate) ports: Text,
}

impl Config {
    /// Validates the settings.
    pub(crate) fn new(args: Args) -> anyhow::Result<Self> {
        let ids = |kind: &str, text: &str| {
            IdRanges::read(text).map_err(|error| anyhow::anyhow!("--raw-exec-denied-{kind}: {error}"))
        };
        let settings = raw_exec::Settings {
            denied_uids: ids("uids", &args.denied_uids)?,
            denied_gids: ids("gids", &args.denied_gids)?,
            denied_env: args.denied_env,
            no_cgroups: args.raw_exec_no_cgroups,
        };
        let cores = |flag: &str, text: &str| {
            cpu_list::parse(text).map_err(|error| anyhow::anyhow!("--{flag}: {error}"))
        };
        let reservable_cores = cores("reservable-cores", &args.reservable_cores)?;
        let docker = docker::settings::Settings {
            endpoint: args.docker_endpoint,
            volumes_enabled: args.docker_volumes,
            allow_privileged: args.docker_allow_privileged,
            auth_config: args.docker_auth_config,
            pulls_max: args.docker_pulls_max,
            ..args.docker
        };
        let socket =
            docker.check().map_err(|error| anyhow::anyhow!("settings of the driver docker: {error}"))?;
        check_env_allowlist(&args.env_allowlist)
            .map_err(|error| anyhow::anyhow!("--env-allowlist: {error}"))?;
        let data_dir = std::path::absolute(args.data_dir)?;
        let bridge = Bridge {
            name: args.bridge_network_name,
            subnet: args.bridge_network_subnet,
            subnet_ipv6: args.bridge_network_subnet_ipv6,
            hairpin: args.bridge_network_hairpin_mode,
        };
        let networks = settings::Settings::new(bridge, &args.cni_path, args.cni_config_dir)
            .map_err(|error| anyhow::anyhow!(error))?;
        Ok(Self {
            node_name: args.node_name.filter(|name| !name.is_empty()).map(Text::from),
            datacenter: args.datacenter.into(),
            region: args.region.into(),
            node_class: args.node_class.into(),
            node_pool: args.node_pool.into(),
            meta: args.meta.into_iter().map(|pair| (pair.key.into(), pair.value.into())).collect(),
            http_addr: args.http_addr.into(),
            network_interface: args.network_interface,
            preferred_address_family: args.preferred_address_family.unwrap_or_default(),
            host_networks: args.host_networks,
            networks,
            cpu_total_mhz: args.cpu_total_mhz,
            memory_total_mb: args.memory_total_mb,
            disk_free_mb: args.disk_free_mb,
            reserved: Reserved {
                cpu_mhz: args.reserved_cpu_mhz,
                cores: cores("reserved-cores", &args.reserved_cores)?,
                memory_mb: args.reserved_memory_mb,
                disk_mb: args.reserved_disk_mb,
                ports: args.reserved_ports.into(),
            },
            reservable_cores: (!reservable_cores.is_empty()).then_some(reservable_cores),
            cgroup_parent: cgroups::parent_path(&args.cgroup_parent)
                .map_err(|error| anyhow::anyhow!("--cgroup-parent: {error}"))?,
            dynamic_ports: (args.dynamic_ports.first, args.dynamic_ports.last),
            drivers: DriverSettings {
                executor: args
                    .executor
                    .map(|(program, args)| ExecutorCommand::new(program, args))
                    .unwrap_or_default(),
                raw_exec: args.raw_exec.then_some(settings),
                exec: args.isolation.exec(&data_dir)?,
                java: args.isolation.java(&data_dir)?,
                mock: args.mock_driver,
                docker: socket.map(|socket| (socket, docker)),
            },
            users: args.isolation.users(),
            consul: ConsulSettings::new(args.consul)?,
            service_discovery: !args.no_service_discovery,
            dns: DnsSettings::new(args.dns)?,
            volumes: args.volumes.check(&data_dir)?,
            data_dir,
            env_allowlist: args.env_allowlist,
            env_denylist: args.env_denylist,
            gc: gc::Limits {
                allocs_max: args.gc_max_allocs,
                disk_percent_max: args.gc_disk_percent_max,
                inodes_percent_max: args.gc_inodes_percent_max,
            },
            limits: Limits::new(args.limits)?,
            templates: TemplateSettings::new(args.templates)?,
            artifacts: limits_of(&args.artifacts),
            first_heartbeat_within: Duration::from_millis(args.first_heartbeat_within_ms),
            stop_tasks_on_exit: args.stop_tasks_on_exit,
            leave: Leave::new(&args.leave),
            disable_remote_exec: args.disable_remote_exec,
            exec_log_commands: args.exec_log_commands,
        })
    }

    /// The directory of the allocations' files.
    pub(crate) fn allocs_dir(&self) -> PathBuf {
        self.data_dir.join("alloc")
    }

    /// The directory of what is kept of the networks of allocations.
    pub(crate) fn networks_dir(&self) -> PathBuf {
        self.data_dir.join("networks")
    }

    #[cfg(test)]
    pub(crate) fn for_tests(data_dir: &Path) -> Self {
        let args =
            Args { data_dir: data_dir.to_owned(), mock_driver: true, raw_exec: true, ..Args::default() };
        Self::new(args).expect("the default settings are valid")
    }
}

/// The directory of the agent's state within its data directory.
pub(crate) fn state_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("state")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_checked() {
        let mut args = Args { meta: vec!["rack=r=7".parse().unwrap()], ..Args::default() };
        args.dynamic_ports = "30000-31000".parse().unwrap();
        let config = Config::new(args.clone()).unwrap();
        assert_eq!(&*config.meta["rack"], "r=7");
        assert_eq!(config.dynamic_ports, (30_000, 31_000));
        assert_eq!(config.drivers.raw_exec, None);
        assert_eq!((config.reservable_cores, config.cgroup_parent), (None, PathBuf::from("nomad.slice")));
        let credentials = Args { env_allowlist: vec!["VAULT_TOKEN".into()], ..args.clone() };
        let error = Config::new(credentials).unwrap_err().to_string();
        assert!(error.starts_with(r#"--env-allowlist: "VAULT_TOKEN" cannot be allowed"#), "{error}");
        for (args, expected) in [
            (Args { reserved_cores: "0-".into(), ..args.clone() }, r#"--reserved-cores: invalid range "0-""#),
            (
                Args { cgroup_parent: "../x".into(), ..args.clone() },
                "--cgroup-parent: \"../x\" is not a path",
            ),
        ] {
            let error = Config::new(args).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        args.denied_uids = "5-1".into();
        let error = Config::new(args).unwrap_err().to_string();
        assert_eq!(error, r#"--raw-exec-denied-uids: invalid range "5-1""#);
    }

    #[test]
    fn invalid_pairs_and_port_ranges_are_refused() {
        assert!("rack".parse::<Pair>().is_err());
        assert!("=r7".parse::<Pair>().is_err());
        for text in ["0-10", "20-10", "20", "a-b"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
    }
}
