//! Messages and exit codes for invalid arguments (`docs/rules/cli.md` 1.1, §3): help if a command is missing or unknown, and
//! *not built yet* if Nomad has the command and Drover does not. [`super::mistakes`] has the texts about other mistakes.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use model::features::Feature;

use super::{health, help, job, mistakes};
use crate::args::Cli;
use crate::operator::postgres;

/// The exit code if there is no command, or an unknown one. In a group of commands it is that for invalid arguments.
const EXIT_UNKNOWN_COMMAND: u8 = 127;

/// The commands of `docs/rules/cli.md` §15 that are missing here, one group per line, with the feature that they need. Aliases
/// are at the end.
pub(super) const NOT_BUILT: &[(&str, Feature)] = &[
    ("acl auth-method create|delete|info|list|update", Feature::Acls),
    ("acl binding-rule create|delete|info|list|update", Feature::Acls),
    ("acl bootstrap", Feature::Acls),
    ("acl policy apply|delete|info|list|self", Feature::Acls),
    ("acl role create|delete|info|list|update", Feature::Acls),
    ("acl token create|update|delete|info|list|self", Feature::Acls),
    ("alloc pause", Feature::TaskSchedules),
    ("check", Feature::SomeCommands),
    ("license get", Feature::Enterprise),
    ("login", Feature::Acls),
    ("monitor export", Feature::JournalExport),
    ("node config", Feature::SomeCommands),
    ("node identity get|renew", Feature::NodeIdentities),
    ("node intro create", Feature::NodeIdentities),
    ("operator autopilot get-config|set-config|health", Feature::RaftCommands),
    ("operator client-state", Feature::SomeCommands),
    ("operator debug", Feature::Debugging),
    ("operator gossip keyring install|use|list|remove|generate", Feature::GossipCommands),
    (
        "operator raft list-peers|remove-peer|transfer-leadership|info|logs|state|migrate-backend",
        Feature::RaftCommands,
    ),
    ("operator root keyring remove|rotate", Feature::KeyRotation),
    ("operator snapshot save|inspect|state|restore|redact", Feature::Snapshots),
    ("operator utilization", Feature::Enterprise),
    ("plugin status", Feature::CsiPlugins),
    ("quota apply|delete|init|inspect|list|status", Feature::Enterprise),
    ("recommendation apply|dismiss|info|list", Feature::Enterprise),
    ("sentinel list|apply|delete|read", Feature::Enterprise),
    ("server force-leave|join", Feature::GossipCommands),
    ("setup consul", Feature::Consul),
    ("setup vault", Feature::Vault),
    ("tls ca create|info", Feature::CertificateCommands),
    ("tls cert create|info", Feature::CertificateCommands),
    ("ui", Feature::WebInterface),
    ("var purge|init|list|put|lock|get", Feature::Variables),
    ("volume deregister|detach", Feature::CsiPlugins),
    ("volume snapshot create|delete|list", Feature::CsiPlugins),
    ("windows service install|uninstall", Feature::WindowsServices),
    ("client-config", Feature::SomeCommands),
    ("server-join|server-force-leave", Feature::GossipCommands),
    ("debug", Feature::Debugging),
];

/// Prints the error in the arguments, or the help or version if that was requested.
pub(crate) fn explain(mut error: clap::Error, arguments: &[OsString]) -> ExitCode {
    let kind = error.kind();
    if kind == ErrorKind::DisplayVersion {
        return super::version();
    }
    let words = words(arguments);
    let is_unknown = kind == ErrorKind::InvalidSubcommand;
    // A failure to write the message is ignored.
    if let Some((command, feature)) = not_built(&words).filter(|_| is_unknown) {
        let _ = writeln!(std::io::stderr(), "{}", feature.finding_of(command));
        return ExitCode::FAILURE;
    }
    if is_unknown || kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let (help, exit) = help_of_group(&words);
        if is_unknown {
            let _ = writeln!(std::io::stderr(), "{}\n", without_usage(&error.to_string()));
        }
        let _ = write!(std::io::stdout(), "{help}");
        return ExitCode::from(exit);
    }
    let mut tree = Cli::command();
    tree.build();
    if kind == ErrorKind::DisplayHelp && words.is_empty() {
        let _ = write!(std::io::stdout(), "{}", help::text(&tree));
        return ExitCode::SUCCESS;
    }
    let command = mistakes::named(&mut tree, &words);
    if let Some(text) = mistakes::text(&error, command, arguments) {
        let _ = writeln!(std::io::stderr(), "{text}");
    } else {
        mistakes::simplify_usage(&mut error, command);
        let _ = error.print();
    }
    if kind == ErrorKind::DisplayHelp { ExitCode::SUCCESS } else { ExitCode::from(exit_invalid(&words)) }
}

/// The help of the group of commands that these words name, and the exit code if none of its commands is named.
fn help_of_group(words: &[&str]) -> (String, u8) {
    let mut tree = Cli::command();
    tree.build();
    let is_group = words.first().is_some_and(|word| tree.find_subcommand(word).is_some());
    let help = match is_group {
        true => mistakes::named(&mut tree, words).render_help().to_string(),
        false => help::text(&tree),
    };
    (help, if is_group { exit_invalid(words) } else { EXIT_UNKNOWN_COMMAND })
}

/// The parser's text about an error, without the usage at its end.
fn without_usage(text: &str) -> &str {
    text.split("\n\nUsage:").next().unwrap_or(text).trim_end()
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

/// The command or group of commands at the start of these words, if it is not built, and the feature that it needs.
fn not_built(words: &[&str]) -> Option<(String, Feature)> {
    let whole = NOT_BUILT.iter().filter_map(|(line, feature)| {
        let depth = matching(line, words);
        let is_command = depth == line.split_whitespace().count();
        (depth > 0 && (is_command || depth == words.len())).then_some((depth, *feature))
    });
    let (depth, feature) = whole.max_by_key(|(depth, _)| *depth)?;
    Some((words[..depth].join(" "), feature))
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
        not_built(&line.split_whitespace().collect::<Vec<_>>()).map(|(command, _)| command)
    }

    #[test]
    fn commands_that_are_not_built_are_known_by_their_words() {
        assert_eq!(found("operator raft info x").as_deref(), Some("operator raft info"));
        assert_eq!(found("job periodic force x"), None);
        assert_eq!(found("acl").as_deref(), Some("acl"));
        assert_eq!(found("acl token").as_deref(), Some("acl token"));
        assert_eq!(found("login x").as_deref(), Some("login"));
        assert_eq!(found("job frobnicate"), None);
        assert_eq!(found("acl token frobnicate"), None);
        assert_eq!(found("frobnicate"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn a_group_without_a_command_prints_its_help() {
        let usage = |words: &[&str]| {
            let (help, exit) = help_of_group(words);
            let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default().to_owned();
            (usage, exit)
        };
        let top = ("Usage: drover <COMMAND>".to_owned(), 127);
        assert_eq!(usage(&[]), top);
        assert_eq!(usage(&["frobnicate", "job"]), top);
        let job = ("Usage: drover job <COMMAND>".to_owned(), 1);
        assert_eq!(usage(&["job"]), job);
        assert_eq!(usage(&["job", "statuz", "web"]), job);
        let keyring = ("Usage: drover operator root keyring <COMMAND>".to_owned(), 1);
        assert_eq!(usage(&["operator", "root", "keyring", "x"]), keyring);
        let tree = Cli::command();
        let error = tree.try_get_matches_from(["drover", "job", "statuz"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSubcommand);
        let text = error.to_string();
        let text = without_usage(&text);
        assert!(text.contains("'statuz'") && text.contains("'status'"), "{text}");
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
    fn built_commands_are_not_in_the_list() {
        for &(line, feature) in NOT_BUILT {
            assert!(!feature.is_built(), "{line}: the list says that {feature:?} is built");
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

    /// The command lines in a page: code that begins with `drover` or with the name of a command, without comments.
    fn command_lines(page: &str) -> Vec<String> {
        let tree = Cli::command();
        let is_command = |word: &str| tree.find_subcommand(word).is_some();
        let mut lines = Vec::new();
        for (at, part) in page.split("```").enumerate() {
            let is_block = at % 2 == 1;
            if is_block {
                let code = part.lines().map(|line| line.split(" #").next().unwrap_or_default());
                // A line may have several commands, and other programs before them.
                lines.extend(code.flat_map(|line| line.split("drover ").skip(1).map(str::to_owned)));
                continue;
            }
            for span in part.split('`').skip(1).step_by(2) {
                let line = span.strip_prefix("drover ").unwrap_or(span);
                let is_named = line.split_whitespace().next().is_some_and(is_command);
                if line != span || is_named {
                    lines.push(line.to_owned());
                }
            }
        }
        lines
    }

    #[test]
    fn commands_and_flags_that_the_readme_names_exist() {
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
        let lines = command_lines(&std::fs::read_to_string(readme).unwrap());
        assert!(lines.len() > 30, "{lines:?}");
        for line in lines {
            let tree = Cli::command();
            let words = ["drover"].into_iter().chain(line.split_whitespace()).map(OsString::from);
            let arguments = crate::cli::flags::normalised(&tree, words);
            // A page may leave out what a command requires.
            let missing = [ErrorKind::InvalidSubcommand, ErrorKind::UnknownArgument];
            let error = tree.try_get_matches_from(arguments).err();
            let unknown = error.filter(|error| missing.contains(&error.kind()));
            assert!(unknown.is_none(), "drover {line}: {}", unknown.unwrap());
        }
    }
}
