//! What befalls simulated nodes on command. Each line of the standard input is one.

use std::str::FromStr;
use std::time::Duration;

use clap::Parser as _;
use telemetry::clock;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

/// How many commands may wait to be carried out.
const WAITING: usize = 16;
/// The shortest period in which nodes go and come back.
const PERIOD_MIN_MS: u64 = 100;

/// How a node fares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// It does what agents do.
    #[default]
    Well,
    /// It has lost power, and with it all that ran there.
    Failed,
    /// Nobody hears it, and it hears nobody. What runs there goes on.
    CutOff,
}

/// A command. Nodes that something befalls are the first of those that fare well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
enum Order {
    /// Nodes lose power, and all that runs on them
    Fail { share: Share },
    /// Nodes are cut off; what runs on them goes on
    Disconnect { share: Share },
    /// Nodes are cut off for the first half of each period, all of them together
    Flap {
        share: Share,
        #[arg(value_name = "MS", value_parser = clap::value_parser!(u64).range(PERIOD_MIN_MS..))]
        period_ms: u64,
    },
    /// All nodes fare well again; those that failed begin anew
    Recover,
}

/// So many nodes, or so many of a hundred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Nodes(usize),
    Percent(usize),
}

impl Share {
    /// How many of `count` nodes it is; at least one where it is not nothing.
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

/// The fates of all nodes, by their numbers.
#[derive(Default)]
pub(super) struct Fates {
    nodes: Vec<watch::Sender<Fate>>,
    flapping: Option<Flapping>,
}

struct Flapping {
    nodes: Vec<usize>,
    half_period: Duration,
}

impl Fates {
    /// The fate of one more node.
    pub(super) fn add(&mut self) -> watch::Receiver<Fate> {
        let (fate, told) = watch::channel(Fate::Well);
        self.nodes.push(fate);
        told
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Fail { share } => drop(self.befall(share, Fate::Failed)),
            Order::Disconnect { share } => drop(self.befall(share, Fate::CutOff)),
            Order::Flap { share, period_ms } => {
                let flapped = self.flapping.take().into_iter().flat_map(|flapping| flapping.nodes);
                self.set(flapped, Fate::Well);
                let nodes = self.befall(share, Fate::CutOff);
                self.flapping = Some(Flapping { nodes, half_period: Duration::from_millis(period_ms) / 2 });
            }
            Order::Recover => {
                self.flapping = None;
                self.set(0..self.nodes.len(), Fate::Well);
            }
        }
    }

    fn befall(&self, share: Share, fate: Fate) -> Vec<usize> {
        let fares_well = |number: &usize| *self.nodes[*number].borrow() == Fate::Well;
        let count = self.nodes.len();
        let nodes: Vec<usize> = (0..count).filter(fares_well).take(share.of(count)).collect();
        self.set(nodes.iter().copied(), fate);
        nodes
    }

    fn set(&self, nodes: impl IntoIterator<Item = usize>, fate: Fate) {
        for number in nodes {
            self.nodes[number].send_replace(fate);
        }
    }

    /// Half a period is over.
    fn flap(&self) {
        for number in self.flapping.iter().flat_map(|flapping| &flapping.nodes) {
            self.nodes[*number].send_modify(|fate| {
                *fate = match fate {
                    Fate::Well => Fate::CutOff,
                    Fate::CutOff => Fate::Well,
                    Fate::Failed => Fate::Failed,
                };
            });
        }
    }

    /// Carries out what the standard input commands, for as long as it runs.
    pub(super) async fn follow_orders(mut self) {
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
                    match Order::try_parse_from(line.split_whitespace()) {
                        Ok(order) => {
                            tracing::info!(order = line, "something befalls the nodes");
                            self.obey(order);
                            flap_at = clock::monotonic()
                                + self.flapping.as_ref().map(|flapping| flapping.half_period).unwrap_or_default();
                        }
                        Err(error) => tracing::warn!(order = line, error = %error, "not understood"),
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

/// The lines of the standard input. A thread reads them that nobody waits for when the process ends.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(WAITING);
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
    use super::Fate::{CutOff, Failed, Well};
    use super::*;

    fn fates(count: usize) -> (Fates, Vec<watch::Receiver<Fate>>) {
        let mut fates = Fates::default();
        let told = (0..count).map(|_| fates.add()).collect();
        (fates, told)
    }

    fn obey(fates: &mut Fates, line: &str) {
        fates.obey(Order::try_parse_from(line.split_whitespace()).unwrap());
    }

    fn all(told: &[watch::Receiver<Fate>]) -> Vec<Fate> {
        told.iter().map(|fate| *fate.borrow()).collect()
    }

    #[test]
    fn shares_are_of_all_nodes_and_hit_those_that_fare_well() {
        let (mut fates, told) = fates(5);
        obey(&mut fates, "fail 1");
        obey(&mut fates, "disconnect 21%");
        assert_eq!(all(&told), [Failed, CutOff, CutOff, Well, Well]);
        obey(&mut fates, "fail 100%");
        assert_eq!(all(&told), [Failed, CutOff, CutOff, Failed, Failed]);
        obey(&mut fates, "recover");
        assert_eq!(all(&told), [Well; 5]);
    }

    #[test]
    fn flapping_nodes_go_and_come_back_together() {
        let (mut fates, told) = fates(3);
        obey(&mut fates, "flap 2 1000");
        assert_eq!(all(&told), [CutOff, CutOff, Well]);
        fates.flap();
        assert_eq!(all(&told), [Well; 3]);
        obey(&mut fates, "fail 1");
        fates.flap();
        assert_eq!(all(&told), [Failed, CutOff, Well], "what has failed does not come back");
        obey(&mut fates, "flap 1 3000");
        assert_eq!(all(&told), [CutOff, Well, Well], "only the last command's nodes flap");
        obey(&mut fates, "recover");
        fates.flap();
        assert_eq!(all(&told), [Well; 3]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["", "fail", "fail -1", "fail 101%", "flap 5%", "flap 5% 0", "recover 5%", "explode"] {
            assert!(Order::try_parse_from(line.split_whitespace()).is_err(), "{line:?}");
        }
    }
}
