//! The kinds of faults of hosts and networks.

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ClockJump,
    PostgresDiskFull,
    NatsDiskFull,
    AgentDiskFull,
    Pause,
    OneWayPartition,
    PacketLoss,
    OtherVersion,
    Kill,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::ClockJump,
        Self::PostgresDiskFull,
        Self::NatsDiskFull,
        Self::AgentDiskFull,
        Self::Pause,
        Self::OneWayPartition,
        Self::PacketLoss,
        Self::OtherVersion,
        Self::Kill,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClockJump => "clock jump",
            Self::PostgresDiskFull => "disk of PostgreSQL full",
            Self::NatsDiskFull => "disk of NATS full",
            Self::AgentDiskFull => "disk of an agent full",
            Self::Pause => "pause",
            Self::OneWayPartition => "one-way partition",
            Self::PacketLoss => "packet loss",
            Self::OtherVersion => "other version",
            Self::Kill => "kill",
        }
    }
}
