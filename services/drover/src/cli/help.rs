//! The help of the program: how to begin, and its commands by what people do with them. Pure.

use clap::Command;

/// Groups of commands, in their order, with the names of their commands. What is in none of them is in the last.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Run jobs", &["job", "alloc", "eval", "deployment", "service", "scaling", "var", "volume", "plugin"]),
    (
        "Look after a cluster",
        &[
            "status",
            "node",
            "server",
            "cluster",
            "system",
            "operator",
            "namespace",
            "acl",
            "monitor",
            "agent-info",
            "health",
        ],
    ),
    (
        "Start a cluster",
        &[
            "dev",
            "agent",
            "api",
            "scheduler",
            "eval-broker",
            "plan-applier",
            "node-tracker",
            "deployment-watcher",
            "sim-nodes",
        ],
    ),
    ("Files and this program", &[]),
];

/// How to begin.
const BEGIN: &str = "\
How to begin:
  drover dev                                start a whole cluster on this machine
  drover job run examples/hello.nomad.hcl   run a job on it, and follow it until it runs
  drover job status hello                   see what became of it
  drover alloc logs -f 1a2b3c4d             see what a task writes
";

/// The help. The tree of commands has been built.
pub(crate) fn text(tree: &Command) -> String {
    let about = tree.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\nUsage: drover <COMMAND>\n\n{BEGIN}");
    let width = visible(tree).map(|command| command.get_name().len()).max().unwrap_or(0);
    let in_group = |name: &str| GROUPS.iter().position(|(_, names)| names.contains(&name));
    for (at, (title, _)) in GROUPS.iter().enumerate() {
        let is_last = at + 1 == GROUPS.len();
        let is_here = |command: &&Command| match in_group(command.get_name()) {
            Some(group) => group == at,
            None => is_last,
        };
        let commands: Vec<&Command> = visible(tree).filter(is_here).collect();
        if commands.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{title}:\n"));
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let about = about.lines().next().unwrap_or_default().to_owned();
            text.push_str(&format!("  {:width$}  {about}\n", command.get_name()));
        }
    }
    text.push_str(
        "\nFor the flags and examples of a command: drover <COMMAND> -help. The API is expected at http://127.0.0.1:4646, or\n\
         where -address or NOMAD_ADDR say.\n",
    );
    text
}

fn visible(tree: &Command) -> impl Iterator<Item = &Command> {
    tree.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;
    use crate::cli::flags;

    #[test]
    fn the_help_says_how_to_begin_and_has_every_command_once() {
        let mut tree = Cli::command();
        tree.build();
        let text = text(&tree);
        assert!(text.contains("\nHow to begin:\n  drover dev "), "{text}");
        for command in visible(&tree) {
            let name = command.get_name();
            let lines = text.lines().filter(|line| line.starts_with(&format!("  {name} ")));
            assert_eq!(lines.count(), 1, "{name}\n{text}");
        }
    }

    /// Checks the examples in the help of a command and of the commands in it, and counts them.
    fn check_examples(command: &Command) -> usize {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut count = 0;
        for line in help.lines().map(str::trim).filter(|line| line.starts_with("drover ")) {
            let tree = Cli::command();
            let arguments = flags::normalised(&tree, line.split(' ').map(Into::into));
            let parsed = tree.try_get_matches_from(arguments);
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
            count += 1;
        }
        count + command.get_subcommands().map(check_examples).sum::<usize>()
    }

    #[test]
    fn the_examples_of_commands_are_valid() {
        let mut tree = Cli::command();
        tree.build();
        assert!(check_examples(&tree) > 20);
    }

    #[test]
    fn groups_name_each_command_once() {
        let mut names: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
