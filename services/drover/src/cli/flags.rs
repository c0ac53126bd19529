//! Parsing of flags with one dash or two (`docs/rules/cli.md` 1.1), and the flags that all commands share (1.2).

use std::ffi::OsString;

use anyhow::{bail, ensure};
use model::features::Feature;

use super::object::Object;
use super::output::Colours;

/// The default address of the API.
const ADDRESS: &str = "http://127.0.0.1:4646";

/// How to reach the API, and how to print results.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "API")]
pub(crate) struct Api {
    /// The address of the HTTP API.
    #[arg(long, env = "NOMAD_ADDR", default_value = ADDRESS)]
    pub(crate) address: String,
    /// The namespace of jobs and of what belongs to them. In lists, `*` stands for all namespaces.
    #[arg(long, env = "NOMAD_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// The region to send requests to.
    #[arg(long, env = "NOMAD_REGION")]
    pub(crate) region: Option<String>,
    /// The token that authenticates the user.
    #[arg(long, env = "NOMAD_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) colours: ColourFlags,
    #[command(flatten)]
    tls: Tls,
}

/// When the output has colours.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct ColourFlags {
    /// Print without colours, even on a terminal.
    #[arg(long, env = "NOMAD_CLI_NO_COLOR", value_parser = clap::builder::FalseyValueParser::new())]
    no_color: bool,
    /// Print with colours, even if the output is not a terminal.
    #[arg(
        long,
        env = "NOMAD_CLI_FORCE_COLOR",
        value_parser = clap::builder::FalseyValueParser::new(),
        conflicts_with = "no_color"
    )]
    force_color: bool,
}

impl ColourFlags {
    pub(crate) fn choice(&self) -> Colours {
        match self {
            Self { force_color: true, .. } => Colours::Always,
            Self { no_color: true, .. } => Colours::Never,
            Self { .. } => Colours::OnTerminals,
        }
    }
}

/// Settings of TLS. They are not built: the certificate of an https address is verified with the system's trust store.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
struct Tls {
    #[arg(long, env = "NOMAD_CACERT", hide = true)]
    ca_cert: Option<String>,
    #[arg(long, env = "NOMAD_CAPATH", hide = true)]
    ca_path: Option<String>,
    #[arg(long, env = "NOMAD_CLIENT_CERT", hide = true)]
    client_cert: Option<String>,
    #[arg(long, env = "NOMAD_CLIENT_KEY", hide = true)]
    client_key: Option<String>,
    #[arg(long, env = "NOMAD_TLS_SERVER_NAME", hide = true)]
    tls_server_name: Option<String>,
    #[arg(long, env = "NOMAD_SKIP_VERIFY", value_parser = clap::builder::FalseyValueParser::new(), hide = true)]
    tls_skip_verify: bool,
}

impl Api {
    /// The address of the API. An empty variable counts as unset.
    pub(crate) fn address(&self) -> &str {
        if self.address.is_empty() { ADDRESS } else { &self.address }
    }

    /// Refuses settings that are not built, and invalid addresses.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let address = self.address();
        let is_missing = address.starts_with("unix://") && !Feature::UnixSockets.is_built();
        ensure!(!is_missing, Feature::UnixSockets.finding());
        let is_secure = address.starts_with("https://");
        ensure!(
            is_secure || address.starts_with("http://"),
            "cannot use the address {address:?}: expected http://host:port or https://host:port"
        );
        let Tls { ca_cert, ca_path, client_cert, client_key, tls_server_name, tls_skip_verify } = &self.tls;
        let given = [
            ("-ca-cert", ca_cert.is_some()),
            ("-ca-path", ca_path.is_some()),
            ("-client-cert", client_cert.is_some()),
            ("-client-key", client_key.is_some()),
            ("-tls-server-name", tls_server_name.is_some()),
            ("-tls-skip-verify", *tls_skip_verify),
        ];
        match given.into_iter().find(|(_, given)| is_secure && *given && !Feature::ClientTls.is_built()) {
            Some((flag, _)) => bail!(Feature::ClientTls.finding_of(flag)),
            None => Ok(()),
        }
    }
}

/// How an object is printed.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) object: Object,
    /// Print whole ids and exact times.
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// Parses a bool in Go's notation.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    go_bool(text).ok_or_else(|| "expected true or false".to_owned())
}

/// Rewrites arguments for the parser: `-json` becomes `--json`, and `--f` becomes `-f`. A switch with a value, such as
/// `-detach=true`, becomes the switch alone, or nothing if the value is false. A lone dash, a number and everything after `--`
/// stay as they are, and so does the value after a flag that expects one, whatever its first character.
///
/// Unlike Go's parser, this one also accepts flags after arguments.
pub(crate) fn normalised(
    tree: &clap::Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut command = tree;
    let (mut literal, mut wants_value, mut arguments_seen) = (false, false, 0);
    let mut normalised: Vec<OsString> = Vec::new();
    for (at, argument) in arguments.into_iter().enumerate() {
        if std::mem::take(&mut wants_value) {
            attach(&mut normalised, argument);
            continue;
        }
        literal |= argument == "--";
        let text = argument.to_str().unwrap_or_default();
        let flag = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).filter(|_| !literal);
        let Some(flag) = flag.filter(|flag| flag.starts_with(|first: char| first.is_ascii_alphabetic()))
        else {
            if at > 0 && !literal {
                match command.find_subcommand(text) {
                    Some(subcommand) => (command, arguments_seen) = (subcommand, 0),
                    None => arguments_seen += 1,
                }
                // What follows belongs to another command, such as the one that `alloc exec` runs.
                let mut next = command.get_positionals().skip(arguments_seen).take(1);
                literal = next.any(clap::Arg::is_trailing_var_arg_set);
            }
            normalised.push(argument);
            continue;
        };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let dashes = if name.len() == 1 { "-" } else { "--" };
        let known = called(command, name);
        wants_value = value.is_none() && known.is_some_and(wants_next);
        let is_switch = known.is_some_and(|flag| matches!(flag.get_action(), clap::ArgAction::SetTrue));
        match value.filter(|_| is_switch).and_then(go_bool) {
            Some(true) => normalised.push(format!("{dashes}{name}").into()),
            Some(false) => {}
            None => normalised.push(format!("{dashes}{flag}").into()),
        }
    }
    normalised
}

/// Appends the value of the preceding flag. A value that looks like a flag is attached to it with `=`.
fn attach(arguments: &mut Vec<OsString>, value: OsString) {
    let looks_like_flag = value != "-" && value.as_encoded_bytes().starts_with(b"-");
    match arguments.last_mut().filter(|_| looks_like_flag) {
        Some(flag) => {
            flag.push("=");
            flag.push(value);
        }
        None => arguments.push(value),
    }
}

/// The command's flag with that name.
fn called<'c>(command: &'c clap::Command, name: &str) -> Option<&'c clap::Arg> {
    command.get_arguments().find(|argument| {
        argument.get_long() == Some(name)
            || argument.get_short().is_some_and(|short| name == short.to_string())
    })
}

/// Whether the next argument is the flag's value.
fn wants_next(flag: &clap::Arg) -> bool {
    matches!(flag.get_action(), clap::ArgAction::Set | clap::ArgAction::Append)
        && !flag.is_require_equals_set()
}

/// Parses a bool as Go's `strconv.ParseBool` does.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn normal(arguments: &[&str]) -> Vec<String> {
        let arguments = normalised(&Cli::command(), arguments.iter().map(OsString::from));
        arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        let given = ["drover", "job", "run", "-detach", "--verbose", "-check-index=7", "-", "a.nomad.hcl"];
        let expected =
            ["drover", "job", "run", "--detach", "--verbose", "--check-index=7", "-", "a.nomad.hcl"];
        assert_eq!(normal(&given), expected);
        assert_eq!(normal(&["drover", "logs", "--f", "--n=5", "1a"]), ["drover", "logs", "-f", "-n=5", "1a"]);
    }

    #[test]
    fn letters_numbers_and_what_follows_two_dashes_stay() {
        let given = ["drover", "-f", "-n", "-5", "-t=x", "--", "-json"];
        assert_eq!(normal(&given), given);
    }

    #[test]
    fn what_belongs_to_another_command_stays() {
        let given = ["drover", "alloc", "exec", "-task", "web", "1a", "ls", "-la", "--", "-task=x"];
        let expected = ["drover", "alloc", "exec", "--task", "web", "1a", "ls", "-la", "--", "-task=x"];
        assert_eq!(normal(&given), expected);
        assert_eq!(
            normal(&["drover", "exec", "-i=false", "1a", "-x"]),
            ["drover", "exec", "-i=false", "1a", "-x"]
        );
    }

    #[test]
    fn switches_may_have_a_value() {
        let given = ["drover", "job", "run", "-detach=true", "-verbose=0", "-check-index=1", "-json=x", "a"];
        let expected = ["drover", "job", "run", "--detach", "--check-index=1", "--json=x", "a"];
        assert_eq!(normal(&given), expected);
        assert_eq!(normal(&["drover", "logs", "-f=true", "1a"]), ["drover", "logs", "-f", "1a"]);
    }

    #[test]
    fn values_may_look_like_flags() {
        let given = ["drover", "eval", "list", "-filter", "-x", "-job", "a", "-page-token", "-", "-json"];
        let expected = ["drover", "eval", "list", "--filter=-x", "--job", "a", "--page-token", "-", "--json"];
        assert_eq!(normal(&given), expected);
        let given = ["drover", "job", "run", "-var", "--", "-hcl2-strict", "a"];
        assert_eq!(normal(&given), ["drover", "job", "run", "--var=--", "--hcl2-strict", "a"]);
    }

    fn api(arguments: &[&str]) -> Api {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            api: Api,
        }
        <Flags as clap::Parser>::parse_from(["drover"].iter().chain(arguments)).api
    }

    #[test]
    fn unbuilt_flags_are_refused_by_name() {
        let refusal = |arguments: &[&str]| api(arguments).check().err().map(|error| error.to_string());
        assert_eq!(refusal(&["--address", "http://host:1"]), None);
        assert_eq!(refusal(&["--address", "https://host:1"]), None);
        assert_eq!(
            refusal(&["--address", "unix:///run/a.sock"]).as_deref(),
            Some("not built yet: addresses that begin with unix://")
        );
        let secure = ["--address", "https://host:1", "--tls-skip-verify"];
        assert_eq!(refusal(&secure).as_deref(), Some("not built yet: -tls-skip-verify"));
        assert_eq!(
            refusal(&["--address", "host:1"]).as_deref(),
            Some("cannot use the address \"host:1\": expected http://host:port or https://host:port")
        );
    }
}
