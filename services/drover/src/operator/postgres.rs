//! `drover operator postgres …`: the SQL that creates the roles, and a check of a database's roles and rights.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use store::roles::{self, Passwords};

use crate::command::{Run, commands};
use crate::process::fail;

/// The exit code if the database differs from what it should be.
const EXIT_DIFFERS: u8 = 1;
/// The exit code if the database cannot be checked, for instance because the arguments are invalid.
pub(crate) const EXIT_UNKNOWN: u8 = 2;

commands! {
    /// Prints and checks the roles of the database.
    Command {
        Grants(Grants),
        Check(Check),
    }
}

/// Prints the SQL that creates the database and its roles.
///
/// The SQL creates the database, a login role for each service, and one for people. It revokes the rights that PostgreSQL
/// grants to everybody. Execute it with psql, as a superuser or as a role that may create roles and databases:
///
/// drover operator postgres grants -secrets-dir DIR | psql postgres://postgres@host/postgres
///
/// The SQL may be executed again at any time. It contains passwords as SCRAM verifiers only. The plan applier also updates
/// the rights on tables whenever it starts.
#[derive(Debug, clap::Args)]
pub(crate) struct Grants {
    /// The name of the database.
    #[arg(long, default_value = "drover", value_parser = database)]
    database: String,
    /// The directory with the passwords, in the files `<role>/postgres-password` that `drover operator init` creates. A role
    /// without such a file keeps the password that it has.
    #[arg(long, value_name = "DIR")]
    secrets_dir: Option<PathBuf>,
}

/// Checks whether the roles of a database and their rights are as they should be.
///
/// Any role may check them. Exits with 0 if the roles and rights are as they should be, with 1 if they are not, and with 2 if
/// they cannot be checked.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("database_wait_secs", |arg| arg.default_value("5")),
    mut_arg("applier_lease_ms", |arg| arg.hide(true)),
    mut_arg("log_keep_secs", |arg| arg.hide(true)),
    mut_arg("allow_unsafe_database", |arg| arg.hide(true)),
    mut_arg("log_max_mb", |arg| arg.hide(true))
)]
pub(crate) struct Check {
    /// Print the differences as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: store::Args,
}

impl Run for Grants {
    fn run(self) -> ExitCode {
        match grants(&self) {
            Ok(script) => {
                let _ = std::io::stdout().write_all(script.as_bytes());
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error),
        }
    }
}

impl Run for Check {
    fn run(self) -> ExitCode {
        check(&self)
    }
}

fn grants(args: &Grants) -> anyhow::Result<String> {
    let passwords = match &args.secrets_dir {
        None => Passwords::default(),
        Some(dir) => {
            anyhow::ensure!(dir.is_dir(), "there is no directory {}", dir.display());
            Passwords::read(dir)?
        }
    };
    Ok(roles::script(&args.database, &passwords))
}

fn check(args: &Check) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let differences = runtime
        .context("cannot start the runtime")
        .and_then(|runtime| runtime.block_on(roles::check(&args.store)).context("cannot use the database"));
    let differences = match differences {
        Ok(differences) => differences,
        Err(error) => {
            let _ = fail(&error);
            return ExitCode::from(EXIT_UNKNOWN);
        }
    };
    let text = if args.json {
        json!({ "ok": differences.is_empty(), "differences": differences }).to_string()
    } else if differences.is_empty() {
        "All roles and rights are as they should be.".to_owned()
    } else {
        let lines: String = differences.iter().map(|line| format!("{line}\n")).collect();
        format!(
            "{lines}\nThe plan applier corrects rights on tables when it starts. For everything else, execute as an \
             administrator the output of:\ndrover operator postgres grants"
        )
    };
    let _ = writeln!(std::io::stdout(), "{text}");
    if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DIFFERS) }
}

/// Checks that the name of a database needs no escaping anywhere.
fn database(name: &str) -> Result<String, String> {
    if roles::is_plain_name(name) {
        Ok(name.to_owned())
    } else {
        Err("expected at most 63 lower-case letters, digits and `_`, not beginning with a digit".to_owned())
    }
}
