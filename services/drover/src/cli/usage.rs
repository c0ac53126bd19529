//! Messages and exit codes for invalid arguments (`docs/rules/cli.md` §3): help if a command is missing or unknown, and *not built
//! yet* if Nomad has the command and Drover does not. [`super::mistakes`] has the texts about other mistakes.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::{health, job, mistakes};
use crate::args::Cli;
use crate::operator::postgres;

/// The exit code for unknown commands.
const EXIT_UNKNOWN_COMMAND: u8 = 127;

/// The commands of `docs/rules/cli.md` §15 that are missing here, one group per line, with their aliases at the end.
const DOCUMENTED: &str = "
acl auth-method create|delete|info|list|update
acl binding-rule create|delete|info|list|update
acl bootstrap
acl policy apply|delete|info|list|self
acl role create|delete|info|list|update
acl token create|update|delete|info|list|self
alloc exec|pause|checks
check
deployment pause|promote|resume|unblock
eval delete
job action|deployments|dispatch
job periodic force
job promote|revert|scale|scaling-events|start
job tag apply|unset
license get
login
monitor export
namespace apply|delete|inspect|list|status
node config|drain
node identity get|renew
node intro create
node meta apply|read
node pool apply|delete|info|init|jobs|list|nodes
operator client-state|debug|utilization
operator autopilot get-config|set-config|health
operator gossip keyring install|use|list|remove|generate
operator raft list-peers|remove-peer|transfer-leadership|info|logs|state|migrate-backend
operator root keyring remove|rotate
operator snapshot save|inspect|state|restore|redact
plugin status
quota apply|delete|init|inspect|list|status
recommendation apply|dismiss|info|list
scaling policy info|list
sentinel list|apply|delete|read
server force-leave|join
service list|info|delete
setup consul|vault
system reconcile summaries
tls ca create|info
tls cert create|info
ui
var purge|init|list|put|lock|get
volume init|status|register|deregister|detach|create|delete
volume snapshot create|delete|list
volume claim list|delete
windows service install|uninstall
action|exec|start
node-drain|server-join|server-force-leave|client-config|debug
";

/// Prints the error in the arguments, or the help or version if that was requested.
pub(crate) fn explain(mut error: clap::Error, arguments: &[OsString]) -> ExitCode {
    let kind = error.kind();
    if kind == ErrorKind::DisplayVersion {
        return super::version();
    }
    let words = words(arguments);
    let is_unknown = kind == ErrorKind::InvalidSubcommand;
    // A failure to write the message is ignored.
    if let Some(command) = documented(&words).filter(|_| is_unknown) {
        let _ = writeln!(std::io::stderr(), "not built yet: {command}");
        return ExitCode::FAILURE;
    }
    let mut tree = Cli::command();
    tree.build();
    let command = mistakes::named(&mut tree, &words);
    if let Some(text) = mistakes::text(&error, command) {
        let _ = writeln!(std::io::stderr(), "{text}");
    } else {
        mistakes::simplify_usage(&mut error, command);
        let _ = error.print();
    }
    if is_unknown {
        let _ = writeln!(std::io::stderr(), "\n{}", Cli::command().render_help());
    }
    let is_bare = kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && words.is_empty();
    if is_unknown || is_bare {
        ExitCode::from(EXIT_UNKNOWN_COMMAND)
    } else if kind == ErrorKind::DisplayHelp {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit_invalid(&words))
    }
}

/// The exit code of a command for invalid arguments. It is not 1 where 1 says something about what the command found.
fn exit_invalid(words: &[&str]) -> u8 {
    match words {
        ["health", ..] => health::EXIT_USAGE,
        ["job", "plan", ..] | ["plan", ..] => job::plan::EXIT_ERROR,
        ["operator", "postgres", "check", ..] => postgres::EXIT_UNKNOWN,
        _ => 1,
    }
}

/// The words between the program's name and the first flag.
fn words(arguments: &[OsString]) -> Vec<&str> {
    let words = arguments.iter().skip(1).map_while(|argument| argument.to_str());
    words.take_while(|word| !word.starts_with('-')).collect()
}

/// The command or group of commands at the start of these words, if it is documented.
fn documented(words: &[&str]) -> Option<String> {
    let whole = DOCUMENTED.lines().filter_map(|line| {
        let depth = matching(line, words);
        let is_command = depth == line.split_whitespace().count();
        (depth > 0 && (is_command || depth == words.len())).then_some(depth)
    });
    whole.max().map(|depth| words[..depth].join(" "))
}

/// How many words match a line of the list, from the start.
fn matching(line: &str, words: &[&str]) -> usize {
    let same = |(part, word): &(&str, &&str)| part.split('|').any(|name| name == **word);
    line.split_whitespace().zip(words).take_while(same).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Option<String> {
        documented(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn documented_commands_are_known_by_their_words() {
        assert_eq!(found("job scale a 3").as_deref(), Some("job scale"));
        assert_eq!(found("job periodic force x").as_deref(), Some("job periodic force"));
        assert_eq!(found("acl").as_deref(), Some("acl"));
        assert_eq!(found("acl token").as_deref(), Some("acl token"));
        assert_eq!(found("action x").as_deref(), Some("action"));
        assert_eq!(found("job frobnicate"), None);
        assert_eq!(found("acl token frobnicate"), None);
        assert_eq!(found("frobnicate"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn invalid_arguments_are_not_taken_for_findings() {
        assert_eq!(exit_invalid(&["job", "plan"]), 255);
        assert_eq!(exit_invalid(&["plan", "web.nomad.hcl"]), 255);
        assert_eq!(exit_invalid(&["health"]), 2);
        assert_eq!(exit_invalid(&["operator", "postgres", "check"]), 2);
        assert_eq!(exit_invalid(&["job", "run"]), 1);
    }

    #[test]
    fn what_is_built_is_not_in_the_list() {
        for line in DOCUMENTED.lines().filter(|line| !line.is_empty()) {
            let (group, names) = line.rsplit_once(' ').unwrap_or(("", line));
            for name in names.split('|') {
                let mut command = Cli::command();
                let path: Vec<&str> = group.split_whitespace().chain([name]).collect();
                let built = path.iter().all(|word| match command.find_subcommand(word).cloned() {
                    Some(found) => {
                        command = found;
                        true
                    }
                    None => false,
                });
                assert!(!built, "{group} {name}");
            }
        }
    }
}
