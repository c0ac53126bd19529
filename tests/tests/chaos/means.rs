//! What this machine has for the faults, and the cluster that is made of it. A kind of fault whose means are missing is
//! skipped by name.

use std::path::PathBuf;

use private_servers::{NatsOptions, PostgresOptions};
use tests::harness::Cluster;
use tests::harness::host_clock::HostClock;
use tests::harness::network::{Link, Network};
use tests::harness::placement::Placement;
use tests::harness::small_disk::SmallDisk;
use tests::skips;

use crate::BINARY;
use crate::kinds::Kind;
use crate::world::{AGENTS, PROCESSES, World};

/// The environment variable with the path of an older binary.
const BEFORE: &str = "BEFORE";
/// What `DROVER_REQUIRE` calls the means.
const FACILITY: &str = "chaos";

/// The means, and the kinds of faults that they allow.
pub(crate) struct Means {
    pub(crate) kinds: Vec<Kind>,
    /// The older binary.
    pub(crate) before: Option<PathBuf>,
    /// The disks of PostgreSQL and NATS.
    pub(crate) postgres_disk: Option<SmallDisk>,
    pub(crate) nats_disk: Option<SmallDisk>,
}

impl Means {
    /// Starts all [`PROCESSES`], each with as much of its own as possible.
    pub(crate) async fn start_cluster() -> (Self, Cluster) {
        let mut means =
            Self { kinds: Kind::ALL.to_vec(), before: None, postgres_disk: None, nats_disk: None };
        means.before = means.find_older_binary();
        [means.postgres_disk, means.nats_disk] = means.mount_disks();
        let parent = |disk: &Option<SmallDisk>| disk.as_ref().map(|disk| disk.path().to_owned());
        let postgres = PostgresOptions {
            survives_power_loss: false,
            parent: parent(&means.postgres_disk),
            ..PostgresOptions::default()
        };
        let nats = NatsOptions { parent: parent(&means.nats_disk), ..NatsOptions::default() };
        let mut cluster = Cluster::without_processes(BINARY, &World::environment(), postgres, nats).await;
        for name in PROCESSES {
            let placement = Placement {
                network: means.create_network(),
                clock: means.make_clock(cluster.path(&format!("{name}.clock"))),
                disk: AGENTS.contains(&name).then(|| means.mount_disk()).flatten(),
                binary: None,
            };
            cluster.place(name, placement).await;
        }
        cluster.start_all(&PROCESSES).await;
        (means, cluster)
    }

    fn find_older_binary(&mut self) -> Option<PathBuf> {
        let before = std::env::var_os(BEFORE).filter(|path| !path.is_empty()).map(PathBuf::from);
        if before.is_none() {
            self.skip(Kind::OtherVersion, &format!("{BEFORE} does not name an older binary of drover"));
        }
        before
    }

    fn mount_disks(&mut self) -> [Option<SmallDisk>; 2] {
        [self.mount_disk(), self.mount_disk()]
    }

    fn mount_disk(&mut self) -> Option<SmallDisk> {
        let is_possible = self.kinds.contains(&Kind::PostgresDiskFull);
        match is_possible.then(SmallDisk::mount)? {
            Ok(disk) => Some(disk),
            Err(cause) => {
                for kind in [Kind::PostgresDiskFull, Kind::NatsDiskFull, Kind::AgentDiskFull] {
                    self.skip(kind, &cause);
                }
                None
            }
        }
    }

    fn create_network(&mut self) -> Option<Network> {
        let is_possible = self.kinds.contains(&Kind::OneWayPartition);
        let network = match is_possible.then(Network::create)? {
            Ok(network) => network,
            Err(cause) => {
                self.skip(Kind::OneWayPartition, &cause);
                self.skip(Kind::PacketLoss, &cause);
                return None;
            }
        };
        if self.kinds.contains(&Kind::PacketLoss) {
            match network.lose_packets(Link::Nats) {
                Ok(loss) => network.lose_none(Link::Nats, loss),
                Err(cause) => self.skip(Kind::PacketLoss, &cause),
            }
        }
        Some(network)
    }

    fn make_clock(&mut self, file: PathBuf) -> Option<HostClock> {
        let is_possible = self.kinds.contains(&Kind::ClockJump);
        let clock = is_possible.then(|| HostClock::new(file))?;
        if clock.is_none() {
            self.skip(
                Kind::ClockJump,
                "libfaketime is not installed; on Debian it is the package libfaketime",
            );
        }
        clock
    }

    /// Skips a kind of fault.
    fn skip(&mut self, kind: Kind, cause: &str) {
        skips::skip(&format!("chaos: {}", kind.name()), FACILITY, cause);
        self.kinds.retain(|possible| *possible != kind);
    }
}
