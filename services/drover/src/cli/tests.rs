//! No flag is ignored: each flag of each command has an effect beside all others, or the command line is refused.

use clap::{Arg, Command, CommandFactory as _};

use super::mistakes::{needs, spelled};
use crate::args::Cli;

/// Commands that are not for users, and commands without flags of this folder.
const OTHERS: [&str; 16] = [
    "agent",
    "api",
    "completion",
    "deployment-watcher",
    "dev",
    "eval-broker",
    "node-tracker",
    "operator accept-database",
    "operator init",
    "operator nats",
    "operator postgres",
    "operator tls",
    "plan-applier",
    "scheduler",
    "sim-nodes",
    "version",
];

/// The flags of all commands, with the flags and arguments that they cannot be used with, and those that they need. A flag
/// has an effect beside all others. Whole ids and exact times, for which `-verbose` asks, are in JSON as well.
const FLAGS: &str = "\
agent-info
  -json: not with -t
  -t: not with -json
alloc checks
  -json: not with -t
  -t: not with -json
  -verbose
alloc exec
  -e
  -group: only with -job
  -i
  -job
  -t
  -task
alloc fs
  -H
  -c: not with -n -stat
  -f: not with -stat
  -group: only with -job
  -job
  -n: not with -c -stat
  -stat: not with -c -f -n -tail
  -tail: not with -stat
  -verbose
alloc gc
  -verbose
alloc logs
  -c: not with -n
  -f
  -group: only with -job
  -job
  -n: not with -c
  -stderr: not with -stdout
  -stdout: not with -stderr
  -tail
  -task: not with <TASK>
  -verbose
alloc restart
  -all-tasks: not with -task <TASK>
  -task: not with -all-tasks <TASK>
  -verbose
alloc signal
  -s
  -task: not with <TASK>
  -verbose
alloc status
  -json: not with -short -stats -t
  -short: not with -json -stats -t
  -stats: not with -json -short -t
  -t: not with -json -short -stats
  -verbose
alloc stop
  -detach
  -no-shutdown-delay
  -verbose
cluster status
  -json: not with -t
  -t: not with -json
  -verbose
config validate
  -json
deployment fail
  -detach
  -verbose
deployment list
  -filter
  -json: not with -t
  -t: not with -json
  -verbose
deployment pause
  -verbose
deployment promote
  -detach
  -group
  -verbose
deployment resume
  -detach
  -verbose
deployment status
  -json: not with -monitor -t
  -monitor: not with -json -t, only with <DEPLOYMENT>
  -t: not with -json -monitor
  -verbose
eval delete
  -filter: not with <EVAL>
  -yes: only with -filter
eval list
  -filter: not with -job -status
  -job: not with -filter
  -json: not with -t
  -page-token
  -per-page
  -status: not with -filter
  -t: not with -json
  -verbose
eval status
  -json: not with -monitor -t
  -monitor: not with -json -t
  -t: not with -json -monitor
  -verbose
fmt
  -check
  -force-color: not with -no-color
  -list
  -no-color: not with -force-color
  -recursive
  -write
health
  -addr
  -json
  -live
  -ready
job action
  -alloc: not with -group
  -e
  -group: not with -alloc
  -i
  -job
  -t
  -task
job allocs
  -all
  -json: not with -t
  -t: not with -json
  -verbose
job deployments
  -all: not with -latest
  -json: not with -t
  -latest: not with -all
  -t: not with -json
  -verbose
job dispatch
  -detach
  -id-prefix-template
  -idempotency-token
  -meta
  -priority
  -verbose
  -wait
job eval
  -detach
  -force-reschedule
  -verbose
job history
  -diff-tag: not with -diff-version, only with -p
  -diff-version: not with -diff-tag, only with -p
  -full: not with -json -t
  -json: not with -full -p -t
  -p: not with -json -t
  -t: not with -full -json -p
  -version
job init
  -force-color: not with -no-color
  -no-color: not with -force-color
  -short
job inspect
  -hcl: not with -json -t
  -json: not with -hcl -t
  -t: not with -hcl -json
  -version
  -with-vars: only with -hcl
job periodic force
  -detach
  -verbose
job periodic next
  -consul-namespace
  -hcl2-strict: not with -json
  -json: not with -hcl2-strict -var -var-file
  -n
  -var: not with -json
  -var-file: not with -json
  -vault-namespace
job plan
  -consul-namespace
  -diff
  -hcl2-strict: not with -json
  -json: not with -hcl2-strict -var -var-file
  -json-output: not with -t -verbose
  -policy-override
  -t: not with -json-output -verbose
  -var: not with -json
  -var-file: not with -json
  -vault-namespace
  -verbose: not with -json-output -t
job promote
  -detach
  -group
  -verbose
job restart
  -all-tasks: not with -reschedule -task
  -batch-size
  -batch-wait
  -group
  -no-shutdown-delay: only with -reschedule
  -on-error
  -reschedule: not with -all-tasks -task
  -task: not with -all-tasks -reschedule
  -verbose
  -yes
job revert
  -detach
  -verbose
job run
  -check-index: not with -output
  -consul-namespace
  -detach: not with -output
  -eval-priority: not with -output
  -hcl2-strict: not with -json
  -json: not with -hcl2-strict -var -var-file
  -output: not with -check-index -detach -eval-priority -policy-override -preserve-counts -preserve-resources
  -policy-override: not with -output
  -preserve-counts: not with -output
  -preserve-resources: not with -output
  -var: not with -json
  -var-file: not with -json
  -vault-namespace
  -verbose
job scale
  -check-index
  -detach
  -verbose
job scaling-events
  -verbose
job start
  -detach
  -verbose
job status
  -all-allocs: not with -json -short -t, only with <JOB>
  -evals: not with -json -short -t, only with <JOB>
  -json: not with -all-allocs -evals -short -t
  -short: not with -all-allocs -evals -json -t, only with <JOB>
  -t: not with -all-allocs -evals -json -short
  -verbose
job stop
  -detach
  -eval-priority
  -global
  -no-shutdown-delay
  -purge
  -verbose
  -yes
job tag apply
  -description
  -name
  -version
job tag unset
  -name
job validate
  -consul-namespace
  -hcl2-strict: not with -json
  -json: not with -hcl2-strict -var -var-file
  -json-output
  -var: not with -json
  -var-file: not with -json
  -vault-namespace
monitor
  -json
  -log-include-location
  -log-level
  -node-id: not with -server-id
  -server-id: not with -node-id
namespace apply
  -description
  -json
  -quota
namespace delete
namespace inspect
  -t
namespace list
  -json: not with -t
  -t: not with -json
namespace status
  -json: not with -t
  -t: not with -json
node drain
  -deadline: not with -monitor
  -detach: not with -monitor
  -disable
  -enable: not with -keep-ineligible
  -force: not with -monitor
  -ignore-system: not with -monitor
  -keep-ineligible: not with -enable -monitor
  -m: not with -monitor
  -meta: not with -monitor
  -monitor: not with -deadline -detach -force -ignore-system -keep-ineligible -m -meta -no-deadline -yes
  -no-deadline: not with -monitor
  -self
  -yes: not with -monitor
node eligibility
  -disable
  -enable
  -self: not with <NODE>
node gc
node meta apply
  -node-id
  -unset
node meta read
  -json: not with -t
  -node-id
  -t: not with -json
node pool apply
  -json
node pool delete
node pool info
  -json: not with -t
  -t: not with -json
node pool init
  -force-color: not with -no-color
  -no-color: not with -force-color
  -out
  -quiet
node pool jobs
  -filter
  -json: not with -t
  -page-token
  -per-page
  -t: not with -json
node pool list
  -filter
  -json: not with -t
  -page-token
  -per-page
  -t: not with -json
node pool nodes
  -filter
  -json: not with -t
  -page-token
  -per-page
  -t: not with -json
  -verbose
node status
  -allocs: not with -json -quiet -self -t <NODE>
  -filter: not with -self <NODE>
  -json: not with -allocs -quiet -short -stats -t
  -os: not with -quiet -self <NODE>
  -page-token: not with -self <NODE>
  -per-page: not with -self <NODE>
  -quiet: not with -allocs -json -os -self -t -verbose <NODE>
  -self: not with -allocs -filter -os -page-token -per-page -quiet <NODE>
  -short: not with -json -stats -t
  -stats: not with -json -short -t
  -t: not with -allocs -json -quiet -short -stats
  -verbose: not with -quiet
operator api
  -H
  -X
  -d
  -dryrun: not with -verbose
  -filter
  -verbose: not with -dryrun
operator metrics
  -format: not with -json -pretty -t
  -json: not with -format -t
  -pretty: not with -format -t
  -t: not with -format -json -pretty
operator root keyring list
  -json: not with -t
  -t: not with -json
  -verbose
operator scheduler get-config
  -json: not with -t
  -t: not with -json
operator scheduler set-config
  -check-index
  -memory-oversubscription
  -node-limit-for-feasibility-checks
  -pause-eval-broker
  -preempt-batch-scheduler
  -preempt-service-scheduler
  -preempt-sysbatch-scheduler
  -preempt-system-scheduler
  -reject-job-registration
  -scheduler-algorithm
scaling policy info
  -json: not with -t
  -t: not with -json
  -verbose
scaling policy list
  -job
  -json: not with -t
  -t: not with -json
  -type
  -verbose
server members
  -detailed
  -json: not with -t
  -t: not with -json
  -verbose
service delete
service info
  -filter
  -json: not with -t
  -page-token
  -per-page
  -t: not with -json
  -verbose
service list
  -json: not with -t
  -t: not with -json
status
  -all-allocs: not with -json -short -t, only with <ID>
  -evals: not with -json -short -t, only with <ID>
  -json: not with -all-allocs -evals -short -t
  -short: not with -all-allocs -evals -json -t, only with <ID>
  -t: not with -all-allocs -evals -json -short
  -verbose
system gc
system reconcile summaries
volume claim delete
  -y
volume claim list
  -group
  -job
  -json: not with -t
  -t: not with -json
  -verbose
  -volume-name
volume create
  -detach
  -id
  -policy-override
  -verbose
volume delete
  -force
  -type
volume init
  -force-color: not with -no-color
  -json
  -no-color: not with -force-color
  -type
volume register
  -id
  -policy-override
volume status
  -json: not with -short -t
  -node
  -node-pool
  -short: not with -json -t, only with <VOLUME>
  -t: not with -json -short
  -type
  -verbose
";

/// Visible commands that contain no other commands, with their names.
fn leaves<'c>(group: &'c Command, before: &str, found: &mut Vec<(String, &'c Command)>) {
    for command in group.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("{before}{}", command.get_name());
        if OTHERS.contains(&name.as_str()) || command.get_name() == "help" {
            continue;
        }
        if command.has_subcommands() {
            leaves(command, &format!("{name} "), found);
        } else {
            found.push((name, command));
        }
    }
}

/// Whether two flags or arguments cannot be used with each other. Either may declare it.
fn conflict(command: &Command, one: &Arg, other: &Arg) -> bool {
    let declares = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|found| found.get_id() == other.get_id())
    };
    declares(one, other) || declares(other, one)
}

/// The command's own flags, a line each. Flags that commands share stand under a heading.
fn lines(command: &Command) -> Vec<String> {
    let arguments = || command.get_arguments().filter(|argument| argument.get_help_heading().is_none());
    let is_other = |one: &Arg, other: &Arg| one.get_id() != other.get_id();
    let named = |mut names: Vec<String>| {
        // Flags come before arguments.
        names.sort_by_key(|name| (name.starts_with('<'), name.clone()));
        names.join(" ")
    };
    let line = |flag: &Arg| {
        let others = || arguments().filter(|other| is_other(flag, other));
        let excluded = others().filter(|other| conflict(command, flag, other));
        let needed = others().filter(|other| !other.is_required_set() && needs(command, flag, other));
        let [excluded, needed] = [
            ("not with", excluded.map(|other| spelled(&other.to_string())).collect::<Vec<_>>()),
            ("only with", needed.map(|other| spelled(&other.to_string())).collect()),
        ]
        .map(|(title, names)| Some((title, named(names))).filter(|(_, names)| !names.is_empty()));
        let notes = [excluded, needed].into_iter().flatten().map(|(title, names)| format!("{title} {names}"));
        let notes = notes.collect::<Vec<_>>().join(", ");
        let separator = if notes.is_empty() { "" } else { ": " };
        format!("{}{separator}{notes}", spelled(&flag.to_string()))
    };
    let is_flag = |argument: &&Arg| !argument.is_positional() && argument.get_id() != "help";
    let mut lines: Vec<String> = arguments().filter(is_flag).map(line).collect();
    lines.sort_by_key(|line| line.split(':').next().map(str::to_owned));
    lines
}

#[test]
fn every_flag_has_an_effect_or_is_refused() {
    let mut tree = Cli::command();
    tree.build();
    let mut found = Vec::new();
    leaves(&tree, "", &mut found);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let mut text = String::new();
    for (name, command) in found {
        text.push_str(&format!("{name}\n"));
        lines(command).iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    let expected: Vec<&str> = FLAGS.lines().collect();
    let differing = text.lines().zip(&expected).find(|(found, expected)| found != *expected);
    assert!(text == FLAGS, "decide what the flag does in each mode of its command: {differing:?}\n{text}");
}
