//! `drover operator accept-database`: continues with a database that lost acknowledged writes.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail, ensure};
use jiff::Timestamp;
use model::HistoryId;
use store::roles::Role;
use store::{Error, Head, Writer};

use super::run_async;
use crate::command::Run;

/// Continues with a database that the plan applier refuses, from the state that it holds now.
///
/// The plan applier refuses a database that holds less than was acknowledged, because a backup was restored or a
/// standby was promoted that lacked the last writes, and one that was moved to another server. Writes that the database
/// does not hold are lost for good when it is accepted. Check first whether the database that holds them can be used
/// again.
///
/// Run it also after you restored a backup while no plan applier was running, because no plan applier can notice that.
///
/// It needs the login of the plan applier, the owner of the database. Plan appliers may run meanwhile. One of them
/// becomes active within seconds, and every service loads the state anew. Agents stop allocations that the database
/// does not hold.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("database_wait_secs", |arg| arg.default_value("5")),
    mut_arg("applier_lease_ms", |arg| arg.hide(true)),
    mut_arg("log_keep_secs", |arg| arg.hide(true)),
    mut_arg("log_max_mb", |arg| arg.hide(true))
)]
pub(crate) struct Args {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    store: store::Args,
}

impl Run for Args {
    fn run(self) -> ExitCode {
        run_async(accept(&self))
    }
}

/// Begins a new history at the database's current state, and returns a message that names it.
async fn accept(args: &Args) -> anyhow::Result<String> {
    let has_terminal = std::io::stdin().is_terminal();
    ensure!(args.yes || has_terminal, "there is no terminal to ask for confirmation: use -yes");
    let writer = Writer::connect(&args.store).await.context("cannot use the database")?;
    let address = writer.address();
    let (head, reason) = writer.inspect().await.map_err(|error| explain(error, &address))?;
    if !args.yes && !confirm(&question(&address, &head, reason.as_deref()))? {
        bail!("not confirmed: nothing was changed");
    }
    let history = HistoryId::from_bytes(telemetry::clock::random_bytes());
    let head = writer.accept(history).await.map_err(|error| explain(error, &address))?;
    Ok(format!(
        "The database {address} is accepted with its current state, at index {}. Its new history is {history}.\n\
         A plan applier that runs becomes active within seconds; otherwise start one.",
        head.index
    ))
}

/// A description of a database, and the question whether to accept it.
fn question(address: &str, head: &Head, reason: Option<&str>) -> String {
    let at = Timestamp::from_nanosecond(head.at.0.into()).unwrap_or_default();
    let at = at.strftime("%Y-%m-%dT%H:%M:%SZ");
    let reason = match reason {
        Some(reason) => format!("It is refused: {reason}."),
        None => "Nothing refuses it. Accept it only if you restored it from a backup.".to_owned(),
    };
    format!(
        "The database {address} is at index {}, written at {at}, in the history {}.\n{reason}\n\
         Acknowledged writes that it does not hold are lost for good. Accept it?",
        head.index, head.history
    )
}

/// Says what an operator can do about an error.
fn explain(error: Error, address: &str) -> anyhow::Error {
    let advice = if let Error::Forbidden { role, .. } = &error {
        let owner = Role::PlanApplier.name();
        format!("log in as {owner}, the owner of the database, instead of {role}")
    } else if let Error::NotPrimary = &error {
        format!("{address} cannot be written to: connect to the primary, or promote this server first")
    } else if let Error::Schema { found: 0, .. } = &error {
        format!("{address} is not the database of a cluster: check DROVER_DATABASE_URL")
    } else {
        return anyhow!(error).context("cannot accept the database");
    };
    anyhow!(error).context(advice).context("cannot accept the database")
}

/// Asks for confirmation on the terminal.
fn confirm(question: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout();
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use model::{Epoch, Index, ProcessId};

    use super::*;

    #[test]
    fn the_question_says_which_database_it_is_and_what_is_known_of_it() {
        let head = Head {
            history: HistoryId::from_bytes([1; 16]),
            index: Index(611),
            at: model::Timestamp::from_secs(1_767_225_600),
            epoch: Epoch(3),
            applier: ProcessId::from_bytes([2; 16]),
            began: None,
        };
        let reason = "the database went back from index 616 to 611: acknowledged writes are lost";
        insta::assert_snapshot!(question("db:5432/drover", &head, Some(reason)), @r"
        The database db:5432/drover is at index 611, written at 2026-01-01T00:00:00Z, in the history 01010101-0101-0101-0101-010101010101.
        It is refused: the database went back from index 616 to 611: acknowledged writes are lost.
        Acknowledged writes that it does not hold are lost for good. Accept it?
        ");
        let text = question("db:5432/drover", &head, None);
        assert!(text.contains("Nothing refuses it"), "{text}");
    }

    #[test]
    fn errors_say_what_to_do() {
        let text = |error| format!("{:#}", explain(error, "db:5432/drover"));
        let forbidden = Error::Forbidden {
            role: "drover_api".to_owned(),
            action: "begin a new history",
            refusal: "permission denied for table head".to_owned(),
        };
        assert!(
            text(forbidden)
                .starts_with("cannot accept the database: log in as drover_plan_applier, the owner")
        );
        assert!(text(Error::NotPrimary).contains("connect to the primary"));
        assert!(text(Error::Schema { needed: 9, found: 0 }).contains("check DROVER_DATABASE_URL"));
    }
}
