//! `drover operator accept-database`: continues with a database that lost acknowledged writes.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use model::HistoryId;
use store::Writer;

use super::run_async;
use crate::command::Run;

/// Accepts the current state of a database that the services refuse.
///
/// Services refuse a database that lost acknowledged writes, because a restore or a failover brought back an older state, and
/// one that was moved to another server. This command makes the cluster continue from the state that the database contains.
/// Acknowledged writes that it does not contain are lost for good.
#[derive(Debug, clap::Args)]
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
    if !args.yes && !confirm()? {
        anyhow::bail!("not confirmed: nothing was changed");
    }
    let writer = Writer::connect(&args.store).await.context("cannot use the database")?;
    let history = HistoryId::from_bytes(telemetry::clock::random_bytes());
    let head = writer.accept(history).await.context("cannot accept the database")?;
    Ok(format!(
        "The database is accepted with its current state, at index {}. Its new history is {history}.",
        head.index
    ))
}

/// Asks for confirmation on the terminal. Fails if there is none.
fn confirm() -> anyhow::Result<bool> {
    anyhow::ensure!(std::io::stdin().is_terminal(), "there is no terminal to ask for confirmation: use -yes");
    let mut out = std::io::stdout();
    write!(
        out,
        "Acknowledged writes that this database does not contain are lost for good. Accept it? [y/N] "
    )?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
