//! A network of its own for a process. Each of its links can lose packets: all in one direction, or some.
//!
//! A network namespace has three links to this machine's network: one to NATS, one to the database, and one to clients
//! of the process. The servers listen on 127.0.0.1, which the namespace cannot reach. A relay therefore listens at the
//! near end of a link, and passes connections on. The process's own connections run over the link, and suffer with it.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::processes::run;

/// The network of all links, which is not used otherwise; each link has four addresses of it.
const NETWORK: u32 = u32::from_be_bytes([10, 213, 0, 0]);
const ADDRESSES_PER_LINK: u32 = 4;
/// Number of network namespaces that the network has room for.
const NAMESPACES: u32 = 4096;
/// A link-layer address that no interface has. Packets to it are lost, and nobody is told.
const NOBODY: &str = "02:00:00:00:00:01";
/// The share of packets that a bad link loses, in each direction.
const LOST_PERCENT: u32 = 10;

/// A link, by what is at its near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The connection to NATS.
    Nats,
    /// The connections to the database.
    Database,
    /// The connections of clients of the process.
    Clients,
}

impl Link {
    const ALL: [Self; 3] = [Self::Nats, Self::Database, Self::Clients];

    /// The name of the interface in the namespace.
    fn interface(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::Database => "database",
            Self::Clients => "clients",
        }
    }
}

/// The direction of packets on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the process.
    Out,
    /// To the process.
    In,
}

/// By what means a link loses packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The queueing discipline `netem`.
    Netem,
    /// A rule of iptables. A kernel may lack `netem`.
    Filter,
}

/// A network namespace with its links. It ends when this value is dropped; its processes must have ended before.
#[derive(Debug)]
pub struct Network {
    number: u32,
    relays: JoinSet<()>,
}

impl Network {
    /// Creates a network.
    ///
    /// # Errors
    /// What this machine lacks, in words of the program that failed.
    pub fn create() -> Result<Self, String> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        // Another process may be running these tests, too.
        let number =
            (std::process::id().wrapping_mul(64) + CREATED.fetch_add(1, Ordering::Relaxed)) % NAMESPACES;
        // If a step fails, dropping it removes what was created before.
        let network = Self { number, relays: JoinSet::new() };
        let name = network.name();
        ip(&["netns", "add", &name])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        for link in Link::ALL {
            let (here, there) = (network.near_interface(link), link.interface());
            ip(&["link", "add", &here, "type", "veth", "peer", "name", there, "netns", &name])?;
            ip(&["address", "add", &format!("{}/30", network.near(link)), "dev", &here])?;
            ip(&["link", "set", &here, "up"])?;
            ip(&["-n", &name, "address", "add", &format!("{}/30", network.far(link)), "dev", there])?;
            ip(&["-n", &name, "link", "set", there, "up"])?;
        }
        Ok(network)
    }

    /// Passes connections to a port at the near end of a link on to the same port of 127.0.0.1.
    ///
    /// # Errors
    /// If the port cannot be listened on.
    pub async fn relay(&mut self, link: Link, port: u16) -> io::Result<()> {
        let listener = TcpListener::bind((self.near(link), port)).await?;
        self.relays.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                if let Ok((near, _)) = listener.accept().await {
                    connections.spawn(pass_on(near, port));
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(())
    }

    /// A command that runs a program in this network.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name())).arg(program);
        command
    }

    /// The address of this machine on a link.
    pub fn near(&self, link: Link) -> Ipv4Addr {
        self.address(link, 1)
    }

    /// The address of the process on a link.
    pub fn far(&self, link: Link) -> Ipv4Addr {
        self.address(link, 2)
    }

    fn address(&self, link: Link, of_link: u32) -> Ipv4Addr {
        let links = Link::ALL.len() as u32;
        Ipv4Addr::from_bits(NETWORK + (self.number * links + link as u32) * ADDRESSES_PER_LINK + of_link)
    }

    fn name(&self) -> String {
        format!("drover-{}", self.number)
    }

    fn near_interface(&self, link: Link) -> String {
        format!("dr{}-{}", self.number, link.interface())
    }

    /// From now on, all packets in one direction of a link are lost.
    ///
    /// # Panics
    /// If the system refuses it.
    pub fn cut(&self, link: Link, direction: Direction) {
        self.neighbour("replace", link, direction, &["lladdr", NOBODY, "nud", "permanent"]);
    }

    /// Ends [`Self::cut`].
    ///
    /// # Panics
    /// If the link is not cut.
    pub fn mend(&self, link: Link, direction: Direction) {
        self.neighbour("delete", link, direction, &[]);
    }

    /// Changes the link-layer address that one end of a link knows of the other.
    fn neighbour(&self, action: &str, link: Link, direction: Direction, more: &[&str]) {
        let (name, here) = (self.name(), self.near_interface(link));
        let (near, far) = (self.near(link).to_string(), self.far(link).to_string());
        let mut arguments = match direction {
            Direction::Out => vec!["-n", &name, "neighbour", action, &near, "dev", link.interface()],
            Direction::In => vec!["neighbour", action, &far, "dev", &here],
        };
        arguments.extend(more);
        ip(&arguments).unwrap_or_else(|error| panic!("{error}"));
    }

    /// From now on, some packets in both directions of a link are lost.
    ///
    /// # Errors
    /// If this machine has no means to it.
    pub fn lose_packets(&self, link: Link) -> Result<Loss, String> {
        let share = format!("{LOST_PERCENT}%");
        let netem = ["root", "netem", "loss", &share];
        match self.queueing("add", link, &netem) {
            Ok(()) => Ok(Loss::Netem),
            Err(of_netem) => match self.filter("-A", link) {
                Ok(()) => Ok(Loss::Filter),
                Err(of_filter) => Err(format!("{of_netem}; {of_filter}")),
            },
        }
    }

    /// Ends [`Self::lose_packets`], whose result is `loss`.
    ///
    /// # Panics
    /// If the link does not lose packets by these means.
    pub fn lose_none(&self, link: Link, loss: Loss) {
        let ended = match loss {
            Loss::Netem => self.queueing("delete", link, &["root"]),
            Loss::Filter => self.filter("-D", link),
        };
        ended.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Changes the queueing disciplines of both ends of a link.
    fn queueing(&self, action: &str, link: Link, rest: &[&str]) -> Result<(), String> {
        let (name, here, there) = (self.name(), self.near_interface(link), link.interface());
        let (mut far, mut near) =
            (vec!["-n", &name, "qdisc", action, "dev", there], vec!["qdisc", action, "dev", &here]);
        far.extend(rest);
        near.extend(rest);
        run("tc", &far)?;
        run("tc", &near)
    }

    /// Adds or deletes the filters of the far end of a link. That is in the namespace, and goes with it.
    fn filter(&self, action: &str, link: Link) -> Result<(), String> {
        let namespace = format!("--net=/run/netns/{}", self.name());
        let share = format!("{:.2}", f64::from(LOST_PERCENT) / 100.0);
        for (chain, side) in [("INPUT", "-i"), ("OUTPUT", "-o")] {
            let mut arguments = vec![&*namespace, "iptables", "-w", action, chain, side, link.interface()];
            arguments.extend(["-m", "statistic", "--mode", "random", "--probability", &share, "-j", "DROP"]);
            run("nsenter", &arguments)?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // If it cannot be deleted, it was not created. The links go with it.
        let _ = ip(&["netns", "delete", &self.name()]);
    }
}

/// Passes the bytes of a connection on to a server, and back, until both have ended it.
async fn pass_on(mut near: TcpStream, port: u16) {
    if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        // An error ends the connection, which is all that the process can learn of it.
        let _ = tokio::io::copy_bidirectional(&mut near, &mut server).await;
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    run("ip", arguments)
}
