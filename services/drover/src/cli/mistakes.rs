//! Texts about invalid arguments: what is missing, with an example of the whole command, and which flags exclude each other
//! (`docs/rules/cli.md` 1.1, 1.5). Pure.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// Flags that exclude each other, and the text about it that scripts know.
const EXCLUSIVE: [([&str; 2], &str); 2] = [
    (["--json", "-t <TEMPLATE>"], "Both json and template formatting are not allowed"),
    (["--json-output", "-t <TEMPLATE>"], "Both -json-output and -t formatting are not allowed"),
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

/// A text about the error, if there is a better one than the parser's. The tree of commands has been built.
pub(crate) fn text(error: &clap::Error, command: &mut Command) -> Option<String> {
    if error.kind() == ErrorKind::ArgumentConflict {
        let flags = flags(error);
        let is_about = |pair: &[&str; 2]| pair.iter().all(|flag| flags.contains(flag));
        let found = EXCLUSIVE.iter().find(|(pair, _)| is_about(pair));
        return found.map(|(_, text)| (*text).to_owned());
    }
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let usage = command.render_usage();
    let missing = missing(error, command);
    if missing.is_empty() {
        return None;
    }
    let width = missing.iter().map(|argument| label(argument).len()).max().unwrap_or(0);
    let lines: Vec<String> = missing.iter().map(|argument| described(argument, width)).collect();
    let title = if lines.len() == 1 { "an argument is missing" } else { "arguments are missing" };
    let name = name(command);
    Some(format!(
        "error: {title}:\n{}\n\n{usage}\n\nExample: {}\n\nFor additional help try '{name} -help'",
        lines.join("\n"),
        example(command, &missing),
    ))
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
        "COUNT" | "INDEX" | "VERSION" => "3",
        "DATABASE_URL" => "postgres://drover@db.example.org/drover",
        "DIR" => "secrets",
        "FILE" => "web.nomad.hcl",
        "JOB" | "JOBS" => "web",
        "NAME" => "worker-1",
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
        text(&error, named(&mut tree, &words))
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
    fn flags_that_exclude_each_other_are_told_in_known_words() {
        assert_eq!(explained("drover job status -json -t x web").as_deref(), Some(EXCLUSIVE[0].1));
        assert_eq!(explained("drover job plan -t x -json-output web").as_deref(), Some(EXCLUSIVE[1].1));
        assert_eq!(explained("drover alloc logs -stdout -stderr 1a2b"), None);
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
