//! The fields and blocks of a job that a diff contains, and how blocks of the same kind are matched. The
//! blocks are in the order of the diff (http-api A.10). Spreads, lifecycles and the restart policies of tasks are not shown.

/// The fields and nested blocks of a block.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) fields: &'static [Field],
    pub(super) blocks: &'static [Block],
}

/// A member of a block that the diff contains as one field, or as one field per entry of a map.
#[derive(Debug)]
pub(super) enum Field {
    /// A text. If it is absent, the value is empty.
    Text(&'static str),
    /// A number. If it is absent, the value is `0`.
    Number(&'static str),
    /// A boolean. If it is absent, the value is `false`.
    Flag(&'static str),
    /// A value of any type. The diff omits the field if it is absent on both sides.
    Optional(&'static str),
    /// A value of any type. If it is absent, the value is `nil`.
    OrNil(&'static str),
    /// A list of texts, joined by commas.
    Joined(&'static str),
    /// A map. Each entry is a field: `Meta[key]`.
    Map(&'static str),
}

/// A nested block: its name in the diff, the member that contains it, and its shape. `A/B` is the member `B` of the member `A`.
#[derive(Debug)]
pub(super) enum Block {
    /// A single block, which may be absent.
    One(&'static str, &'static str, &'static Shape),
    /// A single block of which the diff contains nothing that did not change.
    Changes(&'static str, &'static str, &'static Shape),
    /// A set of blocks without identity. A changed block is one deleted and one added block.
    Set(&'static str, &'static str, &'static Shape),
    /// A list of blocks that are matched by the value of a member.
    Named(&'static str, &'static str, &'static str, &'static Shape),
    /// A list of blocks of which those that changed are matched by the value of a member.
    Paired(&'static str, &'static str, &'static str, &'static Shape),
    /// A list of services, which are matched by what they have in common.
    Services(&'static str, &'static str, &'static Shape),
    /// A set of texts.
    Texts(&'static str, &'static str),
    /// A block without a fixed shape. Every value in it is a field.
    FreeForm(&'static str, &'static str),
}

use Block::{Changes, FreeForm, Named, One, Paired, Services, Set, Texts};
use Field::{Flag, Joined, Map, Number, Optional, OrNil, Text};

pub(super) const JOB: Shape = Shape {
    fields: &[
        Flag("AllAtOnce"),
        Flag("Dispatched"),
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
        Texts("Datacenters", "Datacenters"),
        Set("Constraint", "Constraints", &CONSTRAINT),
        Set("Affinity", "Affinities", &AFFINITY),
        One("Periodic", "Periodic", &PERIODIC),
        One("ParameterizedJob", "ParameterizedJob", &PARAMETERIZED),
        FreeForm("Multiregion", "Multiregion"),
        One("UI", "UI", &UI),
    ],
};

pub(super) const GROUP: Shape = Shape {
    fields: &[
        Number("Count"),
        Optional("MaxClientDisconnect"),
        Optional("MaxRunDuration"),
        Flag("PreventRescheduleOnLost"),
        Optional("ShutdownDelay"),
        Optional("StopAfterClientDisconnect"),
        Map("Meta"),
    ],
    blocks: &[
        Set("Constraint", "Constraints", &CONSTRAINT),
        Set("Affinity", "Affinities", &AFFINITY),
        One("RestartPolicy", "RestartPolicy", &RESTART),
        One("Disconnect", "Disconnect", &DISCONNECT),
        One("Migrate", "Migrate", &MIGRATE),
        One("ReschedulePolicy", "ReschedulePolicy", &RESCHEDULE),
        One("EphemeralDisk", "EphemeralDisk", &DISK),
        One("Update", "Update", &UPDATE),
        Set("Network", "Networks", &NETWORK),
        Services("Service", "Services", &SERVICE),
        Named("Volume", "Volumes", "Name", &VOLUME),
        One("Consul", "Consul", &CONSUL),
        Changes("Scaling", "Scaling", &SCALING),
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
        FreeForm("Config", "Config"),
        One("Resources", "Resources", &RESOURCES),
        FreeForm("DispatchPayload", "DispatchPayload"),
        One("LogConfig", "LogConfig", &LOGS),
        Paired("Artifact", "Artifacts", "RelativeDest", &ARTIFACT),
        Paired("VolumeMount", "VolumeMounts", "Volume", &MOUNT),
        Services("Service", "Services", &SERVICE),
        FreeForm("Vault", "Vault"),
        One("Consul", "Consul", &CONSUL),
        Paired("Template", "Templates", "DestPath", &TEMPLATE),
        Named("Identity", "Identities", "Name", &IDENTITY),
        Named("Action", "Actions", "Name", &ACTION),
        FreeForm("CSIPluginConfig", "CSIPluginConfig"),
        FreeForm("Schedule", "Schedule"),
    ],
};

const CONSTRAINT: Shape = Shape { fields: &[Text("LTarget"), Text("Operand"), Text("RTarget")], blocks: &[] };
const AFFINITY: Shape =
    Shape { fields: &[Text("LTarget"), Text("Operand"), Text("RTarget"), Number("Weight")], blocks: &[] };
const UI: Shape = Shape { fields: &[Text("Description")], blocks: &[Set("Link", "Links", &LINK)] };
const LINK: Shape = Shape { fields: &[Text("Label"), Text("Url")], blocks: &[] };
const PERIODIC: Shape = Shape {
    fields: &[Flag("Enabled"), Flag("ProhibitOverlap"), Text("Spec"), Text("SpecType"), Text("TimeZone")],
    blocks: &[Texts("Specs", "Specs")],
};
const PARAMETERIZED: Shape = Shape {
    fields: &[Optional("MaxChildrenRunning"), Text("Payload")],
    blocks: &[Texts("MetaOptional", "MetaOptional"), Texts("MetaRequired", "MetaRequired")],
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
        FreeForm("CNIConfig", "CNI/Args"),
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
        Map("CanaryMeta"),
        Map("Meta"),
        Map("TaggedAddresses"),
    ],
    blocks: &[
        Texts("CanaryTags", "CanaryTags"),
        Texts("Tags", "Tags"),
        FreeForm("Weights", "Weights"),
        Named("Check", "Checks", "Name", &CHECK),
        FreeForm("ConsulConnect", "Connect"),
        FreeForm("Identity", "Identity"),
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
    blocks: &[Texts("Args", "Args"), FreeForm("Header", "Header"), FreeForm("CheckRestart", "CheckRestart")],
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
    blocks: &[One("MountOptions", "MountOptions", &MOUNT_OPTIONS)],
};
const MOUNT_OPTIONS: Shape =
    Shape { fields: &[Text("FSType")], blocks: &[Texts("MountFlags", "MountFlags")] };
const CONSUL: Shape = Shape { fields: &[Text("Cluster"), Text("Namespace"), Text("Partition")], blocks: &[] };
const SCALING: Shape = Shape {
    fields: &[Flag("Enabled"), Number("Max"), Number("Min")],
    blocks: &[FreeForm("Policy", "Policy")],
};
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
        FreeForm("NUMA", "NUMA"),
    ],
};
const DEVICE: Shape = Shape {
    fields: &[Number("Count"), Text("Name")],
    blocks: &[Set("Constraint", "Constraints", &CONSTRAINT), Set("Affinity", "Affinities", &AFFINITY)],
};
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
        Optional("Gid"),
        Text("LeftDelim"),
        Flag("Once"),
        Text("Perms"),
        Text("RightDelim"),
        Text("SourcePath"),
        Number("Splay"),
        Optional("Uid"),
        Number("VaultGrace"),
    ],
    blocks: &[FreeForm("Template", "Wait"), One("ChangeScript", "ChangeScript", &CHANGE_SCRIPT)],
};
const CHANGE_SCRIPT: Shape = Shape {
    fields: &[Text("Command"), Flag("FailOnError"), Flag("RunOnFirstRender"), Number("Timeout")],
    blocks: &[Texts("Args", "Args")],
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
    blocks: &[Texts("Audience", "Audience")],
};
const ACTION: Shape = Shape { fields: &[Text("Command"), Text("Name")], blocks: &[Texts("Args", "Args")] };
