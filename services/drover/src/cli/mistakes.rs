//! Texts about invalid arguments: what is missing, with an example of the whole command, and which flags cannot be used
//! with each other (`docs/rules/cli.md` 1.1, 1.5). Pure.
//!
//! A flag that has no effect beside other flags or arguments conflicts with them in its declaration, and a flag that has an
//! effect only beside another one requires it there. So no flag is ignored.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// Flags that exclude each other, where scripts know the text about it: the end of the command's name, the flags, and the
/// text.
const EXCLUSIVE: &[(&str, [&str; 2], &str)] = &[
    ("", ["-json", "-t"], "Both json and template formatting are not allowed"),
    ("", ["-json-output", "-t"], "Both -json-output and -t formatting are not allowed"),
    ("logs", ["-stderr", "-stdout"], "Unable to support both stdout and stderr"),
    ("alloc restart", ["-all-tasks", "-task"], ONE_TASK),
    ("alloc restart", ["-all-tasks", "<TASK>"], ONE_TASK),
    ("deployment status", ["-monitor", "-json"], MONITORED),
    ("deployment status", ["-monitor", "-t"], MONITORED),
    ("history", ["-p", "-json"], SHOWN_ONLY),
    ("history", ["-p", "-t"], SHOWN_ONLY),
    ("history", ["-full", "-json"], SHOWN_ONLY),
    ("history", ["-full", "-t"], SHOWN_ONLY),
    ("history", ["-diff-tag", "-diff-version"], "-diff-tag and -diff-version are mutually exclusive"),
    ("inspect", ["-hcl", "-json"], "can only use one of -hcl or -json"),
    ("job restart", ["-all-tasks", "-task"], "The -all-tasks option cannot be used with -task"),
    ("job restart", ["-reschedule", "-task"], "The -reschedule option cannot be used with -task"),
    ("node status", ["-quiet", "-json"], QUIET),
    ("node status", ["-quiet", "-verbose"], QUIET),
];

const ONE_TASK: &str = "The -all-tasks option is not allowed when restarting a specific task.";
const MONITORED: &str = "The monitor flag cannot be used with the '-json' or '-t' flags";
const SHOWN_ONLY: &str = "-json and -t are exclusive with -p and -full";
const QUIET: &str = "-quiet cannot be used with -verbose or -json";

/// Flags that others need, where scripts know the text about it: the end of the command's name, the flag, and the text.
const NEEDED: [(&str, &str, &str); 2] = [
    ("history", "-p", "-diff-tag and -diff-version can only be used with -p"),
    ("inspect", "-hcl", "can only use -with-vars with -hcl"),
];

/// The command that these words name, or the last group of commands that they name.
pub(crate) fn named<'c>(tree: &'c mut Command, words: &[&str]) -> &'c mut Command {
    let mut command = tree;
    for word in words {
        if command.find_subcommand(word).is_none() {
            break;
        }
        command = command.find_subcommand_mut(word).expect("the command was found");
    }
    command
}

/// A text about the error in a command line, if there is a better one than the parser's. The tree of commands has been
/// built.
pub(crate) fn text(error: &clap::Error, command: &mut Command, line: &[OsString]) -> Option<String> {
    if error.kind() == ErrorKind::ArgumentConflict {
        return conflict(error, command);
    }
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    needed(error, command, line).or_else(|| missing_arguments(error, command))
}

/// The text about flags that cannot be used with each other. `None` for a flag that is given twice.
fn conflict(error: &clap::Error, command: &Command) -> Option<String> {
    let mut words: Vec<String> = flags(error).into_iter().map(spelled).collect();
    words.sort_by_key(|word| word.starts_with('<'));
    words.dedup();
    let [first, others @ ..] = &words[..] else { return None };
    if others.is_empty() {
        return None;
    }
    let is_about = |pair: &[&str; 2]| pair.iter().all(|flag| words.iter().any(|word| word == flag));
    let mut known = EXCLUSIVE.iter().filter(|(end, ..)| name(command).ends_with(end));
    let known = known.find(|(_, pair, _)| is_about(pair)).map(|(_, _, text)| (*text).to_owned());
    let others = others.join(" and ");
    known.or_else(|| Some(format!("{first} cannot be used with {others}\n\n{}", help_line(command))))
}

/// The text about flags that can only be used with another flag, or with an argument that is optional otherwise.
fn needed(error: &clap::Error, command: &Command, line: &[OsString]) -> Option<String> {
    let missing = missing(error, command);
    let [argument] = missing[..] else { return None };
    let given = given(command, line).into_iter().filter(|flag| needs(command, flag, argument));
    let given: Vec<String> = given.map(|flag| spelled(&flag.to_string())).collect();
    if argument.is_required_set() || given.is_empty() {
        return None;
    }
    let argument = spelled(&argument.to_string());
    let is_known = |(end, flag, _): &&(&str, &str, &str)| name(command).ends_with(end) && argument == *flag;
    let known = NEEDED.iter().find(is_known).map(|(_, _, text)| (*text).to_owned());
    let given = given.join(" and ");
    known.or_else(|| Some(format!("{given} can only be used with {argument}\n\n{}", help_line(command))))
}

/// The flags of the command in a command line. The line is normalised.
fn given<'c>(command: &'c Command, line: &[OsString]) -> Vec<&'c Arg> {
    let words = line.iter().filter_map(|word| word.to_str());
    let names: Vec<&str> = words.filter_map(|word| word.split('=').next()).collect();
    let is_given = |flag: &&Arg| parsed_name(flag).is_some_and(|name| names.contains(&name.as_str()));
    command.get_arguments().filter(is_given).collect()
}

/// A flag as the parser expects it. `None` for an argument without a name.
fn parsed_name(argument: &Arg) -> Option<String> {
    let short = || argument.get_short().map(|short| format!("-{short}"));
    argument.get_long().map(|long| format!("--{long}")).or_else(short)
}

/// Whether a flag alone makes the command ask for an argument.
pub(super) fn needs(command: &Command, flag: &Arg, argument: &Arg) -> bool {
    let value = (flag.get_action().takes_values() && !flag.is_require_equals_set()).then(|| sample(flag));
    let words = parsed_name(flag).into_iter().chain(value);
    !asks_for(command, std::iter::empty(), argument) && asks_for(command, words, argument)
}

/// Whether the command asks for an argument if it is called with these words.
fn asks_for(command: &Command, words: impl Iterator<Item = String>, argument: &Arg) -> bool {
    let words = std::iter::once(command.get_name().to_owned()).chain(words);
    let error = command.clone().try_get_matches_from(words).err();
    let error = error.filter(|error| error.kind() == ErrorKind::MissingRequiredArgument);
    error.is_some_and(|error| flags(&error).contains(&label(argument).as_str()))
}

/// A flag of an error as users write it, or an argument by its placeholder.
pub(super) fn spelled(label: &str) -> String {
    let word = label.split_whitespace().next().unwrap_or_default().trim_end_matches("...");
    match word.strip_prefix("--").or_else(|| word.strip_prefix('-')) {
        Some(flag) => format!("-{}", flag.split(['[', '=']).next().unwrap_or_default()),
        None => word.replace('[', "<").replace(']', ">"),
    }
}

/// The text about arguments that are missing, with an example of the command.
fn missing_arguments(error: &clap::Error, command: &mut Command) -> Option<String> {
    let usage = command.render_usage();
    let missing = missing(error, command);
    if missing.is_empty() {
        return None;
    }
    let width = missing.iter().map(|argument| label(argument).len()).max().unwrap_or(0);
    let lines: Vec<String> = missing.iter().map(|argument| described(argument, width)).collect();
    let title = if lines.len() == 1 { "an argument is missing" } else { "arguments are missing" };
    Some(format!(
        "error: {title}:\n{}\n\n{usage}\n\nExample: {}\n\n{}",
        lines.join("\n"),
        example(command, &missing),
        help_line(command),
    ))
}

fn help_line(command: &Command) -> String {
    format!("For additional help try '{} -help'", name(command))
}

/// Replaces the usage in the parser's text. The parser shows every flag that is set, even by the environment, as if it were
/// required.
pub(crate) fn simplify_usage(error: &mut clap::Error, command: &mut Command) {
    if error.get(ContextKind::Usage).is_some() {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    }
}

/// The flags and arguments that an error names.
fn flags(error: &clap::Error) -> Vec<&str> {
    let kinds = [ContextKind::InvalidArg, ContextKind::PriorArg];
    kinds.into_iter().filter_map(|kind| error.get(kind)).flat_map(texts).map(String::as_str).collect()
}

fn texts(value: &ContextValue) -> &[String] {
    if let ContextValue::Strings(texts) = value {
        texts
    } else if let ContextValue::String(text) = value {
        std::slice::from_ref(text)
    } else {
        &[]
    }
}

/// The arguments of the command that an error names.
fn missing<'c>(error: &clap::Error, command: &'c Command) -> Vec<&'c Arg> {
    let flags = flags(error);
    command.get_arguments().filter(|argument| flags.contains(&label(argument).as_str())).collect()
}

/// The name of an argument in errors: with angle brackets, as if the argument were always required.
fn label(argument: &Arg) -> String {
    let text = argument.to_string();
    if argument.is_positional() { text.replace('[', "<").replace(']', ">") } else { text }
}

/// An argument with its help, and the variable that can be set instead.
fn described(argument: &Arg, width: usize) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let env = argument.get_env().map(|name| format!(" [env: {}]", name.to_string_lossy()));
    format!("  {:width$}  {help}{}", label(argument), env.unwrap_or_default())
}

fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// The command with the arguments that it requires, and with those that are missing.
fn example(command: &Command, missing: &[&Arg]) -> String {
    let is_shown = |argument: &Arg| {
        argument.is_required_set() || missing.iter().any(|missing| missing.get_id() == argument.get_id())
    };
    let shown: Vec<&Arg> = command.get_arguments().filter(|argument| is_shown(argument)).collect();
    let (positional, flags): (Vec<&Arg>, Vec<&Arg>) =
        shown.into_iter().partition(|argument| argument.is_positional());
    let mut words = vec![name(command).to_owned()];
    for flag in flags {
        let short = || flag.get_short().map(String::from).unwrap_or_default();
        words.push(format!("-{}", flag.get_long().map_or_else(short, str::to_owned)));
        if flag.get_action().takes_values() {
            words.push(sample(flag));
        }
    }
    words.extend(positional.into_iter().map(sample));
    words.join(" ")
}

/// A value that an argument might have, by its placeholder.
fn sample(argument: &Arg) -> String {
    let placeholder = argument.get_value_names().and_then(|names| names.first());
    let placeholder = placeholder.map(|name| name.as_str()).unwrap_or_default();
    let sample = match placeholder {
        "ALLOC" | "DEPLOYMENT" | "EVAL" | "NODE" => "1a2b3c4d",
        "COUNT" | "GROUP_OR_COUNT" | "INDEX" | "VERSION" => "3",
        "DATABASE_URL" => "postgres://drover@db.example.org/drover",
        "DIR" => "secrets",
        "FILE" => "web.nomad.hcl",
        "JOB" | "JOBS" => "web",
        "NAME" => "worker-1",
        "NAMESPACE" | "NAME_OR_FILE" => "team",
        "PATH" => "/v1/jobs",
        "ROLE" => "api",
        "SHELL" => "bash",
        "USER" => "worker-1.creds",
        other => return other.to_lowercase(),
    };
    sample.to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;
    use crate::cli::flags::normalised;

    fn parsed(line: &str) -> Result<clap::ArgMatches, clap::Error> {
        let arguments = normalised(&Cli::command(), line.split(' ').map(Into::into));
        Cli::command().try_get_matches_from(arguments)
    }

    /// The text about the error in a command line.
    fn explained(line: &str) -> Option<String> {
        let error = parsed(line).unwrap_err();
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let mut tree = Cli::command();
        tree.build();
        let normalised = normalised(&tree, line.split(' ').map(Into::into));
        text(&error, named(&mut tree, &words), &normalised)
    }

    #[test]
    fn a_missing_argument_is_named_with_an_example() {
        insta::assert_snapshot!(explained("drover alloc logs").unwrap(), @"
        error: an argument is missing:
          <ALLOC>  The id of an allocation, or a prefix of it. With -job, the id of a job

        Usage: drover alloc logs [OPTIONS] <ALLOC> [TASK]

        Example: drover alloc logs 1a2b3c4d

        For additional help try 'drover alloc logs -help'
        ");
        let text = explained("drover operator nats node").unwrap();
        assert!(text.starts_with("error: arguments are missing:\n"), "{text}");
        assert!(text.contains("\nExample: drover operator nats node -dir secrets worker-1\n"), "{text}");
        let text = explained("drover alloc status").unwrap();
        assert!(
            text.contains("  <ALLOC>  ") && text.contains("\nExample: drover alloc status 1a2b3c4d\n"),
            "{text}"
        );
    }

    #[test]
    fn flags_that_exclude_each_other_are_reported_in_nomads_words() {
        for (line, expected) in [
            ("job status -json -t x web", "Both json and template formatting are not allowed"),
            ("job plan -t x -json-output web", "Both -json-output and -t formatting are not allowed"),
            ("alloc logs -stdout -stderr 1a2b", "Unable to support both stdout and stderr"),
            ("logs -stdout -stderr 1a2b", "Unable to support both stdout and stderr"),
            ("alloc restart -all-tasks 1a2b web", ONE_TASK),
            ("alloc restart -all-tasks -task web 1a2b", ONE_TASK),
            ("deployment status -monitor -t x 1a2b", MONITORED),
            ("job history -p -json web", SHOWN_ONLY),
            ("job history -full -t x web", SHOWN_ONLY),
            ("job history -diff-tag a web", NEEDED[0].2),
            ("job history -diff-version 1 web", NEEDED[0].2),
            (
                "job history -p -diff-tag a -diff-version 1 web",
                "-diff-tag and -diff-version are mutually exclusive",
            ),
            ("job inspect -hcl -json web", "can only use one of -hcl or -json"),
            ("inspect -with-vars web", "can only use -with-vars with -hcl"),
            ("job restart -reschedule -task a web", "The -reschedule option cannot be used with -task"),
            ("node status -json -quiet", QUIET),
            ("node status -quiet -verbose", QUIET),
        ] {
            assert_eq!(explained(&format!("drover {line}")).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn flags_without_effect_are_named() {
        let first_line = |line: &str| {
            let text = explained(&format!("drover {line}")).unwrap_or_default();
            text.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(first_line("node status -filter a 1a2b"), "-filter cannot be used with <NODE>");
        assert_eq!(first_line("job run -var a=b -json web"), "-var cannot be used with -json");
        assert_eq!(first_line("job status -short"), "-short can only be used with <JOB>");
        assert_eq!(
            first_line("job status -short -all-allocs"),
            "-short cannot be used with -all-allocs",
            "conflicts go first"
        );
        assert_eq!(first_line("alloc logs -group a 1a2b"), "-group can only be used with -job");
        assert_eq!(first_line("eval status -monitor -json 1a2b"), "-monitor cannot be used with -json");
        assert_eq!(first_line("alloc status -verbose"), "error: an argument is missing:");
        let text = explained("drover job status -short").unwrap();
        assert!(text.ends_with("\n\nFor additional help try 'drover job status -help'"), "{text}");
        assert_eq!(explained("drover eval list -job a -job b"), None, "a flag that is given twice");
    }

    #[test]
    fn the_usage_shows_no_flags_that_are_optional() {
        let line = ["drover", "alloc", "logs", "--address", "http://host:1", "--stdout", "--stderr", "1a2b"];
        let mut error = Cli::command().try_get_matches_from(line).unwrap_err();
        let mut tree = Cli::command();
        tree.build();
        simplify_usage(&mut error, named(&mut tree, &line[1..]));
        let text = error.to_string();
        assert!(text.contains("Usage: drover alloc logs [OPTIONS] <ALLOC> [TASK]\n"), "{text}");
    }

    /// Checks the examples of a command and of the commands in it.
    fn check_examples(command: &Command) {
        if command.has_subcommands() {
            return command.get_subcommands().for_each(check_examples);
        }
        let error = parsed(name(command)).err();
        let missing = error.map(|error| missing(&error, command)).unwrap_or_default();
        let example = example(command, &missing);
        let parsed = parsed(&example);
        assert!(parsed.is_ok(), "{example}: {parsed:?}");
    }

    #[test]
    fn every_command_accepts_its_example() {
        let mut tree = Cli::command();
        tree.build();
        check_examples(&tree);
    }
}
