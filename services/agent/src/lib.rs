//! The agent: the process that runs on every node. It detects the node's resources, registers the node, runs the
//! allocations that the servers assign to it, and reports their state.
//!
//! The agent speaks NATS only. Tasks do not depend on it: each process has an [`executor`] that outlives the agent, and
//! everything that a restart needs is on disk. While the servers or NATS are unreachable, tasks keep running, failed tasks
//! are restarted, and reports are kept until they can be sent.
//!
//! Where to go. Each module uses only those below it:
//!
//! | module | holds |
//! |---|---|
//! | `run` | starts and stops the parts in order |
//! | `servers` | what the servers tell the agent: its registration, heartbeats, and the node's work |
//! | `requests` | what the API asks: files and logs, resource usage, restarts and signals of tasks, commands in them |
//! | `alloc` | allocations: all of the node, and the decisions and the runner of each |
//! | `task` | one task of an allocation: its environment, restarts and runner |
//! | `reports` | what the agent reports: the states of allocations |
//! | `dns` | answers questions about the names of services by DNS |
//! | `context` | values that the modules above share |
//! | `work` | what to run: allocations as the servers describe them, and what has changed |
//! | `services` | services of allocations and tasks: where they are reached, and what is registered of them |
//! | `node` | who the agent is: settings, data directory, identity, fingerprint, and what the servers know of the node |
//! | `devices` | devices of the node, such as GPUs |
//! | `volumes` | host volumes: what the node shows, and plugins that create and delete them |
//! | `driver` | one file for each kind of task |
//! | [`executor`] | the process beside each task that is a process |
//! | `collector` | the process beside each container, which writes its output to the task's log files |
//! | `artifacts` | the process that downloads and unpacks an artifact of a task |
//! | `engine` | a client of container engines |
//! | `isolation` | what separates tasks from the node: namespaces, roots, capabilities, filters |
//! | `cgroups` | the kernel's limits and counters of tasks |
//! | `checks` | checks of services that the agent runs: when they run, what they find, and what follows |
//! | `networks` | the networks of allocations: namespaces, CNI plugins, what is left of them |
//! | `starts` | how many tasks may start at the same time |
//! | `cpu_list` | lists of processor numbers, as the kernel writes them |
//! | `resources` | what a task may use of its node, and what it uses |
//! | `proc` | counters of processors and processes |
//! | `disk` | state, directories, secrets and output of tasks on disk, and their removal |
//! | `account` | the user that a task runs as |
//! | `wait` | helpers for waiting |
//!
//! Decisions are pure: `alloc::core`, `task::restarts`, `reports::core`, `work::changes`, `disk::gc`, `checks::core`,
//! `servers::heartbeats`, `starts::pressure`, `devices::known`, `task::hooks::templates::changes`. Around them are tokio
//! tasks: one for each allocation and each of its tasks, one that owns all allocations (`alloc::allocs`), one that reports,
//! one for all checks and one for each probe that runs, and one for each kind of message from the servers and the API.

mod account;
mod alloc;
mod artifacts;
mod cgroups;
mod checks;
mod collector;
mod context;
mod cpu_list;
mod devices;
mod disk;
mod dns;
mod driver;
mod engine;
pub mod executor;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod isolation;
mod networks;
mod node;
mod proc;
mod reports;
mod requests;
mod resources;
mod run;
mod servers;
mod services;
#[cfg(feature = "simulation")]
pub mod simulation;
mod starts;
mod task;
#[cfg(test)]
mod testing;
mod volumes;
mod wait;
mod work;

pub use driver::docker::settings::{AllowedModes, Dangling, Settings as DockerSettings};
pub use networks::subnet::Subnet;
pub use node::artifacts::ArtifactArgs;
pub use node::config::{Args, PortRange};
pub use node::consul::{ConsulArgs, Token};
pub use node::data_dir::DataDir;
pub use node::dns::DnsArgs;
pub use node::fingerprint::LOOPBACK;
pub use node::host_env::check_env_allowlist;
pub use node::host_networks::{AddressFamily, HostNetworkArgs};
pub use node::isolation_args::IsolationArgs;
pub use node::leave_args::LeaveArgs;
pub use node::limits::LimitArgs;
pub use node::pair::Pair;
pub use node::presence::{Presence, Registration};
pub use node::templates::TemplateArgs;
pub use node::volume_args::VolumeArgs;
pub use run::run_connecting;
pub use volumes::settings::HostVolumeArgs;
