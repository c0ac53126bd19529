//! What operators do: to the database itself, whether the cluster runs or not, and over the API.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use model::HistoryId;
use store::Writer;

use crate::process::fail;

/// What can be done.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Accepts a database that lost acknowledged writes, or was moved, as it is now
    AcceptDatabase(AcceptDatabase),
    #[command(flatten)]
    OverApi(Box<crate::cli::operator::Command>),
}

/// Accepts a database that services refuse because it went back, by a restore or a bad failover, or was moved to another
/// server. What was acknowledged and is not in it is lost for good; everything goes on from what it holds.
#[derive(Debug, clap::Args)]
pub(crate) struct AcceptDatabase {
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    store: store::Args,
}

/// Begins a new history in the database as it is.
pub(crate) fn accept_database(args: &AcceptDatabase) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let accepted =
        runtime.context("cannot make a runtime").and_then(|runtime| runtime.block_on(accept(args)));
    match accepted {
        Ok(said) => {
            let _ = writeln!(std::io::stdout(), "{said}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

async fn accept(args: &AcceptDatabase) -> anyhow::Result<String> {
    if !args.yes && !confirmed()? {
        anyhow::bail!("nothing was changed");
    }
    let writer = Writer::connect(&args.store).await.context("cannot use the database")?;
    let history = HistoryId::from_bytes(telemetry::clock::random_bytes());
    let head = writer.accept(history).await.context("cannot accept the database")?;
    Ok(format!("The database is accepted as it is, at index {}. It begins history {history}.", head.index))
}

/// Asks on a terminal; where nobody can be asked, the answer is an error.
fn confirmed() -> anyhow::Result<bool> {
    anyhow::ensure!(std::io::stdin().is_terminal(), "say -yes where nobody can be asked");
    let mut out = std::io::stdout();
    write!(
        out,
        "Writes that were acknowledged and are not in this database are lost for good. Accept it? [y/N] "
    )?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
