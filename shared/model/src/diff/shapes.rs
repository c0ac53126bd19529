//! Which fields and blocks a job shows, and how blocks of the same kind are told apart.

/// What there is to compare of a block.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) fields: &'static [Field],
    pub(super) blocks: &'static [Block],
}

/// A single value, or several that stand beside each other.
#[derive(Debug)]
pub(super) enum Field {
    /// A text; none is the empty one.
    Text(&'static str),
    /// A number; none is 0.
    Number(&'static str),
    /// A flag; none is no.
    Flag(&'static str),
    /// Whatever there is; none is nothing.
    Maybe(&'static str),
    /// Whatever there is; none says so.
    OrNil(&'static str),
    /// Texts in one, with commas between.
    Joined(&'static str),
    /// A map, each entry a field of its own: `Meta[key]`.
    Map(&'static str),
}

/// A nested block: the name that it is shown under, the member that it stands in, and what is in it.
#[derive(Debug)]
pub(super) enum Block {
    /// One, or none.
    One(&'static str, &'static str, &'static Shape),
    /// Several without names: a changed one is another one.
    Set(&'static str, &'static str, &'static Shape),
    /// Several told apart by a member.
    Named(&'static str, &'static str, &'static str, &'static Shape),
    /// Several texts.
    Words(&'static str, &'static str),
    /// Free form: every value in it is a field.
    Free(&'static str, &'static str),
}

use Block::{Free, Named, One, Set, Words};
use Field::{Flag, Joined, Map, Maybe, Number, OrNil, Text};

pub(super) const JOB: Shape = Shape {
    fields: &[
        Flag("AllAtOnce"),
        Text("Name"),
        Text("Namespace"),
        Text("NodePool"),
        Text("ParentID"),
        Number("Priority"),
        Text("Region"),
        Flag("Stop"),
        Text("Type"),
        Map("Meta"),
    ],
    blocks: &[
        Words("Datacenters", "Datacenters"),
        Set("Constraint", "Constraints", &CONSTRAINT),
        Set("Affinity", "Affinities", &AFFINITY),
        Set("Spread", "Spreads", &SPREAD),
        One("Periodic", "Periodic", &PERIODIC),
        One("ParameterizedJob", "ParameterizedJob", &PARAMETERIZED),
        Free("Multiregion", "Multiregion"),
        Free("UI", "UI"),
    ],
};

pub(super) const GROUP: Shape = Shape {
    fields: &[
        Number("Count"),
        Maybe("MaxClientDisconnect"),
        Maybe("MaxRunDuration"),
        Flag("PreventRescheduleOnLost"),
        Maybe("ShutdownDelay"),
        Maybe("StopAfterClientDisconnect"),
        Map("Meta"),
    ],
    blocks: &[
        Set("Constraint", "Constraints", &CONSTRAINT),
        Set("Affinity", "Affinities", &AFFINITY),
        Set("Spread", "Spreads", &SPREAD),
        One("RestartPolicy", "RestartPolicy", &RESTART),
        One("Disconnect", "Disconnect", &DISCONNECT),
        One("Migrate", "Migrate", &MIGRATE),
        One("ReschedulePolicy", "ReschedulePolicy", &RESCHEDULE),
        One("EphemeralDisk", "EphemeralDisk", &DISK),
        One("Update", "Update", &UPDATE),
        Set("Network", "Networks", &NETWORK),
        Named("Service", "Services", "Name", &SERVICE),
        Named("Volume", "Volumes", "Name", &VOLUME),
        One("Consul", "Consul", &CONSUL),
        One("Scaling", "Scaling", &SCALING),
    ],
};

pub(super) const TASK: Shape = Shape {
    fields: &[
        Text("Driver"),
        Text("KillSignal"),
        Number("KillTimeout"),
        Text("Kind"),
        Flag("Leader"),
        Number("ShutdownDelay"),
        Text("User"),
        Map("Env"),
        Map("Meta"),
    ],
    blocks: &[
        Set("Constraint", "Constraints", &CONSTRAINT),
        Set("Affinity", "Affinities", &AFFINITY),
        Free("Config", "Config"),
        One("Resources", "Resources", &RESOURCES),
        One("Lifecycle", "Lifecycle", &LIFECYCLE),
        Free("DispatchPayload", "DispatchPayload"),
        One("LogConfig", "LogConfig", &LOGS),
        Set("Artifact", "Artifacts", &ARTIFACT),
        Set("VolumeMount", "VolumeMounts", &MOUNT),
        Named("Service", "Services", "Name", &SERVICE),
        Free("Vault", "Vault"),
        One("Consul", "Consul", &CONSUL),
        Set("Template", "Templates", &TEMPLATE),
        Named("Identity", "Identities", "Name", &IDENTITY),
        Named("Action", "Actions", "Name", &ACTION),
        Free("CSIPluginConfig", "CSIPluginConfig"),
        Free("Schedule", "Schedule"),
    ],
};

const CONSTRAINT: Shape = Shape { fields: &[Text("LTarget"), Text("Operand"), Text("RTarget")], blocks: &[] };
const AFFINITY: Shape =
    Shape { fields: &[Text("LTarget"), Text("Operand"), Text("RTarget"), Number("Weight")], blocks: &[] };
const SPREAD: Shape = Shape {
    fields: &[Text("Attribute"), Number("Weight")],
    blocks: &[Set("SpreadTarget", "SpreadTarget", &TARGET)],
};
const TARGET: Shape = Shape { fields: &[Number("Percent"), Text("Value")], blocks: &[] };
const PERIODIC: Shape = Shape {
    fields: &[Flag("Enabled"), Flag("ProhibitOverlap"), Text("Spec"), Text("SpecType"), Text("TimeZone")],
    blocks: &[Words("Specs", "Specs")],
};
const PARAMETERIZED: Shape = Shape {
    fields: &[Text("Payload")],
    blocks: &[Words("MetaOptional", "MetaOptional"), Words("MetaRequired", "MetaRequired")],
};
const RESTART: Shape = Shape {
    fields: &[Number("Attempts"), Number("Delay"), Number("Interval"), Text("Mode"), Flag("RenderTemplates")],
    blocks: &[],
};
const DISCONNECT: Shape = Shape {
    fields: &[Number("LostAfter"), Text("Reconcile"), OrNil("Replace"), OrNil("StopOnClientAfter")],
    blocks: &[],
};
const MIGRATE: Shape = Shape {
    fields: &[
        Text("HealthCheck"),
        Number("HealthyDeadline"),
        Number("MaxParallel"),
        Number("MinHealthyTime"),
    ],
    blocks: &[],
};
const RESCHEDULE: Shape = Shape {
    fields: &[
        Number("Attempts"),
        Number("Delay"),
        Text("DelayFunction"),
        Number("Interval"),
        Number("MaxDelay"),
        Flag("Unlimited"),
    ],
    blocks: &[],
};
const DISK: Shape = Shape { fields: &[Flag("Migrate"), Number("SizeMB"), Flag("Sticky")], blocks: &[] };
const UPDATE: Shape = Shape {
    fields: &[
        Flag("AutoPromote"),
        Flag("AutoRevert"),
        Number("Canary"),
        Text("HealthCheck"),
        Number("HealthyDeadline"),
        Number("MaxParallel"),
        Number("MinHealthyTime"),
        Number("ProgressDeadline"),
    ],
    blocks: &[],
};
const NETWORK: Shape = Shape {
    fields: &[Text("Hostname"), Text("Mode")],
    blocks: &[
        Set("Static Port", "ReservedPorts", &STATIC_PORT),
        Set("Dynamic Port", "DynamicPorts", &DYNAMIC_PORT),
        One("DNS", "DNS", &DNS),
        Free("CNIConfig", "CNI"),
    ],
};
const STATIC_PORT: Shape = Shape {
    fields: &[Text("HostNetwork"), Flag("IgnoreCollision"), Text("Label"), Number("To"), Number("Value")],
    blocks: &[],
};
const DYNAMIC_PORT: Shape =
    Shape { fields: &[Text("HostNetwork"), Text("Label"), Number("To")], blocks: &[] };
const DNS: Shape = Shape { fields: &[Joined("Options"), Joined("Searches"), Joined("Servers")], blocks: &[] };
const SERVICE: Shape = Shape {
    fields: &[
        Text("Address"),
        Text("AddressMode"),
        Text("Cluster"),
        Flag("EnableTagOverride"),
        Text("Kind"),
        Text("Name"),
        Text("Namespace"),
        Text("OnUpdate"),
        Text("PortLabel"),
        Text("Provider"),
        Text("TaskName"),
    ],
    blocks: &[
        Words("Tags", "Tags"),
        Words("CanaryTags", "CanaryTags"),
        Free("Meta", "Meta"),
        Free("CanaryMeta", "CanaryMeta"),
        Free("TaggedAddresses", "TaggedAddresses"),
        Named("Check", "Checks", "Name", &CHECK),
        Free("ConsulConnect", "Connect"),
        Free("Identity", "Identity"),
        Free("Weights", "Weights"),
    ],
};
const CHECK: Shape = Shape {
    fields: &[
        Text("AddressMode"),
        Text("Body"),
        Text("Command"),
        Flag("Expose"),
        Number("FailuresBeforeCritical"),
        Number("FailuresBeforeWarning"),
        Text("GRPCService"),
        Flag("GRPCUseTLS"),
        Text("InitialStatus"),
        Number("Interval"),
        Text("Method"),
        Text("Name"),
        Text("Notes"),
        Text("OnUpdate"),
        Text("Path"),
        Text("PortLabel"),
        Text("Protocol"),
        Number("SuccessBeforePassing"),
        Text("TLSServerName"),
        Flag("TLSSkipVerify"),
        Text("TaskName"),
        Number("Timeout"),
        Text("Type"),
    ],
    blocks: &[Words("Args", "Args"), Free("Header", "Header"), Free("CheckRestart", "CheckRestart")],
};
const VOLUME: Shape = Shape {
    fields: &[
        Text("AccessMode"),
        Text("AttachmentMode"),
        Text("Name"),
        Flag("PerAlloc"),
        Flag("ReadOnly"),
        Text("Source"),
        Flag("Sticky"),
        Text("Type"),
    ],
    blocks: &[Free("MountOptions", "MountOptions")],
};
const CONSUL: Shape = Shape { fields: &[Text("Cluster"), Text("Namespace"), Text("Partition")], blocks: &[] };
const SCALING: Shape =
    Shape { fields: &[Flag("Enabled"), Number("Max"), Number("Min")], blocks: &[Free("Policy", "Policy")] };
const RESOURCES: Shape = Shape {
    fields: &[
        Number("CPU"),
        Number("Cores"),
        Number("DiskMB"),
        Number("IOPS"),
        Number("MemoryMB"),
        Number("MemoryMaxMB"),
        Number("SecretsMB"),
    ],
    blocks: &[
        Set("Network", "Networks", &NETWORK),
        Named("Device", "Devices", "Name", &DEVICE),
        Free("NUMA", "NUMA"),
    ],
};
const DEVICE: Shape = Shape {
    fields: &[Number("Count"), Text("Name")],
    blocks: &[Set("Constraint", "Constraints", &CONSTRAINT), Set("Affinity", "Affinities", &AFFINITY)],
};
const LIFECYCLE: Shape = Shape { fields: &[Text("Hook"), Flag("Sidecar")], blocks: &[] };
const LOGS: Shape =
    Shape { fields: &[Flag("Disabled"), Number("MaxFileSizeMB"), Number("MaxFiles")], blocks: &[] };
const ARTIFACT: Shape = Shape {
    fields: &[
        Flag("Chown"),
        Flag("GetterInsecure"),
        Text("GetterMode"),
        Text("GetterSource"),
        Text("RelativeDest"),
        Map("GetterHeaders"),
        Map("GetterOptions"),
    ],
    blocks: &[],
};
const MOUNT: Shape = Shape {
    fields: &[
        Text("Destination"),
        Text("PropagationMode"),
        Flag("ReadOnly"),
        Text("SELinuxLabel"),
        Text("Volume"),
    ],
    blocks: &[],
};
const TEMPLATE: Shape = Shape {
    fields: &[
        Text("ChangeMode"),
        Text("ChangeSignal"),
        Text("DestPath"),
        Text("EmbeddedTmpl"),
        Flag("Envvars"),
        Flag("ErrMissingKey"),
        Maybe("Gid"),
        Text("LeftDelim"),
        Flag("Once"),
        Text("Perms"),
        Text("RightDelim"),
        Text("SourcePath"),
        Number("Splay"),
        Maybe("Uid"),
        Number("VaultGrace"),
    ],
    blocks: &[Free("Template", "Wait"), Free("ChangeScript", "ChangeScript")],
};
const IDENTITY: Shape = Shape {
    fields: &[
        Text("ChangeMode"),
        Text("ChangeSignal"),
        Flag("Env"),
        Flag("File"),
        Text("Filepath"),
        Text("Name"),
        Text("ServiceName"),
        Number("TTL"),
    ],
    blocks: &[Words("Audience", "Audience")],
};
const ACTION: Shape = Shape { fields: &[Text("Command"), Text("Name")], blocks: &[Words("Args", "Args")] };
