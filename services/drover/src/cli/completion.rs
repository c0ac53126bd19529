//! `drover completion`: prints a script with which a shell completes commands and flags. The script is generated from the
//! definition of the command line, so it is always complete.

use std::io::Write as _;
use std::process::ExitCode;

/// Prints a shell script that completes commands and flags.
///
/// Load the script with `source <(drover completion bash)`, or install it where the shell finds it: as `drover` in
/// /usr/share/bash-completion/completions, `_drover` in /usr/share/zsh/vendor-completions, or `drover.fish` in
/// /usr/share/fish/vendor_completions.d.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The shell that reads the script.
    shell: Shell,
}

/// The supported shells.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script for `tree`, the whole command line.
pub(crate) fn run(args: &Args, tree: &mut clap::Command) -> ExitCode {
    match std::io::stdout().write_all(script(args.shell, tree).as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The error cannot be reported: nothing reads the output.
        Err(_) => ExitCode::FAILURE,
    }
}

fn script(shell: Shell, tree: &mut clap::Command) -> String {
    let generator = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, tree, "drover", &mut script);
    let script = String::from_utf8(script).expect("names and help texts are UTF-8");
    match shell {
        Shell::Bash => script.lines().map(|line| with_single_dashes(line) + "\n").collect(),
        Shell::Zsh | Shell::Fish => script,
    }
}

/// A line of the script for bash, extended with the flags that have one dash.
fn with_single_dashes(line: &str) -> String {
    let text = line.trim_start();
    let indentation = &line[..line.len() - text.len()];
    if let Some(words) = text.strip_prefix("opts=\"").and_then(|rest| rest.strip_suffix('"')) {
        let single = words.split(' ').filter(|word| word.starts_with("--")).map(|word| &word[1..]);
        let all: Vec<&str> = words.split(' ').chain(single).collect();
        return format!("{indentation}opts=\"{}\"", all.join(" "));
    }
    // The branch that completes a flag's value.
    match text.strip_suffix(')').filter(|flag| flag.starts_with("--") && !flag.contains(' ')) {
        Some(flag) => format!("{indentation}{flag}|{})", &flag[1..]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn script(shell: Shell) -> String {
        super::script(shell, &mut Cli::command())
    }

    /// The completions that bash offers for the last of these words.
    fn completions(words: &[&str]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("drover.bash");
        std::fs::write(&file, script(Shell::Bash)).unwrap();
        let last = words.len() - 1;
        let program = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                       _drover \"$1\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; \
                       printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["--norc", "-c", program, "bash"])
            .arg(&file)
            .args(words)
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?} at {last}: {output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn bash_completes_commands_flags_and_files() {
        assert_eq!(completions(&["drover", "job", "ru"]), ["run"]);
        assert_eq!(completions(&["drover", "config", "va"]), ["validate"]);
        assert_eq!(completions(&["drover", "job", "run", "-deta"]), ["-detach"]);
        assert_eq!(completions(&["drover", "job", "run", "--deta"]), ["--detach"]);
        assert_eq!(completions(&["drover", "agent", "-config", "drov"]), ["drover.bash"]);
        assert_eq!(completions(&["drover", "completion", "f"]), ["fish"]);
        let commands = completions(&["drover", ""]);
        for command in ["job", "agent", "api", "config", "operator"] {
            assert!(commands.iter().any(|offered| offered == command), "{command}: {commands:?}");
        }
    }

    #[test]
    fn scripts_are_well_formed() {
        let directory = tempfile::tempdir().unwrap();
        for (shell, program) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            let file = directory.path().join(program);
            std::fs::write(&file, script(shell)).unwrap();
            // Only bash is certain to be installed.
            match Command::new(program).arg("-n").arg(&file).output() {
                Ok(output) => assert!(output.status.success(), "{program}: {output:?}"),
                Err(error) => assert_ne!(program, "bash", "{error}"),
            }
        }
        assert!(script(Shell::Zsh).starts_with("#compdef drover"));
        assert!(script(Shell::Fish).contains("complete -c drover"));
    }
}
