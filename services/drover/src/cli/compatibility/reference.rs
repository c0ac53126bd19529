//! What the reference has (`docs/rules/cli.md`), and the columns of Drover's tables.

use model::features::Feature;

use self::Why::{Because, NotBuilt};

/// Why something is missing.
#[derive(Debug)]
pub(super) enum Why {
    /// It belongs to a feature that is not built.
    NotBuilt(Feature),
    /// Another reason.
    Because(&'static str),
}

/// The flags of the reference's commands, without those that all commands share.
pub(super) const FLAGS: &str = "\
agent-info: json t
alloc checks: verbose json t
alloc exec: i t e task job group
alloc fs: H stat f tail n c job group verbose
alloc logs: stdout stderr f tail n c task group job verbose
alloc restart: all-tasks task verbose
alloc signal: s task verbose
alloc status: short verbose stats json t ui
alloc stop: detach no-shutdown-delay verbose
deployment fail: detach verbose
deployment list: json t filter verbose
deployment pause: verbose
deployment promote: group detach verbose
deployment resume: detach verbose
deployment status: json t verbose monitor wait ui
eval delete: filter yes
eval list: verbose per-page page-token filter job status json t ui
eval status: monitor verbose json t ui
fmt: check list write recursive
job action: job alloc task group t i e
job allocs: all verbose json t
job deployments: all latest verbose json t
job dispatch: meta detach verbose wait idempotency-token id-prefix-template ui priority
job eval: force-reschedule detach verbose
job history: p full json version t diff-tag diff-version
job init: short connect template list-templates
job inspect: version json t hcl with-vars
job periodic force: detach verbose
job plan: diff policy-override verbose json-output t var var-file json hcl2-strict vault-namespace
job promote: group detach verbose
job restart: all-tasks batch-size batch-wait group task no-shutdown-delay on-error reschedule verbose yes
job revert: detach verbose
job run: check-index detach eval-priority output policy-override consul-namespace preserve-counts preserve-resources verbose ui
job scale: check-index detach verbose
job scaling-events: verbose
job start: detach verbose
job status: short evals all-allocs verbose json t ui
job stop: detach verbose global no-shutdown-delay yes purge eval-priority
job tag apply: name description version
job tag unset: name
job validate: var var-file json hcl2-strict vault-namespace
monitor: log-level log-include-location node-id server-id json
namespace apply: description quota json
namespace inspect: t
namespace list: json t
namespace status: json t
node drain: enable disable monitor deadline no-deadline force ignore-system keep-ineligible detach self m meta yes
node eligibility: enable disable self
node meta apply: node-id unset
node meta read: node-id json t
node pool apply: json
node pool info: json t
node pool init: out quiet
node pool jobs: verbose filter json t per-page page-token
node pool list: json t filter per-page page-token
node pool nodes: verbose filter json t per-page page-token
node status: self allocs stats os short verbose json t filter per-page page-token quiet ui
operator api: X H filter dryrun verbose
operator metrics: format json t pretty
operator root keyring list: verbose
operator scheduler get-config: json t
operator scheduler set-config: check-index scheduler-algorithm memory-oversubscription pause-eval-broker
scaling policy info: verbose json t
scaling policy list: verbose job type json t
server members: verbose json t ui detailed
service info: verbose json t filter per-page page-token
service list: json t
status: verbose ui
";

/// Flags that are missing: the command, or `*` for all, the flag, and why.
pub(super) const MISSING_FLAGS: &[(&str, &str, Why)] = &[
    ("*", "ui", NotBuilt(Feature::WebInterface)),
    ("deployment status", "wait", Because("changes are printed when they come, without an interval")),
    ("job init", "connect", NotBuilt(Feature::Connect)),
    ("job init", "list-templates", Because("there are no templates of job files in the cluster")),
    ("job init", "template", Because("there are no templates of job files in the cluster")),
    ("job stop", "global", NotBuilt(Feature::MultiregionJobs)),
    ("node pool jobs", "verbose", Because("its table has nothing that is shortened")),
];

/// The columns of the tables that commands print without further flags.
pub(super) const COLUMNS: &str = "\
alloc fs: Mode|Size|Modified Time|Name
cluster status: Service|State|Epoch|Host|PID|Version|Up|Behind|Health
deployment list: ID|Job ID|Job Version|Status|Description
deployment status: ID|Job ID|Job Version|Status|Description
eval list: ID|Priority|Triggered By|Job ID|Namespace|Node ID|Status|Placement Failures
job allocs: ID|Node ID|Task Group|Version|Desired|Status|Created|Modified
job deployments: ID|Job ID|Job Version|Status|Description
job scaling-events: Task Group|Count|PrevCount|Date
job status: ID|Type|Priority|Status|Submit Date
namespace list: Name|Description
node pool jobs: ID|Type|Priority|Status|Submit Date
node pool list: Name|Description
node pool nodes: ID|DC|Name|Class|Drain|Eligibility|Status
node status: ID|Node Pool|DC|Name|Class|Drain|Eligibility|Status
operator root keyring list: Key|State|Create Time|Publish Time
scaling policy list: ID|Enabled|Type|Target
server members: Name|Address|Port|Status|Leader|Raft Version|Build|Datacenter|Region
service info: Job ID|Address|Tags|Node ID|Alloc ID
service list: Service Name|Tags
";
