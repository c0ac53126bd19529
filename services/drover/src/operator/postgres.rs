//! `drover operator postgres …`: the SQL that makes the roles, and whether a database has them as it should.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use store::roles::{self, Passwords};

use crate::process::fail;

/// What the exit code says where the database is not as it should be, and where that cannot be told.
const EXIT_DIFFERS: u8 = 1;
const EXIT_UNKNOWN: u8 = 2;

/// What can be done with the database's roles.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Prints the SQL that makes the roles and the database
    Grants(Grants),
    /// Asks a database whether roles and rights in it are as they should be
    Check(Check),
}

/// Prints the SQL that makes the database, a login role for each service and one for people, and takes from everybody else
/// what PostgreSQL gives to all. It is for psql, as a superuser or a role that may create roles and databases:
///
///   drover operator postgres grants -secrets-dir DIR | psql postgres://postgres@host/postgres
///
/// It may be run again at any time. Passwords are in it as SCRAM verifiers only. Rights on tables are brought up to date by the
/// plan applier, too, whenever it starts.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Grants {
    /// The database.
    #[arg(long, default_value = "drover", value_parser = database)]
    database: String,
    /// Directory with the passwords, in the files `<role>/postgres-password`, as `drover operator init` makes it. A role
    /// without one keeps the password that it has, if any; `\password` in psql gives it another.
    #[arg(long, value_name = "DIR")]
    secrets_dir: Option<PathBuf>,
}

/// Asks a database whether its roles, and what each of them may do with everything in it, are as they should be. Any role may
/// ask. The exit code is 0 if they are, 1 if not, and 2 if that cannot be told.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: store::Args,
}

pub(super) fn run(command: &Command) -> ExitCode {
    match command {
        Command::Grants(args) => match grants(args) {
            Ok(script) => {
                let _ = std::io::stdout().write_all(script.as_bytes());
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error),
        },
        Command::Check(args) => check(args),
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
        .context("cannot make a runtime")
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
            "{lines}\nThe plan applier corrects rights on tables when it starts. For everything else, run as an \
             administrator what this prints:\ndrover operator postgres grants"
        )
    };
    let _ = writeln!(std::io::stdout(), "{text}");
    if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DIFFERS) }
}

/// The name of a database that needs no escaping anywhere.
fn database(name: &str) -> Result<String, String> {
    if roles::is_plain_name(name) {
        Ok(name.to_owned())
    } else {
        Err("expected lower-case letters, digits and `_`, at most 63, and no digit in front".to_owned())
    }
}
