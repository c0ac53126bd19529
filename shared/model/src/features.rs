//! The list of what is not built: features of the reference that Drover does not have yet, what people call them, and what
//! they can do in the meantime. Pure.
//!
//! Code that needs one of these features checks the list before it refuses a job, a request, a setting or a command,
//! and takes the text of its refusal from here. To switch a feature on, write `Built` in its line: checks of jobs then
//! accept it, and tests name the routes, settings and commands that still refuse it. When no code checks a feature any
//! more, a test demands the removal of its line; when a line is removed, the compiler names the code that still checks
//! it.
//!
//! Things that Drover refuses for other reasons, or does differently on purpose, are not listed.

use std::fmt::Display;

/// Whether a feature is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is built. Declarations that say otherwise have to be removed.
    Built,
    /// It is not built yet.
    NotBuilt,
}

/// The verb after a feature's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Is,
    Are,
}

/// A line of the list.
#[derive(Debug, Clone, Copy)]
struct Line {
    area: Area,
    name: &'static str,
    verb: Verb,
    state: State,
    meanwhile: Option<&'static str>,
}

/// Makes the types of the list. The lines of an area: feature, its name without an article, the verb that the name takes,
/// its state, and what people can do in the meantime.
macro_rules! features {
    ($( $area:ident $title:literal {
        $( $feature:ident($name:literal, $verb:ident, $state:ident, $meanwhile:expr); )+
    } )+) => {
        /// A part of the list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Area {
            $( #[doc = $title] $area, )+
        }

        impl Area {
            /// Heading of the part.
            pub const fn title(self) -> &'static str {
                match self {
                    $( Self::$area => $title, )+
                }
            }
        }

        /// A feature that is on the list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Feature {
            $( $( #[doc = $name] $feature, )+ )+
        }

        impl Feature {
            /// All features of the list, in its order.
            pub const ALL: &'static [Self] = &[ $( $( Self::$feature, )+ )+ ];

            const fn line(self) -> Line {
                match self {
                    $( $( Self::$feature => Line {
                        area: Area::$area,
                        name: $name,
                        verb: Verb::$verb,
                        state: State::$state,
                        meanwhile: $meanwhile,
                    }, )+ )+
                }
            }
        }
    };
}

features! {
    Jobs "Jobs" {
        MultiregionJobs("other regions of a job", Are, NotBuilt, Some("register the job in each cluster"));
    }
    Tasks "Tasks" {
        QemuDriver("driver qemu", Is, NotBuilt, None);
        ExternalDrivers("drivers of plugins", Are, NotBuilt, None);
        MockOptions("some options of mock_driver", Are, NotBuilt, None);
        OtherArtifacts("artifacts by s3, gcs, hg and file", Are, NotBuilt, Some("fetch them by https or git"));
        TaskSchedules("task schedules", Are, NotBuilt, None);
        Numa("NUMA settings", Are, NotBuilt, None);
    }
    Network "Networks and services" {
        Connect("Connect tasks", Are, NotBuilt, None);
        Consul("integration with Consul", Is, NotBuilt, None);
    }
    Storage "Storage" {
        CsiPlugins("CSI plugins", Are, NotBuilt, None);
        DiskMigration("migration of disks", Is, NotBuilt, None);
    }
    Security "Security" {
        Acls("ACLs", Are, NotBuilt, None);
        ApiTls("TLS of the HTTP API", Is, NotBuilt, None);
        ClientTls("TLS settings of the command line", Are, NotBuilt, None);
        Secrets("secrets", Are, NotBuilt, None);
        Variables("variables", Are, NotBuilt, None);
        Vault("integration with Vault", Is, NotBuilt, None);
        WorkloadIdentities("workload identities", Are, NotBuilt, None);
        NodeIdentities("identities of nodes", Are, NotBuilt, None);
        KeyRotation("rotation and removal of keys", Is, NotBuilt, None);
        ExternalKeyrings("keyrings outside the cluster", Are, NotBuilt, None);
    }
    Operation "Operation" {
        Snapshots("snapshots of the state", Are, NotBuilt, Some("back up PostgreSQL"));
        RemoteLogs("reading the logs of another node", Is, NotBuilt, Some(
            "request the logs of a server from its own API"
        ));
        JournalExport("export of a machine's journal", Is, NotBuilt, None);
        LogFiles("log files", Are, NotBuilt, Some("logs go to standard error"));
        MetricSinks("metrics by statsd, Datadog or Circonus", Are, NotBuilt, Some("use Prometheus or OpenTelemetry"));
        MetricFilters("filters of metrics", Are, NotBuilt, None);
        ConnectionLimits("limits on connections", Are, NotBuilt, None);
        Reload("reloading of the configuration", Is, NotBuilt, Some("restart the process"));
        Debugging("profiles and debug archives", Are, NotBuilt, None);
        RaftCommands("commands for Raft and autopilot", Are, NotBuilt, Some("PostgreSQL holds the state"));
        GossipCommands("commands for gossip", Are, NotBuilt, Some("servers and nodes find each other over NATS"));
        WindowsServices("Windows services", Are, NotBuilt, None);
        SomeSettings("some settings of configuration files", Are, NotBuilt, None);
        Enterprise("what belongs to Nomad Enterprise", Is, NotBuilt, None);
    }
    Interfaces "API and command line" {
        WebInterface("web interface", Is, NotBuilt, None);
        CertificateCommands("Nomad's commands for certificates", Are, NotBuilt, Some("use drover operator tls"));
        SomeCommands("some other commands", Are, NotBuilt, None);
        UnixSockets("addresses that begin with unix://", Are, NotBuilt, None);
    }
}

impl Feature {
    /// The first of these features that is needed and not built.
    pub fn first_missing(needs: impl IntoIterator<Item = (Self, bool)>) -> Option<Self> {
        needs
            .into_iter()
            .find_map(|(feature, is_needed)| (is_needed && !feature.is_built()).then_some(feature))
    }

    /// Whether the feature is built.
    pub const fn is_built(self) -> bool {
        matches!(self.line().state, State::Built)
    }

    /// The part of the list that contains the feature.
    pub const fn area(self) -> Area {
        self.line().area
    }

    /// The name that people use for the feature, without an article.
    pub const fn name(self) -> &'static str {
        self.line().name
    }

    /// `there is no web interface`, `there are no volumes`: why a setting of the feature has no effect.
    pub fn absence(self) -> String {
        format!("there {} no {}", self.verb(), self.name())
    }

    /// The beginning of a sentence about the feature: `volumes are`.
    pub fn subject(self) -> String {
        format!("{} {}", self.name(), self.verb())
    }

    /// Warns about a thing that is accepted: `consul has no effect: there is no integration with Consul`.
    pub fn warning_of(self, thing: impl Display) -> String {
        format!("{thing} has no effect: {}", self.absence())
    }

    /// Refuses what needs the feature: `volumes are not built yet`.
    pub fn refusal(self) -> String {
        self.advised(format!("{} not built yet", self.subject()))
    }

    /// Refuses a thing that belongs to the feature: `network mode "bridge" is not built yet`.
    pub fn refusal_of(self, thing: impl Display) -> String {
        self.advised(format!("{thing} is not built yet"))
    }

    /// Refuses what needs the feature, in a list of findings: `not built yet: volumes`.
    pub fn finding(self) -> String {
        self.finding_of(self.name())
    }

    /// Refuses a thing that belongs to the feature, in a list of findings: `not built yet: client.host_volume`.
    pub fn finding_of(self, thing: impl Display) -> String {
        self.advised(format!("not built yet: {thing}"))
    }

    fn verb(self) -> &'static str {
        match self.line().verb {
            Verb::Is => "is",
            Verb::Are => "are",
        }
    }

    /// Adds what people can do in the meantime.
    fn advised(self, mut refusal: String) -> String {
        if let Some(meanwhile) = self.line().meanwhile {
            refusal.push_str("; ");
            refusal.push_str(meanwhile);
        }
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The examples are features that Drover will hardly ever have.

    #[test]
    fn refusals_name_the_feature_or_what_belongs_to_it() {
        let feature = Feature::Enterprise;
        assert_eq!(feature.refusal(), "what belongs to Nomad Enterprise is not built yet");
        assert_eq!(feature.refusal_of("PUT /v1/quota"), "PUT /v1/quota is not built yet");
        assert_eq!(feature.finding(), "not built yet: what belongs to Nomad Enterprise");
        assert_eq!(feature.finding_of("sentinel"), "not built yet: sentinel");
        assert_eq!(Feature::WindowsServices.absence(), "there are no Windows services");
        assert_eq!(
            Feature::WindowsServices.warning_of("eventlog"),
            "eventlog has no effect: there are no Windows services"
        );
    }

    #[test]
    fn refusals_say_what_to_do_in_the_meantime() {
        let feature = Feature::RaftCommands;
        let expected = "commands for Raft and autopilot are not built yet; PostgreSQL holds the state";
        assert_eq!(feature.refusal(), expected);
        let expected = "not built yet: operator raft info; PostgreSQL holds the state";
        assert_eq!(feature.finding_of("operator raft info"), expected);
    }

    #[test]
    fn the_first_feature_that_is_needed_and_missing_is_found() {
        let (first, second) = (Feature::GossipCommands, Feature::Enterprise);
        assert_eq!(Feature::first_missing([(first, false), (second, true), (first, true)]), Some(second));
        assert_eq!(Feature::first_missing([(first, false), (second, false)]), None);
    }

    #[test]
    fn names_are_given_once() {
        for (at, feature) in Feature::ALL.iter().enumerate() {
            let other = Feature::ALL[..at].iter().find(|other| other.name() == feature.name());
            assert_eq!(other, None, "{}", feature.name());
        }
    }
}
