//! The `drover` binary: the services, alone or several in one process, and the command line.

mod address;
mod agent_command;
mod allocator;
mod args;
mod cli;
mod cluster;
mod command;
mod configuration;
mod dev;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod health;
mod log;
mod notify;
mod operator;
mod process;
mod services;
mod sim_nodes;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};

pub use crate::allocator::Allocator;
use crate::args::{Cli, Command};
use crate::cli::{completion, man};
use crate::command::Run as _;
use crate::health::Parts;

/// Runs the command that the process's arguments name.
pub fn main() -> ExitCode {
    allocator::delay_purges();
    // Each start of a task starts such processes, so they do not make the tree of all commands.
    if let Some(args) = executor_args(std::env::args_os()) {
        return agent::executor::main(&args);
    }
    let mut tree = Cli::command();
    let arguments = cli::flags::normalised(&tree, std::env::args_os());
    let parsed = tree.try_get_matches_from_mut(&arguments).and_then(|matches| {
        let agent = tree.find_subcommand("agent").zip(matches.subcommand_matches("agent"));
        if let Some(Err(text)) = agent.map(|(command, matches)| agent_command::check(command, matches)) {
            return Err(tree.error(ErrorKind::ArgumentConflict, text));
        }
        Cli::from_arg_matches(&matches)
    });
    match parsed {
        Ok(cli) => run(cli.command),
        Err(error) => cli::usage::explain(error, &arguments),
    }
}

/// The arguments of an executor, in the form in which an agent gives them: `drover executor DIR`.
fn executor_args(arguments: impl IntoIterator<Item = OsString>) -> Option<agent::executor::Args> {
    let mut arguments = arguments.into_iter().skip(1);
    let (command, dir) = (arguments.next()?, PathBuf::from(arguments.next()?));
    let is_plain = command == "executor" && dir.is_absolute() && arguments.next().is_none();
    is_plain.then_some(agent::executor::Args { dir })
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::User(command) => command.run(),
        Command::Operator(command) => command.run(),
        Command::Completion(args) => completion::run(&args, &mut Cli::command()),
        Command::Man(args) => man::run(&args, Cli::command()),
        Command::Version => cli::version(),

        Command::Api(args) => {
            process::run(args.infra.process("api", Parts::API), |process| services::api(process, args))
        }
        Command::EvalBroker(args) => {
            process::run(args.infra.process("eval-broker", Parts::EVAL_BROKER), |process| {
                services::eval_broker(process, args)
            })
        }
        Command::Scheduler(args) => {
            process::run(args.infra.process("scheduler", Parts::SCHEDULER), |process| {
                services::scheduler(process, args)
            })
        }
        Command::PlanApplier(args) => {
            process::run_on_all_cores(args.infra.process("plan-applier", Parts::PLAN_APPLIER), |process| {
                services::plan_applier(process, args)
            })
        }
        Command::NodeTracker(args) => {
            process::run(args.infra.process("node-tracker", Parts::NODE_TRACKER), |process| {
                services::node_tracker(process, args)
            })
        }
        Command::DeploymentWatcher(args) => {
            process::run(args.infra.process("deployment-watcher", Parts::DEPLOYMENT_WATCHER), |process| {
                services::deployment_watcher(process, args)
            })
        }
        Command::Agent(args) => agent_command::main(*args),
        Command::Dev(args) => process::run_on_all_cores(args.process(), |process| dev::run(process, args)),
        Command::Executor(args) => agent::executor::main(&args),
        Command::SimNodes(args) => process::run(args.process(), |process| sim_nodes::run(process, args)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executors_are_recognised_before_all_other_commands() {
        let dir = |line: &str| {
            executor_args(line.split_whitespace().map(OsString::from))
                .map(|args| args.dir.display().to_string())
        };
        assert_eq!(dir("drover executor /a/b").as_deref(), Some("/a/b"));
        for other in
            ["drover", "drover executor", "drover executor -h", "drover executor /a b", "drover agent /a"]
        {
            assert_eq!(dir(other), None, "{other}");
        }
    }

    #[test]
    fn arguments_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_are_taken_as_people_write_them() {
        for line in [
            "drover plan-applier -database-url postgres://host/db -nats-url nats://one,nats://two",
            "drover api --database-url postgres://host/db -http-addr 127.0.0.1:0",
            "drover agent -agent-data-dir /tmp/agent -raw-exec",
            "drover agent -config a.hcl -config=conf.d -log-level debug",
            "drover agent -dev",
            "drover job run -detach -check-index=4 -var count=2 -hcl2-strict=false a.nomad.hcl",
            "drover job plan -verbose -diff=false -var-file=a.hcl a.nomad.hcl",
            "drover job validate -json-output https://example.org/a.nomad.hcl",
            "drover job init -short",
            "drover validate -",
            "drover fmt -check -recursive -write=false a b",
            "drover alloc logs -f -stderr 1a2b",
            "drover alloc-status -json=true 1a2b",
            "drover node-status",
            "drover eval-status 1a2b",
            "drover deployment list -json",
            "drover deployment status -monitor 1a2b",
            "drover deployment fail -detach 1a2b",
            "drover deployment promote -group a -group=b -detach 1a2b",
            "drover deployment resume -verbose 1a2b",
            "drover job deployments -latest -json web",
            "drover job promote -group a web",
            "drover job revert -detach web golden",
            "drover job tag apply -name golden -description good -version 3 web",
            "drover job tag unset -name=golden web",
            "drover node eligibility -disable 1a2b",
            "drover node eligibility -enable -self",
            "drover node drain -enable -deadline=30m -ignore-system -m moving -meta by=me -yes 1a2b",
            "drover node drain -disable -keep-ineligible -self",
            "drover node-drain -monitor 1a2b",
            "drover system gc",
            "drover job history -p -diff-version 2 -version=3 web",
            "drover job inspect -version 3 web",
            "drover job inspect -hcl -with-vars web",
            "drover job status -t {{.ID}} web",
            "drover inspect -json web",
            "drover job restart -batch-size=20% -batch-wait 10s -on-error=fail -task a -task b web",
            "drover eval list -per-page 3 -page-token=12.1a -filter x -json",
            "drover alloc fs -stat -H 1a2b alloc/logs",
            "drover fs -f -n 5 -job -group web example alloc/a.txt",
            "drover logs -job -c 100 example task",
            "drover status -short -verbose 1a2b",
            "drover agent-info -json",
            "drover alloc logs -verbose 1a2b",
            "drover alloc status -json",
            "drover monitor -log-level debug -json -node-id 1a2b",
            "drover server members -detailed",
            "drover cluster status -json",
            "drover server-members",
            "drover service info -per-page 3 -filter x -json web",
            "drover service delete web _nomad-task-1",
            "drover operator scheduler get-config -json",
            "drover operator scheduler set-config -preempt-batch-scheduler -pause-eval-broker=0 -check-index 3",
            "drover operator api -X PUT -d {} -H a:b -dryrun /v1/jobs",
            "drover operator metrics -format prometheus",
            "drover operator root keyring list -verbose",
            "drover health -live -addr 0.0.0.0:4650 -json",
            "drover scheduler -database-url postgres://host/db -health-addr [::]:4650",
            "drover completion bash",
            "drover man -dir man",
            "drover config validate -json a.hcl conf.d",
            "drover operator postgres grants -database other -secrets-dir /run/secrets",
            "drover operator postgres check -json -database-url postgres://host/db",
            "drover operator init -dir a -nats-host b -nats-host c -owner 1:2 -postgres-owner 999:999 -json",
            "drover operator tls init -dir a -postgres-host b",
            "drover operator tls renew -dir a -force -postgres-host b",
            "drover dev -ephemeral",
        ] {
            let arguments = cli::flags::normalised(&Cli::command(), line.split(' ').map(Into::into));
            let parsed = Cli::command().try_get_matches_from(arguments);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    /// The heading in the help of a command above one of its flags.
    fn heading(command: &str, flag: &str) -> Option<String> {
        let words = command.split(' ');
        let command = words.fold(Cli::command(), |tree, name| tree.find_subcommand(name).cloned().unwrap());
        let flag = command.get_arguments().find(|argument| argument.get_id().as_str() == flag).unwrap();
        flag.get_help_heading().map(str::to_owned)
    }

    #[test]
    fn flags_stand_under_the_heading_that_they_belong_to() {
        for (command, flag, expected) in [
            ("job run", "file", None),
            ("job run", "detach", None),
            ("job run", "address", Some("API")),
            ("node status", "per_page", None),
            ("fmt", "check", None),
            ("operator api", "path", None),
            ("api", "database_url", Some("Database")),
            ("dev", "data_dir", None),
            ("agent", "config", None),
            ("sim-nodes", "count", None),
        ] {
            assert_eq!(heading(command, flag).as_deref(), expected, "{command}: {flag}");
        }
    }

    #[test]
    fn each_command_has_help_of_its_own() {
        fn check(command: &clap::Command) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && about.len() <= 120, "{}: {about}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
        let tree = Cli::command();
        let about = |tree: &clap::Command, name: &str| {
            tree.find_subcommand(name).unwrap().get_about().unwrap().to_string()
        };
        assert_eq!(about(tree.find_subcommand("job").unwrap(), "allocs"), "Lists the allocations of a job");
        assert_eq!(about(&tree, "plan"), "The same as `job plan`");
    }

    #[test]
    fn settings_that_a_configuration_brings_are_not_flags_as_well() {
        let refusal = |line: &str| {
            let tree = Cli::command();
            let matches = tree.clone().try_get_matches_from(line.split(' ')).unwrap();
            let agent = tree.find_subcommand("agent").unwrap();
            agent_command::check(agent, matches.subcommand_matches("agent").unwrap()).err()
        };
        assert_eq!(refusal("drover agent --config a.hcl --log-level debug"), None);
        assert_eq!(refusal("drover agent --node-class a"), None);
        let expected = "-node-class cannot be combined with -config".to_owned();
        assert_eq!(refusal("drover agent --config a.hcl --node-class a"), Some(expected));
    }
}
