//! Fault injection for simulated nodes: each line of standard input is a command that makes nodes fail or recover.

use std::str::FromStr;
use std::time::Duration;

use clap::Parser as _;
use telemetry::clock;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

/// How many lines may wait to be executed.
const QUEUED_MAX: usize = 16;
/// The shortest period of flapping.
const PERIOD_MIN_MS: u64 = 100;

/// The condition of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Condition {
    /// It behaves like an agent.
    #[default]
    Healthy,
    /// It has lost power. Its allocations are gone.
    Failed,
    /// It neither sends nor receives messages. Its allocations continue to run.
    Disconnected,
}

/// A command. It applies to the first nodes that are healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
enum Command {
    /// Makes nodes lose power, and with it all their allocations
    Fail { share: Share },
    /// Disconnects nodes; their allocations continue to run
    Disconnect { share: Share },
    /// Disconnects nodes for the first half of each period, all of them together
    Flap {
        share: Share,
        #[arg(value_name = "MS", value_parser = clap::value_parser!(u64).range(PERIOD_MIN_MS..))]
        period_ms: u64,
    },
    /// Makes all nodes healthy; those that failed start with a new boot number
    Recover,
}

/// A number of nodes, or a percentage of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Nodes(usize),
    Percent(usize),
}

impl Share {
    /// The number of nodes out of `count`. A share above 0% is at least one node.
    fn of(self, count: usize) -> usize {
        match self {
            Self::Nodes(nodes) => nodes.min(count),
            Self::Percent(percent) => (count * percent).div_ceil(100),
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let share = match text.strip_suffix('%') {
            None => text.parse().ok().map(Self::Nodes),
            Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(Self::Percent),
        };
        share.ok_or_else(|| format!("a number of nodes, or a share up to 100%, not {text:?}"))
    }
}

/// The conditions of all nodes, by their numbers.
#[derive(Default)]
pub(super) struct Conditions {
    nodes: Vec<watch::Sender<Condition>>,
    flapping: Option<Flapping>,
}

struct Flapping {
    nodes: Vec<usize>,
    half_period: Duration,
}

impl Conditions {
    /// Adds a healthy node, and returns the receiver of its condition.
    pub(super) fn add(&mut self) -> watch::Receiver<Condition> {
        let (condition, receiver) = watch::channel(Condition::Healthy);
        self.nodes.push(condition);
        receiver
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Fail { share } => drop(self.apply(share, Condition::Failed)),
            Command::Disconnect { share } => drop(self.apply(share, Condition::Disconnected)),
            Command::Flap { share, period_ms } => {
                let flapped = self.flapping.take().into_iter().flat_map(|flapping| flapping.nodes);
                self.set(flapped, Condition::Healthy);
                let nodes = self.apply(share, Condition::Disconnected);
                self.flapping = Some(Flapping { nodes, half_period: Duration::from_millis(period_ms) / 2 });
            }
            Command::Recover => {
                self.flapping = None;
                self.set(0..self.nodes.len(), Condition::Healthy);
            }
        }
    }

    fn apply(&self, share: Share, condition: Condition) -> Vec<usize> {
        let is_healthy = |number: &usize| *self.nodes[*number].borrow() == Condition::Healthy;
        let count = self.nodes.len();
        let nodes: Vec<usize> = (0..count).filter(is_healthy).take(share.of(count)).collect();
        self.set(nodes.iter().copied(), condition);
        nodes
    }

    fn set(&self, nodes: impl IntoIterator<Item = usize>, condition: Condition) {
        for number in nodes {
            self.nodes[number].send_replace(condition);
        }
    }

    /// Switches the condition of all flapping nodes. Called after each half of a period.
    fn flap(&self) {
        for number in self.flapping.iter().flat_map(|flapping| &flapping.nodes) {
            self.nodes[*number].send_modify(|condition| {
                *condition = match condition {
                    Condition::Healthy => Condition::Disconnected,
                    Condition::Disconnected => Condition::Healthy,
                    Condition::Failed => Condition::Failed,
                };
            });
        }
    }

    /// Executes the commands from the standard input, for as long as the process runs.
    pub(super) async fn execute_commands(mut self) {
        let mut lines = lines();
        let mut flap_at = clock::monotonic();
        let mut is_open = true;
        loop {
            let half_period = self.flapping.as_ref().map(|flapping| flapping.half_period);
            tokio::select! {
                line = lines.recv(), if is_open => {
                    let Some(line) = line else {
                        is_open = false;
                        continue;
                    };
                    match Command::try_parse_from(line.split_whitespace()) {
                        Ok(command) => {
                            tracing::info!(order = line, "changing the condition of nodes");
                            self.execute(command);
                            flap_at = clock::monotonic()
                                + self.flapping.as_ref().map(|flapping| flapping.half_period).unwrap_or_default();
                        }
                        Err(error) => tracing::warn!(order = line, error = %error, "invalid command"),
                    }
                }
                () = sleep_until(flap_at.into()), if half_period.is_some() => {
                    self.flap();
                    flap_at += half_period.unwrap_or_default();
                }
                else => std::future::pending().await,
            }
        }
    }
}

/// The lines of the standard input. The thread that reads them does not delay the end of the process.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(QUEUED_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::Condition::{Disconnected, Failed, Healthy};
    use super::*;

    fn conditions(count: usize) -> (Conditions, Vec<watch::Receiver<Condition>>) {
        let mut conditions = Conditions::default();
        let receivers = (0..count).map(|_| conditions.add()).collect();
        (conditions, receivers)
    }

    fn execute(conditions: &mut Conditions, line: &str) {
        conditions.execute(Command::try_parse_from(line.split_whitespace()).unwrap());
    }

    fn all(receivers: &[watch::Receiver<Condition>]) -> Vec<Condition> {
        receivers.iter().map(|condition| *condition.borrow()).collect()
    }

    #[test]
    fn shares_are_of_all_nodes_and_hit_those_that_fare_well() {
        let (mut conditions, receivers) = conditions(5);
        execute(&mut conditions, "fail 1");
        execute(&mut conditions, "disconnect 21%");
        assert_eq!(all(&receivers), [Failed, Disconnected, Disconnected, Healthy, Healthy]);
        execute(&mut conditions, "fail 100%");
        assert_eq!(all(&receivers), [Failed, Disconnected, Disconnected, Failed, Failed]);
        execute(&mut conditions, "recover");
        assert_eq!(all(&receivers), [Healthy; 5]);
    }

    #[test]
    fn flapping_nodes_go_and_come_back_together() {
        let (mut conditions, receivers) = conditions(3);
        execute(&mut conditions, "flap 2 1000");
        assert_eq!(all(&receivers), [Disconnected, Disconnected, Healthy]);
        conditions.flap();
        assert_eq!(all(&receivers), [Healthy; 3]);
        execute(&mut conditions, "fail 1");
        conditions.flap();
        assert_eq!(all(&receivers), [Failed, Disconnected, Healthy], "what has failed does not come back");
        execute(&mut conditions, "flap 1 3000");
        assert_eq!(all(&receivers), [Disconnected, Healthy, Healthy], "only the last command's nodes flap");
        execute(&mut conditions, "recover");
        conditions.flap();
        assert_eq!(all(&receivers), [Healthy; 3]);
    }

    #[test]
    fn invalid_commands_are_refused() {
        for line in ["", "fail", "fail -1", "fail 101%", "flap 5%", "flap 5% 0", "recover 5%", "explode"] {
            assert!(Command::try_parse_from(line.split_whitespace()).is_err(), "{line:?}");
        }
    }
}
